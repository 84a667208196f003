package demo

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/wave"
)

// The incident of seed 000: 882 vote pages of a fragile site that answers 503
// for some minutes in the middle of the scrape.
const (
	votePages   = 882
	outageStart = 40 * time.Second
	outageLast  = 230 * time.Second
)

// statehouse fetches the site twice: with three tries a page, then with the
// seed's waves on top.
func statehouse(ctx context.Context, o Options) error {
	heading(o, "882 pages of a fragile site (seed 000)",
		fmt.Sprintf("5 workers, 150 ms apart; the site answers 503 for %s", outageLast))
	waves, err := policy.Preset("scrape")
	if err != nil {
		return err
	}
	tries := waves
	tries.Waves = policy.Waves{}
	for _, run := range []struct {
		name   string
		policy policy.Policy
	}{{"three tries a page", tries}, {"scrape: three tries, then waves", waves}} {
		s, err := newSite(ctx, o.Speed)
		if err != nil {
			return err
		}
		report, err := wave.Run(ctx, s.pages(), s.get, &run.policy, wave.Config{Clock: s.clock, Seed: o.Seed})
		s.close()
		if err != nil {
			return err
		}
		fmt.Fprintf(o.Out, "  %-32s lost %3d of %d pages; %d requests fell into the outage; %s of policy time\n",
			run.name, len(report.Failed()), votePages, s.refused, s.clock.Now().Sub(s.clock.Start).Round(time.Second))
		for _, w := range report.Waves {
			fmt.Fprintf(o.Out, "      wave %d: %d pages tried again, %d recovered\n", w.Number, w.Tried, w.Recovered)
		}
	}
	return nil
}

// site is a server with an outage on the scaled clock.
type site struct {
	*server
	clock clock.Scaled

	mu      sync.Mutex
	refused int
}

func newSite(ctx context.Context, speed float64) (*site, error) {
	s := &site{clock: clock.Scaled{Start: time.Now(), Factor: speed}}
	var err error
	s.server, err = listen(ctx, s.serve)
	return s, err
}

func (s *site) serve(w http.ResponseWriter, r *http.Request) {
	at := s.clock.Now().Sub(s.clock.Start)
	if at >= outageStart && at < outageStart+outageLast {
		s.mu.Lock()
		s.refused++
		s.mu.Unlock()
		http.Error(w, "buckled", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintf(w, "<h1>%s</h1>", r.URL.Path)
}

func (s *site) pages() []string {
	paths := make([]string, votePages)
	for i := range paths {
		paths[i] = fmt.Sprintf("/votes/%d", i+1)
	}
	return paths
}

func (s *site) get(ctx context.Context, path string) (struct{}, error) {
	return struct{}{}, s.call(ctx, path)
}
