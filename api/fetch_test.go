package api_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/api"
	"github.com/ebbhq/ebb/store/memory"
	"github.com/ebbhq/ebb/work/fetch"
)

func TestServerWithoutFetches(t *testing.T) {
	b := newBench(t)
	b.refused(b.do(b.token("all", access.Admin), "GET", "/v1/fetches", ""), 404, "no_fetches")
}

// A fetch by order: begun, listed, shown with its account, retried.
func TestFetches(t *testing.T) {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/a" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		fmt.Fprint(w, "a page")
	}))
	defer site.Close()
	s := memory.New(memory.Config{})
	service := fetch.NewService(fetch.ServiceConfig{Store: s, Settings: fetch.Settings{Dir: t.TempDir()}})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- service.Run(ctx) }()
	b := newBenchOn(t, s, func(c *api.Config, _ *api.LeasesConfig) { c.Fetches = service })
	producer, operator := b.token("in", access.Produce), b.token("ops", access.Operate)
	b.waitFor(func() bool {
		_, err := service.Start(t.Context(), fetch.Order{Name: "first", URLs: []string{site.URL + "/a"}})
		return err == nil || errors.Is(err, fetch.ErrBusy)
	})
	f := want[fetch.Fetch](b, b.do(producer, "POST", "/v1/fetches", fmt.Sprintf(`{"name": "votes", "urls": [%q, %q]}`, site.URL+"/a", site.URL+"/b")), 200)
	if f.ID != "votes.000001" || f.Input != 2 {
		t.Errorf("began %+v", f)
	}
	b.waitFor(func() bool {
		f = want[fetch.Fetch](b, b.do(operator, "GET", "/v1/fetches/"+f.ID, ""), 200)
		return f.Phase == fetch.Ended
	})
	if f.Tally.OK != 1 || f.Tally.Permanent != 1 {
		t.Errorf("account %+v", f.Tally)
	}
	if list := want[api.FetchList](b, b.do(operator, "GET", "/v1/fetches", ""), 200); len(list.Fetches) != 2 || list.Fetches[0].ID != f.ID {
		t.Errorf("listed %+v", list)
	}
	b.refused(b.do(producer, "POST", "/v1/fetches", `{"name": "../x", "urls": ["http://x/"]}`), 422, "invalid")
	b.refused(b.do(operator, "GET", "/v1/fetches/none.1", ""), 404, "not_found")
	b.refused(b.do(operator, "POST", "/v1/fetches/"+f.ID+"/retry", `{"classes": ["bogus"]}`), 422, "invalid")
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
