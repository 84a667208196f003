package simulate_test

import (
	"math"
	"testing"
	"time"

	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/simulate"
)

// failing is a downstream that takes no time and fails by a probability.
func failing(p float64) simulate.Downstream {
	return simulate.Downstream{Faults: []simulate.Fault{{Kind: simulate.FaultError, Probability: simulate.Constant(p)}}}
}

// batchOf is n jobs at once, until all have ended.
func batchOf(n int64, c simulate.Client, d simulate.Downstream) simulate.Scenario {
	d.Name = "server"
	return simulate.Scenario{
		Name: "batch",
		Callers: []simulate.Caller{{
			Name: "caller", Client: c, Arrivals: []simulate.Arrivals{{Kind: simulate.Batch, Jobs: n}},
		}},
		Downstreams: []simulate.Downstream{d},
	}
}

// TestTriesAtFailureProbability: n tries at failure probability f succeed
// with 1−fⁿ and take (1−fⁿ)/(1−f) calls a job.
func TestTriesAtFailureProbability(t *testing.T) {
	for _, c := range []struct {
		f float64
		n int
	}{{0.5, 3}, {0.2, 4}, {0.9, 6}} {
		for _, mode := range []simulate.Mode{simulate.InProcess, simulate.Durable} {
			s := batchOf(5000, calls(tries(t, c.n, time.Second), "server"), failing(c.f))
			s.Callers[0].Mode = mode
			r := run(t, s, 10)
			dead := math.Pow(c.f, float64(c.n))
			within(t, r, "caller/caller/success_share", 1-dead, 0.02)
			within(t, r, "caller/caller/amplification", (1-dead)/(1-c.f), 0.02)
			within(t, r, "downstream/server/amplification", (1-dead)/(1-c.f), 0.02)
		}
	}
}

func TestAlwaysFailingAndNever(t *testing.T) {
	o := run(t, batchOf(10, calls(tries(t, 4, time.Second), "server"), failing(1)), 1).Runs[0]
	c := o.Caller("caller")
	if got := c.Totals; got.Calls != 40 || got.Dead != 10 || got.Retries != 30 || got.Firsts != 10 || got.Amplification != 4 {
		t.Errorf("totals %+v", got)
	}
	if o.EndedAt != 3 || c.Totals.LastEnd != 3 {
		t.Errorf("ended at %v, the last job at %v; three delays of 1 s", o.EndedAt, c.Totals.LastEnd)
	}
	if d := c.DeadLetters; len(d) != 1 || d[0].Cause != "exhausted" || d[0].Class != "server" || d[0].Jobs != 10 || d[0].FirstAt != 3 {
		t.Errorf("dead letters %+v", d)
	}
	for i := range c.Intervals {
		if h := c.Intervals[i]; h.Count != 10 || h.Mean != 1 || h.SD != 0 || h.P99 != 1 {
			t.Errorf("interval before start %d: %+v", i+2, h)
		}
	}
	if c.Totals.PeakCalls != 10 || len(c.Intervals) != 3 {
		t.Errorf("peak %d a second, %d intervals", c.Totals.PeakCalls, len(c.Intervals))
	}
}

// TestLayersMultiply: tries of layers multiply, exactly.
func TestLayersMultiply(t *testing.T) {
	for _, c := range []struct{ tries, layers, want int }{{3, 3, 27}, {4, 3, 64}, {3, 2, 9}} {
		p := tries(t, c.tries, 10*ms)
		s := batchOf(50, calls(p, "layer1"), simulate.Downstream{})
		s.Downstreams = nil
		for n := 1; n < c.layers; n++ {
			s.Downstreams = append(s.Downstreams, simulate.Downstream{
				Name: name("layer", n), Service: simulate.Always(ms),
				Calls: []simulate.Dependency{{Client: calls(p, name("layer", n+1))}},
			})
		}
		last := failing(1)
		last.Name = name("layer", c.layers)
		s.Downstreams = append(s.Downstreams, last)
		o := run(t, s, 1).Runs[0]
		bottom := o.Downstream(name("layer", c.layers)).Totals
		if bottom.Requests != int64(50*c.want) || bottom.Amplification != float64(c.want) {
			t.Errorf("%d layers of %d tries: %d requests for 50 jobs, amplification %v, want %d", c.layers, c.tries, bottom.Requests, bottom.Amplification, c.want)
		}
		top := o.Caller("caller")
		if top.Totals.Dead != 50 || top.Failures[0].Status != 502 {
			t.Errorf("caller: %+v %+v", top.Totals, top.Failures)
		}
		if inner := o.Caller("layer1/layer2"); !inner.Layer || inner.Totals.Jobs != int64(50*c.tries) {
			t.Errorf("layer: %+v", inner.Totals)
		}
	}
}

func name(prefix string, n int) string { return prefix + string(rune('0'+n)) }

// TestJitter: mean and variance of each jitter's delays.
func TestJitter(t *testing.T) {
	const base, jobs = 8.0, 100_000
	for _, c := range []struct {
		jitter         policy.Jitter
		mean, variance float64
	}{
		{policy.Jitter{Kind: policy.JitterNone}, base, 0},
		{policy.Jitter{Kind: policy.JitterFull}, base / 2, base * base / 12},
		{policy.Jitter{Kind: policy.JitterEqual}, base * 3 / 4, base * base / 48},
		{policy.Jitter{Kind: policy.JitterProportional, Ratio: 0.2}, base, 0.4 * base * 0.4 * base / 12},
		{policy.Jitter{Kind: policy.JitterAdditive, Ratio: 0.5}, base * 1.25, 0.5 * base * 0.5 * base / 12},
		{policy.Jitter{Kind: policy.JitterDecorrelated}, base * 2, 4 * base * base / 12}, // base..3×base before try 2
	} {
		p := tries(t, 2, 8*time.Second, func(p *policy.Policy) { p.Backoff.Jitter = c.jitter })
		h := run(t, batchOf(jobs, calls(p, "server"), failing(1)), 1).Runs[0].Caller("caller").Intervals[0]
		// Four standard errors of the mean, and of the variance of a uniform.
		tolerance := 4 * math.Sqrt(c.variance/jobs)
		if math.Abs(h.Mean-c.mean) > tolerance+1e-9 {
			t.Errorf("%s: mean %v, want %v ± %v", c.jitter.Kind, h.Mean, c.mean, tolerance)
		}
		if got := h.SD * h.SD; math.Abs(got-c.variance) > 4*c.variance*math.Sqrt(0.8/jobs)+1e-9 {
			t.Errorf("%s: variance %v, want %v", c.jitter.Kind, got, c.variance)
		}
	}
}

// TestAbandonedWork: a call that timed out is served all the same, for
// nobody, and the retry waits behind it; unless the server learns of it.
func TestAbandonedWork(t *testing.T) {
	p := tries(t, 2, 500*ms, func(p *policy.Policy) { p.Timeout = 2 * time.Second })
	for _, c := range []struct {
		abandoned                simulate.Abandoned
		busy                     float64
		wasted, dropped, success int64
	}{
		// Service takes 3 s. Try 1 from 0 to its timeout at 2; try 2 from 2.5
		// to 4.5 waits for the server until 3 and is cut off at 4.5.
		{simulate.Serve, 6, 2, 0, 0},
		{simulate.Skip, 6, 2, 0, 0},
		{simulate.Remove, 6, 2, 0, 0},
		{simulate.Cancel, 4, 0, 2, 0},
	} {
		s := batchOf(1, calls(p, "server"), simulate.Downstream{Servers: 1, Service: simulate.Always(3 * time.Second), Abandoned: c.abandoned})
		o := run(t, s, 1).Runs[0]
		d, j := o.Downstream("server").Totals, o.Caller("caller").Totals
		near(t, string(c.abandoned)+" busy", d.BusyMean*o.EndedAt, c.busy, 1e-12)
		if d.Wasted != c.wasted || d.Dropped != c.dropped || d.Abandoned != 2 || j.Succeeded != c.success || j.TimedOut != 2 {
			t.Errorf("%s: %+v", c.abandoned, d)
		}
		if j.LastEnd != 4.5 {
			t.Errorf("%s: the job ended at %v", c.abandoned, j.LastEnd)
		}
	}
}

// TestSkippedWork: who waits in the queue and gives up costs the server
// nothing where it skips.
func TestSkippedWork(t *testing.T) {
	p := tries(t, 1, time.Second, func(p *policy.Policy) { p.Timeout = 2 * time.Second })
	for abandoned, want := range map[simulate.Abandoned][3]int64{ // wasted, dropped, succeeded
		// At 2 s the second is answered, the third begins, and then all the
		// others give up, the third in service.
		simulate.Serve: {8, 0, 2}, simulate.Skip: {1, 7, 2}, simulate.Remove: {1, 7, 2},
	} {
		s := batchOf(10, calls(p, "server"), simulate.Downstream{Servers: 1, Service: simulate.Always(time.Second), Abandoned: abandoned})
		o := run(t, s, 1).Runs[0]
		d, j := o.Downstream("server").Totals, o.Caller("caller").Totals
		if d.Wasted != want[0] || d.Dropped != want[1] || j.Succeeded != want[2] {
			t.Errorf("%s: wasted %d, dropped %d, succeeded %d; want %v", abandoned, d.Wasted, d.Dropped, j.Succeeded, want)
		}
		if abandoned == simulate.Serve && d.ServedShare != 0.2 {
			t.Errorf("served share %v of 10 s busy, 2 s of it for somebody", d.ServedShare)
		}
	}
}

// TestHangAndRefuse: an outage that hangs costs the timeout, one that refuses
// costs nothing.
func TestHangAndRefuse(t *testing.T) {
	p := tries(t, 3, time.Second, func(p *policy.Policy) { p.Timeout = 10 * time.Second })
	for kind, want := range map[simulate.FaultKind]struct {
		at    float64
		class string
	}{simulate.FaultHang: {22, "timeout"}, simulate.FaultRefuse: {12, "refused"}, simulate.FaultError: {12, "server"}} {
		d := simulate.Downstream{Faults: []simulate.Fault{{Kind: kind, Until: 12 * time.Second}}}
		p := p
		if kind != simulate.FaultHang { // 12 s of refusals need more tries
			p = tries(t, 30, time.Second)
		}
		c := run(t, batchOf(1, calls(p, "server"), d), 1).Runs[0].Caller("caller")
		if c.Totals.Succeeded != 1 || c.Failures[0].Class != want.class || len(c.Failures) != 1 || c.Totals.LastEnd != want.at {
			t.Errorf("%s: %+v %+v", kind, c.Totals, c.Failures)
		}
	}
}
