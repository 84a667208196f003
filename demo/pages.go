package demo

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/work/fetch"
	"github.com/ebbhq/ebb/work/fetch/input"
)

// The incident of seed 000: vote pages of a fragile site that answers 503
// for some minutes in the middle of the scrape.
const (
	outageStart = 40 * time.Second
	outageLast  = 230 * time.Second
)

// pages fetches the site: in our world under `polite`, before under three
// tries a page.
func pages(ctx context.Context, w *world) (result, error) {
	site, err := newSite(ctx, w.clock)
	if err != nil {
		return result{}, err
	}
	defer site.close()
	p := w.rule("polite")
	if w.foil {
		p = w.rule("scrape")
	}
	r, err := fetch.Open(ctx, fetch.Options{
		Store: w.store, Name: "votes", Policy: p, Exclusive: false, Clock: w.clock, Seed: w.seed,
		Waiver: "a site of our own, on loopback", Watch: w.counts.observe,
	})
	if err != nil {
		return result{}, err
	}
	items := func(yield func(input.Item, error) bool) {
		for i := range w.size.pages {
			if !yield(input.Item{URL: fmt.Sprintf("%s/votes/%d", site.base, i+1)}, nil) {
				return
			}
		}
	}
	if err := r.Load(ctx, items); err != nil {
		return result{}, err
	}
	if err := r.Run(ctx); err != nil {
		return result{}, err
	}
	f := r.Fetch()
	tally, err := fetch.Count(ctx, w.store, &f)
	if err != nil {
		return result{}, err
	}
	if err := tally.Check(); err != nil {
		return result{}, err
	}
	k := w.counts.seen(fetch.Kind)
	return result{
		asked:  fmt.Sprintf("%d pages; the site answers 503 for %s", w.size.pages, policy.FormatDuration(outageLast)),
		failed: k.failures() + "; " + k.retries(),
		lost:   w.size.pages - int(tally.OK),
		said:   fmt.Sprintf("%d requests fell into the outage", site.refused.Load()),
	}, nil
}

// site is a server with an outage on the scaled clock.
type site struct {
	*server
	clock   clock.Clock
	began   time.Time
	refused atomic.Int64
}

func newSite(ctx context.Context, c clock.Clock) (*site, error) {
	s := &site{clock: c, began: c.Now()}
	var err error
	s.server, err = listen(ctx, s.serve)
	return s, err
}

func (s *site) serve(w http.ResponseWriter, r *http.Request) {
	at := s.clock.Now().Sub(s.began)
	switch {
	case r.URL.Path == "/robots.txt":
		http.NotFound(w, r)
	case at >= outageStart && at < outageStart+outageLast:
		s.refused.Add(1)
		http.Error(w, "buckled", http.StatusServiceUnavailable)
	default:
		fmt.Fprintf(w, "<title>%[1]s</title><h1>%[1]s</h1>", r.URL.Path)
	}
}
