package simulate_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/simulate"
)

// tries returns a policy of n tries, a delay apart, with nothing else: no
// jitter, timeout, gate or limit of its own.
func tries(tb testing.TB, n int, delay time.Duration, change ...func(*policy.Policy)) policy.Policy {
	tb.Helper()
	p := policy.Policy{
		Name: "plain", Target: policy.Process, Attempts: n, OnHoldEnd: policy.HoldFail,
		Backoff:     policy.Backoff{Base: delay, Factor: 1, Jitter: policy.Jitter{Kind: policy.JitterNone}},
		Concurrency: policy.MaxWhole, Batch: policy.MaxWhole,
		Slot: policy.SlotRelease, Safety: policy.Idempotent,
	}
	for _, f := range change {
		f(&p)
	}
	p, err := policy.Seal(p)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// once is a policy that does not retry.
func once(tb testing.TB) policy.Policy { return tries(tb, 1, time.Second) }

// calls returns a client of one downstream.
func calls(p policy.Policy, downstream string) simulate.Client {
	return simulate.Client{Policy: p, Targets: []simulate.Target{{Downstream: downstream}}}
}

func run(tb testing.TB, s simulate.Scenario, seeds int) *simulate.Result {
	tb.Helper()
	r, err := simulate.Run(context.Background(), s, simulate.Options{Seeds: seeds, Parallel: 2})
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// within checks that the theory's value lies in the estimate's confidence
// interval, widened to 99.9 % (the t quantile is at most 1.9 times that of
// 95 % from 10 runs on), and that the interval is narrow enough to mean
// something.
func within(tb testing.TB, r *simulate.Result, name string, want, narrow float64) {
	tb.Helper()
	e, ok := r.Estimate(name)
	if !ok {
		tb.Fatalf("no estimate %s", name)
	}
	if half := 2.2 * e.Half; math.Abs(e.Mean-want) > half+1e-12*math.Abs(want) {
		tb.Errorf("%s = %.6g ± %.2g over %d runs, theory says %.6g", name, e.Mean, half, e.Runs, want)
	}
	if e.Half > narrow*math.Abs(want) {
		tb.Errorf("%s: ± %.3g is too wide to judge %.4g by; wanted %.3g", name, e.Half, want, narrow*want)
	}
	tb.Logf("%-40s %.6g ± %.2g, theory %.6g", name, e.Mean, e.Half, want)
}

// near checks one number.
func near(tb testing.TB, what string, got, want, relative float64) {
	tb.Helper()
	if math.Abs(got-want) > relative*math.Abs(want) {
		tb.Errorf("%s = %.12g, want %.12g", what, got, want)
	}
}

func pointer(n int) *int { return &n }

// queue is an open system: jobs of a rate, each calls once.
func queue(tb testing.TB, rate float64, d simulate.Downstream) simulate.Scenario {
	d.Name = "server"
	return simulate.Scenario{
		Name: "queue", Length: simulate.Length{Time: 4000 * time.Second}, WarmUp: 200 * time.Second,
		Callers: []simulate.Caller{{
			Name:     "caller",
			Arrivals: []simulate.Arrivals{{Kind: simulate.Poisson, Rate: simulate.Constant(rate)}},
			Client:   calls(once(tb), "server"),
		}},
		Downstreams: []simulate.Downstream{d},
	}
}
