package simulate_test

import (
	"testing"
	"time"

	"github.com/ebbhq/ebb/simulate"
)

// fanOut is a front that asks so many leaves at once for each job.
func fanOut(tb testing.TB, calling int, leaf simulate.Downstream) simulate.Scenario {
	s := batchOf(1, calls(once(tb), "server"), simulate.Downstream{
		Calls: []simulate.Dependency{{Client: calls(once(tb), "leaf"), Calls: calling, Parallel: true}},
	})
	leaf.Name = "leaf"
	s.Downstreams = append(s.Downstreams, leaf)
	return s
}

// TestFanOut: the slowest of a hundred answers decides. The mean of the
// greatest of n exponential times is the n-th harmonic number of means; and
// where one answer in a hundred takes a second, so do 1 − 0.99¹⁰⁰ = 63 % of
// the requests.
func TestFanOut(t *testing.T) {
	harmonic := 0.0
	for n := 1; n <= 100; n++ {
		harmonic += 1 / float64(n)
	}
	tail := simulate.Dist{Kind: simulate.Mixture, Parts: []simulate.Part{
		{Weight: 99, Dist: simulate.Always(10 * ms)}, {Weight: 1, Dist: simulate.Always(time.Second)},
	}}
	const slow = 1 - 0.3660323412732292 // 0.99¹⁰⁰
	for want, service := range map[float64]simulate.Dist{
		harmonic * 0.01:      simulate.Exp(10 * ms),
		slow + 0.01*(1-slow): tail,
		0.01:                 simulate.Always(10 * ms),
	} {
		s := fanOut(t, 100, simulate.Downstream{Service: service})
		s.Callers[0].Arrivals[0].Jobs = 500
		within(t, run(t, s, 10), "caller/caller/jobs.mean", want, 0.03)
	}
}

// TestFanOutFails: one call that fails for good fails the request, when the
// last has ended.
func TestFanOutFails(t *testing.T) {
	s := fanOut(t, 4, simulate.Downstream{
		Servers: 1, Service: simulate.Always(time.Second),
		Faults: []simulate.Fault{{Kind: simulate.FaultServed, Until: 500 * ms}}, // the first of the four
	})
	o := run(t, s, 1).Runs[0]
	if c := o.Caller("caller"); c.Totals.Dead != 1 || c.Calls.Max != 4 || c.Failures[0].Status != 502 {
		t.Errorf("caller: %+v %+v", c.Totals, c.Calls)
	}
	if c := o.Caller("server/leaf").Totals; c.Jobs != 4 || c.Succeeded != 3 || c.Dead != 1 {
		t.Errorf("calls: %+v", c)
	}
}

// TestFanOutCancelled: who gives up takes all the calls along.
func TestFanOutCancelled(t *testing.T) {
	s := fanOut(t, 4, simulate.Downstream{Servers: 2, Service: simulate.Always(time.Minute), Abandoned: simulate.Cancel})
	s.Downstreams[0].Abandoned = simulate.Cancel
	limit := simulate.Always(time.Second)
	s.Callers[0].Timeout = &limit
	o := run(t, s, 1).Runs[0]
	if o.EndedAt != 1 || o.Downstream("leaf").Totals.Dropped != 4 || o.Caller("server/leaf").Totals.Unfinished != 0 {
		t.Errorf("ended at %v: %+v, calls %+v", o.EndedAt, o.Downstream("leaf").Totals, o.Caller("server/leaf").Totals)
	}
}
