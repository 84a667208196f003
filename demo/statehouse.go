package demo

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/failure"
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
		report, err := wave.Run(ctx, s.urls(), s.get, &run.policy, wave.Config{Clock: s.clock, Seed: o.Seed})
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

// site is a real server on loopback with an outage on the scaled clock.
type site struct {
	clock  clock.Scaled
	server *http.Server
	base   string
	client *http.Client

	mu      sync.Mutex
	refused int
}

func newSite(ctx context.Context, speed float64) (*site, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &site{
		clock:  clock.Scaled{Start: time.Now(), Factor: speed},
		base:   "http://" + l.Addr().String(),
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}},
	}
	s.server = &http.Server{Handler: http.HandlerFunc(s.serve), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.server.Serve(l) }() // ends with close
	return s, nil
}

func (s *site) close() {
	s.client.CloseIdleConnections()
	_ = s.server.Close() // loopback, nothing is left to lose
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

func (s *site) urls() []string {
	urls := make([]string, votePages)
	for i := range urls {
		urls[i] = fmt.Sprintf("%s/votes/%d", s.base, i+1)
	}
	return urls
}

func (s *site) get(ctx context.Context, url string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close() //nolint:errcheck // read to its end below
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return 0, failure.During(failure.PhaseBody, err)
	}
	if f, bad := failure.Response(resp, time.Now()); bad {
		return 0, &failure.Error{Failure: f}
	}
	return len(body), nil
}
