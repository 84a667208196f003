package fetch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/policy"
)

// The seed's own shape: callers see one result per URL and nothing of waves.
func TestMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := time.Now().Add(2 * time.Minute)
		site := &fake{took: time.Millisecond, answer: func(path string, at time.Time) (int, error) {
			switch {
			case path == "/gone":
				return 410, nil
			case at.Before(up):
				return 502, nil
			}
			return 200, nil
		}}
		list := []string{"http://site.test/a", "http://SITE.test/a#x", "http://site.test/gone", "no url", "http://site.test/b"}
		results, err := Many(t.Context(), list, policy.MustPreset("scrape"), func(o *Options) { o.Transport, o.Seed = site, 1 })
		if err != nil || len(results) != len(list) {
			t.Fatalf("%d results, %v", len(results), err)
		}
		want := []Outcome{OK, OK, Permanent, Permanent, OK}
		for i, r := range results {
			if r.URL != list[i] || r.Outcome != want[i] || (r.Err == nil) != (want[i] == OK) || want[i] == OK && string(r.Body) != "page" {
				t.Errorf("%d: %+v, want %s", i, r, want[i])
			}
		}
		if results[2].Class != failure.Gone || results[3].Class != failure.InvalidInput {
			t.Errorf("classes %s, %s", results[2].Class, results[3].Class)
		}
		if took := time.Since(up.Add(-2 * time.Minute)); took < 90*time.Second || took > 5*time.Minute {
			t.Errorf("took %s of virtual time", took)
		}
	})
}

// The end of the context ends the work; what was done is told.
func TestManyIsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		site := &fake{took: time.Millisecond, answer: func(path string, _ time.Time) (int, error) {
			if path == "/page/3" {
				cancel()
			}
			return 200, nil
		}}
		results, err := Many(ctx, pagesOf("http://site.test", 20), policy.MustPreset("scrape"), func(o *Options) { o.Transport = site })
		if !errors.Is(err, ctx.Err()) || err == nil {
			t.Fatalf("ended with %v", err)
		}
		ok, pending := 0, 0
		for i, r := range results {
			switch r.Outcome {
			case OK:
				ok++
			case Pending:
				pending++
			default:
				t.Errorf("%d: %+v", i, r)
			}
		}
		if ok < 3 || ok+pending != 20 {
			t.Errorf("%d ok, %d pending", ok, pending)
		}
	})
}

func ExampleMany() {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/nothing" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		fmt.Fprintf(w, "hello from %s", r.URL.Path)
	}))
	defer site.Close()
	results, err := Many(context.Background(), []string{site.URL + "/a", site.URL + "/nothing"}, policy.MustPreset("scrape"))
	if err != nil {
		fmt.Println(err)
	}
	for _, r := range results {
		fmt.Printf("%s %q\n", r.Outcome, r.Body)
	}
	// Output:
	// ok "hello from /a"
	// permanent ""
}
