package simulate_test

import (
	"math"
	"testing"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/simulate"
)

// TestRateLimit: a bucket of 5 that gains 10 tokens a second, against 20
// calls a second, admits 5 + 10 t; Retry-After is the time to the next token.
func TestRateLimit(t *testing.T) {
	s := queue(t, 1, simulate.Downstream{Limit: &simulate.RateLimit{Rate: 10, Burst: 5, Exact: true}})
	s.WarmUp, s.Length = 0, simulate.Length{Time: 100 * time.Second}
	s.Callers[0].Arrivals = []simulate.Arrivals{{Kind: simulate.Regular, Rate: simulate.Constant(20)}}
	var waits []time.Duration
	d := run(t, s, 1).Runs[0].Downstream("server").Totals
	if d.Requests != 1999 || d.OK != 1004 || d.Throttled != 995 {
		t.Errorf("%d requests, %d ok, %d throttled", d.Requests, d.OK, d.Throttled)
	}
	// With the wish honoured every job comes through at its second try.
	p := tries(t, 2, time.Nanosecond, func(p *policy.Policy) { p.RetryAfter.Honour = true })
	s = batchOf(6, calls(p, "server"), simulate.Downstream{Limit: &simulate.RateLimit{Rate: 10, Burst: 5, Exact: true}})
	for _, e := range traced(t, s) {
		if e.Kind == simulate.Ended && !e.OK {
			waits = append(waits, e.Delay)
			if e.Class != failure.Throttled || e.Status != 429 {
				t.Errorf("throttled as %s %d", e.Class, e.Status)
			}
		}
	}
	if len(waits) != 1 || waits[0] != 100*ms {
		t.Errorf("waits %v, want 100ms once", waits)
	}
	s.Downstreams[0].Limit.WholeSeconds = true
	if o := run(t, s, 1).Runs[0]; o.EndedAt != 1 {
		t.Errorf("with whole seconds it ended at %v", o.EndedAt)
	}
	s.Downstreams[0].Limit = &simulate.RateLimit{Window: time.Minute, Burst: 5, Exact: true}
	if o := run(t, s, 1).Runs[0]; o.EndedAt != 60 || o.Caller("caller").Totals.Succeeded != 6 {
		t.Errorf("with a window it ended at %v", o.EndedAt)
	}
}

// TestCollapse: a service that breaks when a sixth request comes, is down for
// 10 s, and stays down while it is hit more often than every 2 s.
func TestCollapse(t *testing.T) {
	d := simulate.Downstream{
		Servers: 5, Service: simulate.Always(time.Second),
		Collapse: &simulate.Collapse{InSystem: 5, Answer: &simulate.Answer{Status: 503}, Kills: true, Recovery: 10 * time.Second, Quiet: 2 * time.Second},
	}
	o := run(t, batchOf(6, calls(tries(t, 4, 3*time.Second), "server"), d), 1).Runs[0]
	got := o.Downstream("server").Totals
	if got.Collapses != 1 || got.CollapsedTime != 9 || got.Collapsed != 6*4-5 || got.Errors != 5 || o.Caller("caller").Totals.Dead != 6 {
		t.Errorf("four tries, the last at 9 s: %+v", got)
	}
	// One more try comes at 12 s, when it is well; but six come at once.
	s := batchOf(6, calls(tries(t, 5, 3*time.Second), "server"), d)
	if got := run(t, s, 1).Runs[0].Downstream("server").Totals; got.Collapses != 2 || got.CollapsedTime != 11 {
		t.Errorf("the herd broke it %d times, for %v s; want 2, the first for 11 s", got.Collapses, got.CollapsedTime)
	}
	// Hit every 3 s with a quiet time of 4 s it never recovers.
	s.Callers[0].Client = calls(tries(t, 50, 3*time.Second), "server")
	s.Downstreams[0].Collapse.Quiet = 4 * time.Second
	if got := run(t, s, 1).Runs[0].Downstream("server").Totals; got.Collapses != 1 || got.OK != 0 {
		t.Errorf("hit without rest it recovered: %+v", got)
	}
	// Spread apart they come through.
	p := tries(t, 5, 3*time.Second, func(p *policy.Policy) { p.Backoff.Jitter = policy.Jitter{Kind: policy.JitterFull} })
	s = batchOf(6, calls(p, "server"), d)
	s.Downstreams[0].Collapse.Quiet = 0
	if got := run(t, s, 1).Runs[0].Downstream("server").Totals; got.Collapses != 1 {
		t.Errorf("spread retries broke it %d times, want once", got.Collapses)
	}
}

// TestCollapseByRate: more than 3 arrivals in a second halve its speed.
func TestCollapseByRate(t *testing.T) {
	d := simulate.Downstream{
		Servers: 1, Service: simulate.Always(100 * ms),
		Collapse: &simulate.Collapse{Rate: 3, Speed: 0.5, Recovery: 10 * time.Second},
	}
	for jobs, want := range map[int64]float64{3: 0.3, 4: 0.7} { // of 4 the first is served at full speed
		if o := run(t, batchOf(jobs, calls(once(t), "server"), d), 1).Runs[0]; o.Caller("caller").Totals.LastEnd != want {
			t.Errorf("%d jobs: the last ended at %v, want %v", jobs, o.Caller("caller").Totals.LastEnd, want)
		}
	}
}

// TestRowContention: N clients that write one row without backoff: only one
// of each round wins, so N clients in lockstep need N(N+1)/2 calls.
func TestRowContention(t *testing.T) {
	d := simulate.Downstream{
		Row:     &simulate.Row{},
		Network: simulate.Network{There: simulate.Always(10 * ms), Back: simulate.Always(10 * ms)},
	}
	const n = 40
	o := run(t, batchOf(n, calls(tries(t, 1000, time.Nanosecond), "server"), d), 1).Runs[0]
	c, s := o.Caller("caller").Totals, o.Downstream("server").Totals
	if c.Calls != n*(n+1)/2 || c.Succeeded != n || s.Conflicts != n*(n-1)/2 || s.Requests != n*(n+1) {
		t.Errorf("%d calls, %d conflicts, %d requests, %d done", c.Calls, s.Conflicts, s.Requests, c.Succeeded)
	}
	// Each round takes two round trips, and the least delay.
	near(t, "completion", o.EndedAt, n*0.04, 1e-6)
}

// TestAgreesWithTheBackoffArticle: calls and completion time of 100 clients
// that write one row, against the means (and their standard errors) over 100
// runs of the simulator published with the article on exponential backoff and
// jitter: legs of |N(10, 2)| ms, base 5 ms, cap 2 s. Its first retry waits
// twice the base, except under decorrelated jitter.
func TestAgreesWithTheBackoffArticle(t *testing.T) {
	leg := simulate.Dist{Kind: simulate.Normal, Mean: 10 * ms, SD: 2 * ms, Negative: simulate.Absolute}
	d := simulate.Downstream{Row: &simulate.Row{}, Network: simulate.Network{There: leg, Back: leg}}
	for _, c := range []struct {
		name                           string
		backoff                        policy.Backoff
		calls, callsErr, took, tookErr float64
	}{
		{"no backoff", policy.Backoff{Base: 1, Factor: 1}, 2422.3, 3.3, 2.0296, 0.0040},
		{"exponential", policy.Backoff{Base: 10 * ms, Factor: 2, Cap: 2 * time.Second}, 1853.9, 6.2, 63.45, 0.39},
		{"equal", policy.Backoff{Base: 10 * ms, Factor: 2, Cap: 2 * time.Second, Jitter: policy.Jitter{Kind: policy.JitterEqual}}, 814.0, 0.9, 6.687, 0.070},
		{"full", policy.Backoff{Base: 10 * ms, Factor: 2, Cap: 2 * time.Second, Jitter: policy.Jitter{Kind: policy.JitterFull}}, 796.3, 0.66, 4.812, 0.051},
		{"decorrelated", policy.Backoff{Base: 5 * ms, Cap: 2 * time.Second, Jitter: policy.Jitter{Kind: policy.JitterDecorrelated}}, 1001.9, 2.9, 4.615, 0.065},
	} {
		p := tries(t, policy.MaxWhole, ms, func(p *policy.Policy) { p.Backoff = c.backoff })
		r := run(t, batchOf(100, calls(p, "server"), d), 30)
		for _, m := range []struct {
			name       string
			want, wide float64
		}{{"caller/caller/calls", c.calls, c.callsErr}, {"ended_at", c.took, c.tookErr}} {
			got, _ := r.Estimate(m.name)
			if far := 4 * math.Hypot(m.wide, got.SD/math.Sqrt(float64(got.Runs))); math.Abs(got.Mean-m.want) > far {
				t.Errorf("%s: %s %.2f, the article's %.2f, more than %.2f apart", c.name, m.name, got.Mean, m.want, far)
			}
		}
	}
}

// TestNetwork: legs add up, and what is lost ends by the timeout.
func TestNetwork(t *testing.T) {
	p := tries(t, 2, time.Second, func(p *policy.Policy) { p.Timeout = 10 * time.Second })
	d := simulate.Downstream{Service: simulate.Always(5 * ms), Network: simulate.Network{There: simulate.Always(30 * ms), Back: simulate.Always(40 * ms)}}
	if o := run(t, batchOf(1, calls(p, "server"), d), 1).Runs[0]; o.Caller("caller").Jobs.Max != 0.075 {
		t.Errorf("took %v", o.Caller("caller").Jobs.Max)
	}
	d.Network.LossThere, d.Network.LossBack = simulate.Constant(0.1), simulate.Constant(0.2)
	r := run(t, batchOf(8000, calls(p, "server"), d), 10)
	f := 1 - 0.9*0.8
	within(t, r, "caller/caller/success_share", 1-f*f, 0.02)
	within(t, r, "downstream/server/requests", 8000*(1+f)*0.9, 0.02)
	within(t, r, "caller/caller/timed_out", 8000*(1+f)*f, 0.02)
}

// TestSpeedAndCapacityOverTime: work goes on at the new speed, servers come
// and go.
func TestSpeedAndCapacityOverTime(t *testing.T) {
	at := func(s int, v float64) simulate.Point {
		return simulate.Point{At: time.Duration(s) * time.Second, Value: v}
	}
	for name, c := range map[string]struct {
		d    simulate.Downstream
		last float64
	}{
		// 10 s of work: 4 s done, nothing for 3 s, then at double speed.
		"steps": {simulate.Downstream{Servers: 1, Service: simulate.Always(10 * time.Second), Speed: simulate.Steps(1, at(4, 0), at(7, 2))}, 10},
		// From speed 0 at 0 rising by 1 each second: t²/2 = 8.
		"ramp": {simulate.Downstream{Servers: 1, Service: simulate.Always(8 * time.Second), Speed: simulate.Curve{Points: []simulate.Point{at(0, 0), at(10, 10)}}}, 4},
		// Two servers until 1 s, none until 5 s, then two: 4 jobs of 2 s.
		"capacity":     {simulate.Downstream{Servers: 2, Service: simulate.Always(2 * time.Second), Capacity: simulate.Steps(1, at(1, 0), at(5, 1))}, 7},
		"load":         {simulate.Downstream{Service: simulate.Always(time.Second), Load: simulate.LoadCurve{Points: []simulate.LoadPoint{{InService: 1, Multiply: 1}, {InService: 3, Multiply: 5}}}}, 5},
		"shared":       {simulate.Downstream{Servers: 1, Order: simulate.PS, Service: simulate.Always(time.Second)}, 4},
		"shared speed": {simulate.Downstream{Servers: 2, Order: simulate.PS, Service: simulate.Always(time.Second), Speed: simulate.Steps(1, at(1, 2))}, 1.5},
	} {
		jobs := int64(4)
		if name == "steps" || name == "ramp" {
			jobs = 1
		}
		o := run(t, batchOf(jobs, calls(once(t), "server"), c.d), 1).Runs[0]
		near(t, name, o.Caller("caller").Totals.LastEnd, c.last, 1e-9)
		if o.Caller("caller").Totals.Succeeded != jobs {
			t.Errorf("%s: %+v", name, o.Caller("caller").Totals)
		}
	}
}

// TestKills: an outage that begins ends what waits and what is served.
func TestKills(t *testing.T) {
	d := simulate.Downstream{
		Servers: 1, Service: simulate.Always(4 * time.Second),
		Faults: []simulate.Fault{{Kind: simulate.FaultRefuse, From: 5 * time.Second, Until: 8 * time.Second, Kills: true}},
	}
	c := run(t, batchOf(3, calls(tries(t, 2, 5*time.Second), "server"), d), 1).Runs[0].Caller("caller")
	if c.Totals.Succeeded != 3 || c.Totals.Failed != 2 || c.Totals.LastEnd != 18 || c.Failures[0].Class != "refused" {
		t.Errorf("%+v %+v", c.Totals, c.Failures)
	}
}

// TestPerJob: what is drawn once a job stays with it.
func TestPerJob(t *testing.T) {
	p := tries(t, 5, time.Second)
	d := simulate.Downstream{Faults: []simulate.Fault{{Kind: simulate.FaultError, Probability: simulate.Constant(0.3), PerJob: true}}}
	r := run(t, batchOf(8000, calls(p, "server"), d), 10)
	within(t, r, "caller/caller/dead_share", 0.3, 0.02)
	within(t, r, "caller/caller/amplification", 1+0.3*4, 0.02)

	// A job that is slow is slow again: all its tries time out.
	p = tries(t, 3, time.Second, func(p *policy.Policy) { p.Timeout = time.Second })
	d = simulate.Downstream{Service: simulate.Exp(time.Second), PerJob: true}
	r = run(t, batchOf(8000, calls(p, "server"), d), 10)
	within(t, r, "caller/caller/dead_share", math.Exp(-1), 0.02)
}
