package fetch

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/mccutchen/go-httpbin/v2/httpbin"
	"github.com/rs/zerolog"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/store/memory"
)

// toxic is a proxy before the server that does one thing wrong.
func toxic(t *testing.T, upstream, name, attributes string) string {
	t.Helper()
	silent := zerolog.Nop()
	p := toxiproxy.NewProxy(toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), silent), name, "127.0.0.1:0", upstream)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	if _, err := p.Toxics.AddToxicJson(strings.NewReader(fmt.Sprintf(`{"name":%q,"type":%q,"stream":"downstream","toxicity":1,"attributes":%s}`, name, name, attributes))); err != nil {
		t.Fatal(err)
	}
	return "http://" + p.Listen
}

// Servers and proxies that others wrote produce the failures, and each has its
// class.
func TestForeignFailuresHaveTheirClass(t *testing.T) {
	bin := httptest.NewServer(httpbin.New(httpbin.WithMaxBodySize(1 << 20)))
	defer bin.Close()
	upstream := strings.TrimPrefix(bin.URL, "http://")
	gone := toxiproxy.NewProxy(toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()), "gone", "127.0.0.1:0", upstream)
	if err := gone.Start(); err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + gone.Listen
	gone.Stop()
	want := map[string]string{
		bin.URL + "/status/500":   "server",
		bin.URL + "/status/502":   "server",
		bin.URL + "/status/503":   "server",
		bin.URL + "/status/429":   "throttled",
		bin.URL + "/status/408":   "request_timeout",
		bin.URL + "/status/425":   "too_early",
		bin.URL + "/status/404":   "rejected",
		bin.URL + "/status/403":   "rejected",
		bin.URL + "/status/410":   "gone",
		bin.URL + "/status/204":   "empty",
		bin.URL + "/redirect/20":  "redirect",
		bin.URL + "/bytes/100000": "too_large",
		bin.URL + "/gzip":         "",
		bin.URL + "/redirect/3":   "",
		bin.URL + "/html":         "",
		nobody + "/html":          "refused",
		toxic(t, upstream, "reset_peer", `{"timeout":0}`) + "/html":    "reset",
		toxic(t, upstream, "timeout", `{"timeout":0}`) + "/html":       "header_timeout",
		toxic(t, upstream, "limit_data", `{"bytes":400}`) + "/html":    "short_body",
		toxic(t, upstream, "bandwidth", `{"rate":1}`) + "/bytes/50000": "body_timeout",
	}
	var list []string
	for url := range want {
		list = append(list, url)
	}
	got := firstEvents(t, Options{Name: "foreign", Clock: clock.Scaled{Start: twentyfold().Now(), Factor: 20}}, list)
	for url, class := range want {
		if got[url].Class != class {
			t.Errorf("%s: %q, want %q", url, got[url].Class, class)
		}
	}
}

// firstEvents fetches the URLs and returns what came of each first: its page or
// its first failure. It stops when it knows of all.
func firstEvents(t *testing.T, o Options, list []string) map[string]Event {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var mu sync.Mutex
	got := map[string]Event{}
	s := memory.New(memory.Config{})
	defer s.Close()
	o.Store, o.Policy, o.Waiver, o.MaxBody = s, rapidly(t), "a test on loopback", 60_000
	o.Observe = func(e Event) {
		if e.Type != EventRetry && e.Type != EventPage {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if _, known := got[e.URL]; !known {
			got[e.URL] = e
		}
		if len(got) == len(list) {
			cancel()
		}
	}
	r, err := Open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Load(ctx, urls(list...)); err != nil {
		t.Fatal(err)
	}
	if err := r.Run(ctx); err != nil && ctx.Err() == nil {
		t.Fatal(err)
	}
	return got
}
