package webhook

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/worker"
)

// scale is n in `make test-webhook`, and a part of it in the normal tests.
func scale(n, part int) int {
	if os.Getenv("EBB_WEBHOOK") == "full" {
		return n
	}
	return n / part
}

// lags are how late the starts of the n-th attempt were.
func (r *rig) starts(attempt int) (delays, lags []time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ended := map[int64]time.Time{}
	for _, e := range r.events {
		switch {
		case e.What == worker.Settled && e.Job.History.Attempts+1 == attempt-1:
			ended[e.Job.Seq] = e.At
		case e.What == worker.Started && e.Job.History.Attempts+1 == attempt:
			delays = append(delays, e.Job.DueAt.Sub(ended[e.Job.Seq]))
			lags = append(lags, e.At.Sub(e.Job.DueAt))
		}
	}
	return delays, lags
}

func quantile(d []time.Duration, q float64) time.Duration {
	d = slices.Sorted(slices.Values(d))
	return d[min(len(d)-1, int(q*float64(len(d))))]
}

// All endpoints fail at once, one delivery each: their first retries are
// spread over the whole band of 48 to 72 s and start when they are due.
func TestHerd(t *testing.T) {
	n := scale(5000, 10)
	synctest.Test(t, func(t *testing.T) {
		where := func(*Config, *worker.Config) {}
		if n > 1000 { // the store in memory looks at every lane
			where = onDisk(t)
		}
		r := newRig(t, where)
		r.pipe(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }))
		for i := range n {
			r.add(NewEndpoint{URL: fmt.Sprintf("http://host-%d.example/", i)})
		}
		event := r.send(Message{Type: "all.fail", Payload: []byte(`{}`)})
		if event.Fanout != n {
			t.Fatalf("sent to %d, want %d", event.Fanout, n)
		}
		pass(80 * time.Second)
		delays, lags := r.starts(2)
		if len(delays) != n {
			t.Fatalf("%d first retries after 80 s, want %d", len(delays), n)
		}
		// Each twelfth of the band has its share, within four standard
		// deviations and a half.
		var parts [12]int
		for _, d := range delays {
			if d < 48*time.Second || d > 72*time.Second {
				t.Fatalf("a first retry after %s, want 48 to 72 s", d)
			}
			parts[min(11, int((d-48*time.Second)/(2*time.Second)))]++
		}
		want := float64(n) / 12
		for i, got := range parts {
			if slack := 4.5 * math.Sqrt(want); float64(got) < want-slack || float64(got) > want+slack {
				t.Errorf("%d retries in part %d of the band, want %.0f ± %.0f: %v", got, i, want, slack, parts)
			}
		}
		p99 := quantile(lags, 0.99)
		t.Logf("%d endpoints: first retries from %s to %s; start lag p50 %s, p99 %s", n, slices.Min(delays), slices.Max(delays), quantile(lags, 0.5), p99)
		if p99 >= time.Second {
			t.Errorf("start lag p99 %s, want under 1 s", p99)
		}
	})
}

// neighbours is how an endpoint that answers after 50 ms fares, with a
// neighbour that swallows what it gets or without.
func neighbours(t *testing.T, dead int) (latencies []time.Duration, most int, depths map[time.Duration]int) {
	depths = map[time.Duration]int{}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.pipe(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if strings.HasPrefix(req.Host, "dead") {
				_, _ = io.Copy(io.Discard, req.Body) // only then is a hang-up heard
				<-req.Context().Done()
				return
			}
			pass(50 * time.Millisecond)
		}))
		calls := &meter{next: r.call, host: "dead.example"}
		r.call = calls
		well, _ := r.add(NewEndpoint{URL: "http://well.example/", Types: []string{"well"}})
		hole, _ := r.add(NewEndpoint{URL: "http://dead.example/", Types: []string{"dead"}})
		for range dead {
			r.send(Message{Type: "dead", Payload: []byte(`{}`)})
		}
		// 90 minutes: the well one gets two events a second for a while at the
		// beginning, and again in the middle of the trouble.
		start := time.Now()
		for _, at := range []time.Duration{0, 20 * time.Minute} {
			pass(time.Until(start.Add(at)))
			for range 200 {
				r.send(Message{Type: "well", Payload: []byte(`{}`)})
				pass(500 * time.Millisecond)
			}
		}
		for _, at := range []time.Duration{75 * time.Minute, 90 * time.Minute} {
			pass(time.Until(start.Add(at)))
			depths[at] = r.depth(hole.ID)
		}
		latencies, most = r.latencies(well.ID), calls.most
	})
	return latencies, most, depths
}

// meter knows how many calls to a host were under way at once, at most.
type meter struct {
	next http.RoundTripper
	host string

	mu           sync.Mutex
	inside, most int
}

func (m *meter) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Host == m.host {
		m.step(1)
		defer m.step(-1)
	}
	return m.next.RoundTrip(req)
}

func (m *meter) step(by int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.inside += by
	m.most = max(m.most, m.inside)
}

// depth counts what still waits or runs for the endpoint.
func (r *rig) depth(endpoint string) int {
	r.t.Helper()
	n := 0
	for _, state := range []job.State{job.Queued, job.Running} {
		for cursor := ""; ; {
			part, err := r.Deliveries(r.t.Context(), DeliveryFilter{Endpoint: endpoint, State: state}, engine.Page{Limit: 1000, Cursor: cursor})
			if err != nil {
				r.t.Fatal(err)
			}
			n += len(part.Deliveries)
			if cursor = part.Next; cursor == "" {
				break
			}
		}
	}
	return n
}

// latencies are how long the endpoint's deliveries took from their enqueue to
// their success; one that did not succeed fails the test.
func (r *rig) latencies(endpoint string) []time.Duration {
	r.t.Helper()
	var list []time.Duration
	for cursor := ""; ; {
		part, err := r.Deliveries(r.t.Context(), DeliveryFilter{Endpoint: endpoint}, engine.Page{Limit: 1000, Cursor: cursor})
		if err != nil {
			r.t.Fatal(err)
		}
		for _, d := range part.Deliveries {
			if d.State != job.Succeeded || d.Attempts != 1 {
				r.t.Errorf("a delivery to the well endpoint is %s after %d attempts: %s", d.State, d.Attempts, d.LastError)
			}
			list = append(list, d.EndedAt.Sub(d.CreatedAt))
		}
		if cursor = part.Next; cursor == "" {
			return list
		}
	}
}

// One endpoint swallows all: its neighbour does not notice, it is never called
// beyond its cap, and what waits for it does not wait for ever.
func TestBlackHole(t *testing.T) {
	n := scale(10_000, 10)
	solo, _, _ := neighbours(t, 0)
	beside, most, depths := neighbours(t, n)
	if len(solo) != 400 || len(beside) != 400 {
		t.Fatalf("%d deliveries alone, %d beside, want 400 each", len(solo), len(beside))
	}
	alone, now := quantile(solo, 0.95), quantile(beside, 0.95)
	t.Logf("%d deliveries into the hole: p95 beside it %s, alone %s; at most %d calls at once; waiting after 75 min %d, after 90 min %d",
		n, now, alone, most, depths[75*time.Minute], depths[90*time.Minute])
	if float64(now) > 1.2*float64(alone) {
		t.Errorf("p95 %s beside the dead endpoint, %s alone: more than 1.2 times", now, alone)
	}
	if limit := policy.MustPreset(PolicyName).PerTarget.Concurrency; most > limit {
		t.Errorf("%d calls at once into the hole, want %d at most", most, limit)
	}
	// All but what probes the hole is parked.
	if most := n / 20; depths[75*time.Minute] > most || depths[90*time.Minute] > most {
		t.Errorf("depth %d after 75 minutes and %d after 90, want %d at most", depths[75*time.Minute], depths[90*time.Minute], most)
	}
}
