package simulate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/simulate"
)

func encoded(t *testing.T, s simulate.Scenario, o simulate.Options) []byte {
	t.Helper()
	r, err := simulate.Run(context.Background(), s, o)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestSameSeedSameBytes: however many runs go on at a time.
func TestSameSeedSameBytes(t *testing.T) {
	for name, s := range map[string]simulate.Scenario{"queue": busyQueue(t), "retries": busyRetries(t), "durable": busyDurable(t)} {
		s.Length.Jobs, s.Seed = 2000, 77
		one := encoded(t, s, simulate.Options{Seeds: 4})
		if four := encoded(t, s, simulate.Options{Seeds: 4, Parallel: 4}); !bytes.Equal(one, four) {
			t.Errorf("%s: four at a time differ from one at a time", name)
		}
		s.Seed = 78
		if bytes.Equal(one, encoded(t, s, simulate.Options{Seeds: 4})) {
			t.Errorf("%s: another seed gave the same", name)
		}
	}
}

// TestElementsAreIndependent: another caller and downstream change nothing of
// those that were there.
func TestElementsAreIndependent(t *testing.T) {
	s := busyRetries(t)
	s.Length = simulate.Length{Time: 20 * time.Second}
	alone := run(t, s, 1).Runs[0]
	other := busyRetries(t)
	other.Callers[0].Name, other.Downstreams[0].Name = "another", "elsewhere"
	other.Callers[0].Targets[0].Downstream = "elsewhere"
	s.Callers = append(other.Callers, s.Callers...)
	s.Downstreams = append(other.Downstreams, s.Downstreams...)
	both := run(t, s, 1).Runs[0]
	if a, b := alone.Caller("caller").Totals, both.Caller("caller").Totals; a != b {
		t.Errorf("alone %+v, beside another %+v", a, b)
	}
	if a, b := alone.Caller("caller").Totals, both.Caller("another").Totals; a == b {
		t.Error("two callers of one description drew the same")
	}
}

// TestMemoryIsFlat: twenty times the events take hardly more memory.
func TestMemoryIsFlat(t *testing.T) {
	allocated := func(jobs int64) float64 {
		s := busyRetries(t)
		s.Length.Jobs = jobs
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := simulate.Run(context.Background(), s, simulate.Options{}); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		return float64(after.TotalAlloc - before.TotalAlloc)
	}
	few, many := allocated(5_000), allocated(100_000)
	if many > 2*few {
		t.Errorf("5,000 jobs took %.0f bytes, 100,000 took %.0f", few, many)
	}
}

// TestSeries: counts add up to the totals, and widths double when there are
// too many buckets.
func TestSeries(t *testing.T) {
	s := queue(t, 2, simulate.Downstream{Servers: 1, Service: simulate.Exp(100 * ms)})
	s.WarmUp = 0
	s.Length.Time = 5000 * time.Second
	c := run(t, s, 1).Runs[0].Caller("caller")
	if c.Series.Width != 16 || len(c.Series.Arrived) != 313 { // 5000 s in at most 600
		t.Errorf("%d buckets of %v s", len(c.Series.Arrived), c.Series.Width)
	}
	var arrived, ok int64
	depth := 0.0
	for i := range c.Series.Arrived {
		arrived, ok = arrived+c.Series.Arrived[i], ok+c.Series.OK[i]
		width := c.Series.Width
		if i == len(c.Series.Arrived)-1 {
			width = 5000 - float64(i)*width
		}
		depth += c.Series.InFlight[i] * width
	}
	if arrived != c.Totals.Jobs || ok != c.Totals.OK {
		t.Errorf("series say %d arrived, %d ok; totals %d, %d", arrived, ok, c.Totals.Jobs, c.Totals.OK)
	}
	near(t, "integral of the series", depth, c.Totals.InFlightMean*5000, 1e-9)
}

// TestWarmUp: what began before it does not count.
func TestWarmUp(t *testing.T) {
	s := batchOf(1, calls(tries(t, 2, 10*time.Second), "server"), simulate.Downstream{
		Servers: 1, Service: simulate.Always(3 * time.Second),
		Faults: []simulate.Fault{{Kind: simulate.FaultServed, Until: time.Second}},
	})
	s.Callers[0].Arrivals = []simulate.Arrivals{{Kind: simulate.Trace, Times: []time.Duration{0, 20 * time.Second}}}
	s.WarmUp, s.Length.Time = 10*time.Second, 30*time.Second
	o := run(t, s, 1).Runs[0]
	c, d := o.Caller("caller").Totals, o.Downstream("server").Totals
	if c.Jobs != 1 || c.Succeeded != 1 || c.Starts != 2 || c.Retries != 1 || d.Requests != 2 || o.From != 10 {
		t.Errorf("%+v %+v", c, d)
	}
	if d.Utilisation != 0.3 || o.EndedAt != 30 { // 13 to 16 and 20 to 23 of 10 to 30
		t.Errorf("utilisation %v, ended at %v", d.Utilisation, o.EndedAt)
	}
}

func TestQuantiles(t *testing.T) {
	s := queue(t, 5, simulate.Downstream{Service: simulate.Dist{Kind: simulate.Uniform, Max: time.Second}})
	s.Length.Time = 40_000 * time.Second
	h := run(t, s, 1).Runs[0].Downstream("server").Services
	for q, got := range map[float64]float64{0.5: h.P50, 0.9: h.P90, 0.95: h.P95, 0.99: h.P99, 0.999: h.P999} {
		if math.Abs(got-q) > q*simulate.QuantileError+4*math.Sqrt(q*(1-q)/float64(h.Count)) {
			t.Errorf("quantile %v is %v", q, got)
		}
	}
	sum := int64(0)
	for _, n := range h.Bins {
		sum += n
	}
	if sum != h.Count || len(h.Bins) != 64 {
		t.Errorf("%d in %d bins, %d in all", sum, len(h.Bins), h.Count)
	}
}

// metastable is a server at 80 % load with a trigger of 10 s in which it works at a
// fifth of its speed; calls time out after 1 s and are tried up to 4 times
// with jitter.
func metastable(tb testing.TB, budget policy.Budget) simulate.Scenario {
	p := tries(tb, 4, 500*ms, func(p *policy.Policy) {
		p.Timeout = time.Second
		p.Backoff.Factor, p.Backoff.Jitter.Kind = 2, policy.JitterFull
		p.Gate, p.Budget, p.MaxHold = true, budget, time.Nanosecond // on an empty budget: give up
	})
	s := queue(tb, 80, simulate.Downstream{
		Servers: 1, Service: simulate.Exp(10 * ms), Speed: simulate.Steps(1, at(100, 0.2), at(110, 1)), Queue: pointer(1000),
	})
	s.WarmUp, s.Length.Time = 0, 600*time.Second
	s.Callers[0].Client = calls(p, "server")
	s.Callers[0].Gate = simulate.GateCaller
	return s
}

// TestRecovery: backoff with jitter alone does not end a metastable failure,
// a retry budget does.
func TestRecovery(t *testing.T) {
	without := run(t, metastable(t, policy.Budget{Kind: policy.BudgetNone}), 3)
	with := run(t, metastable(t, policy.Budget{Kind: policy.BudgetTokens, Ratio: 0.1, Floor: 20}), 3)
	for i := range without.Runs {
		a, b := without.Runs[i].Caller("caller"), with.Runs[i].Caller("caller")
		if !a.Recovery.Disturbed || a.Recovery.BeganAt != 100 || a.Recovery.EndedAt != 110 {
			t.Errorf("disturbance %+v", a.Recovery)
		}
		if a.Recovery.Recovered || a.Totals.SuccessShare > 0.4 {
			t.Errorf("without a budget it recovered: %+v, success %v", a.Recovery, a.Totals.SuccessShare)
		}
		if !b.Recovery.Recovered || b.Recovery.After > 120 || b.Totals.SuccessShare < 0.8 {
			t.Errorf("with a budget it did not recover: %+v, success %v", b.Recovery, b.Totals.SuccessShare)
		}
	}
	if _, ok := without.Estimate("caller/caller/recovery.after"); ok {
		t.Error("a time to recover of runs that never did")
	}
	if e, ok := with.Estimate("caller/caller/recovery.after"); !ok || e.Runs != 3 {
		t.Errorf("time to recover: %+v", e)
	}
}

// TestRecoveryBehindAnOpenBreaker: who makes no call has not recovered. An
// outage of 10 s opens a breaker; calls succeed again when it lets them.
func TestRecoveryBehindAnOpenBreaker(t *testing.T) {
	for open, recovers := range map[time.Duration]bool{60 * time.Second: true, time.Hour: false} {
		p := tries(t, 1, time.Second, func(p *policy.Policy) {
			p.Gate, p.MaxHold = true, time.Nanosecond
			p.Breaker = policy.Breaker{Consecutive: 1, Open: open, Cap: 2 * open}
		})
		s := queue(t, 50, simulate.Downstream{
			Faults: []simulate.Fault{{Kind: simulate.FaultError, From: 100 * time.Second, Until: 110 * time.Second}},
		})
		s.WarmUp, s.Length.Time = 0, 600*time.Second
		s.Callers[0].Client = calls(p, "server")
		s.Callers[0].Gate = simulate.GateCaller
		got := run(t, s, 1).Runs[0].Caller("caller").Recovery
		// Open from 100 s on, for 60 s and a tenth less or more.
		if got.Recovered != recovers || recovers && (got.After < 43 || got.After > 57) {
			t.Errorf("open for %v: %+v", open, got)
		}
	}
}

// TestCheck: what cannot be is refused with the field's path.
func TestCheck(t *testing.T) {
	for path, change := range map[string]func(*simulate.Scenario){
		"callers[0].policy":                func(s *simulate.Scenario) { s.Callers[0].Policy.Version = "" },
		"callers[0].targets[0].downstream": func(s *simulate.Scenario) { s.Callers[0].Targets[0].Downstream = "nobody" },
		"callers[0].arrivals":              func(s *simulate.Scenario) { s.Callers[0].Arrivals = nil },
		"callers[0].arrivals[0].kind":      func(s *simulate.Scenario) { s.Callers[0].Arrivals[0].Kind = "sometimes" },
		"callers[0].arrivals[0].rate":      func(s *simulate.Scenario) { s.Callers[0].Arrivals[0].Rate.Points = nil },
		"callers[0].arrivals[0].rate.points[1].at": func(s *simulate.Scenario) {
			s.Callers[0].Arrivals[0].Rate.Points = []simulate.Point{at(2, 1), at(1, 1)}
		},
		"length":                      func(s *simulate.Scenario) { s.Length = simulate.Length{} },
		"warm_up":                     func(s *simulate.Scenario) { s.WarmUp = s.Length.Time },
		"downstreams[0].service.mean": func(s *simulate.Scenario) { s.Downstreams[0].Service.Mean = 0 },
		"downstreams[0].faults[0].probability.points[0].value": func(s *simulate.Scenario) {
			s.Downstreams[0].Faults = []simulate.Fault{{Kind: simulate.FaultError, Probability: simulate.Constant(2)}}
		},
		"downstreams[0].limit.burst": func(s *simulate.Scenario) { s.Downstreams[0].Limit = &simulate.RateLimit{Rate: 1} },
		"downstreams[0].calls": func(s *simulate.Scenario) {
			s.Downstreams[0].Calls = []simulate.Dependency{{Client: s.Callers[0].Client}}
		},
		"downstreams[0].collapse.recovery": func(s *simulate.Scenario) {
			s.Downstreams[0].Collapse = &simulate.Collapse{InSystem: 1, Speed: 1}
		},
		"downstreams[0].order": func(s *simulate.Scenario) { s.Downstreams[0].Order, s.Downstreams[0].Queue = simulate.PS, pointer(3) },
	} {
		s := queue(t, 5, simulate.Downstream{Servers: 1, Service: simulate.Exp(ms)})
		change(&s)
		_, err := simulate.Run(context.Background(), s, simulate.Options{})
		var errs policy.FieldErrors
		if !errors.As(err, &errs) {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if len(errs) != 1 || errs[0].Path != path || !strings.Contains(err.Error(), "simulate: queue: ") {
			t.Errorf("%s: got %v", path, err)
		}
	}
}
