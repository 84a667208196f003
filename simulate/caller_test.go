package simulate_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/simulate"
)

// startsAt lists the instants of all starts in seconds.
func startsAt(events []simulate.Event) (at []float64) {
	for _, e := range events {
		if e.Kind == simulate.Started {
			at = append(at, e.At.Seconds())
		}
	}
	return at
}

// TestWorkers: in process a worker is kept through the delays; durable it is
// free meanwhile.
func TestWorkers(t *testing.T) {
	d := simulate.Downstream{Service: simulate.Always(time.Second), Faults: []simulate.Fault{{Kind: simulate.FaultServed, Until: 1500 * ms}}}
	for _, c := range []struct {
		mode simulate.Mode
		slot policy.Slot
		want []float64
	}{
		{simulate.InProcess, policy.SlotRelease, []float64{0, 11, 12}},
		{simulate.Durable, policy.SlotRelease, []float64{0, 1, 11, 12}},
		{simulate.Durable, policy.SlotKeep, []float64{0, 11, 12}},
	} {
		p := tries(t, 3, 10*time.Second, func(p *policy.Policy) { p.Slot = c.slot })
		s := batchOf(2, calls(p, "server"), d)
		s.Callers[0].Mode, s.Callers[0].Workers = c.mode, 1
		if got := startsAt(traced(t, s)); !slices.Equal(got, c.want) {
			t.Errorf("%s, slot %s: starts at %v, want %v", c.mode, c.slot, got, c.want)
		}
	}
}

// TestDurableLimits: concurrency, spacing and first_share of the policy bound
// the starts of a process.
func TestDurableLimits(t *testing.T) {
	d := simulate.Downstream{Service: simulate.Always(10 * time.Second)}
	start := func(jobs int64, clients int, change func(*policy.Policy)) []float64 {
		s := batchOf(jobs, calls(tries(t, 2, time.Second, change), "server"), d)
		s.Callers[0].Mode, s.Callers[0].Clients = simulate.Durable, clients
		return startsAt(traced(t, s))
	}
	if got := start(5, 1, func(p *policy.Policy) { p.Concurrency = 2 }); !slices.Equal(got, []float64{0, 0, 10, 10, 20}) {
		t.Errorf("concurrency 2: %v", got)
	}
	if got := start(5, 2, func(p *policy.Policy) { p.Concurrency = 2 }); !slices.Equal(got, []float64{0, 0, 0, 0, 10}) {
		t.Errorf("concurrency 2 in two processes: %v", got)
	}
	if got := start(4, 1, func(p *policy.Policy) { p.Spacing = 3 * time.Second }); !slices.Equal(got, []float64{0, 3, 6, 9}) {
		t.Errorf("spacing 3 s: %v", got)
	}
	// Kept slots keep the spacing too.
	d = simulate.Downstream{Faults: []simulate.Fault{{Kind: simulate.FaultError, Until: 4 * time.Second}}}
	got := start(2, 1, func(p *policy.Policy) {
		p.Spacing, p.Slot, p.Backoff.Base = 3*time.Second, policy.SlotKeep, 3*time.Second
	})
	if !slices.Equal(got, []float64{0, 3, 6, 9}) {
		t.Errorf("spacing 3 s with kept slots: %v", got)
	}
}

// TestConnections: a start that finds no connection waits for one, and its
// timeout runs.
func TestConnections(t *testing.T) {
	p := tries(t, 1, time.Second, func(p *policy.Policy) { p.Timeout = 2500 * ms })
	s := batchOf(4, calls(p, "server"), simulate.Downstream{Service: simulate.Always(time.Second)})
	s.Callers[0].Connections = 1
	c := run(t, s, 1).Runs[0].Caller("caller").Totals
	// The third is cut off at 2.5 s in service; the fourth takes over its
	// connection, and is cut off at the same instant.
	if c.Starts != 4 || c.Calls != 4 || c.Succeeded != 2 || c.TimedOut != 2 || c.LastEnd != 2.5 {
		t.Errorf("%+v", c)
	}
	if c.PeakCalls != 2 || c.PeakAt != 2 || c.InFlightMax != 4 {
		t.Errorf("peak %d, in flight %d", c.PeakCalls, c.InFlightMax)
	}
}

// TestDeadline: nothing starts after it, and what waits then ends.
func TestDeadline(t *testing.T) {
	for _, mode := range []simulate.Mode{simulate.InProcess, simulate.Durable} {
		s := batchOf(5, calls(tries(t, 2, time.Second), "server"), simulate.Downstream{Service: simulate.Always(10 * time.Second)})
		s.Callers[0].Mode, s.Callers[0].Workers, s.Callers[0].Deadline = mode, 1, simulate.Always(20*time.Second)
		c := run(t, s, 1).Runs[0].Caller("caller")
		if c.Totals.Succeeded != 3 || len(c.DeadLetters) != 1 || c.DeadLetters[0].Cause != "expired" || c.DeadLetters[0].LastAt != 20 {
			t.Errorf("%s: %+v %+v", mode, c.Totals, c.DeadLetters)
		}
	}
}

// TestMaxWaiting: who finds too many waiting is turned away.
func TestMaxWaiting(t *testing.T) {
	for _, mode := range []simulate.Mode{simulate.InProcess, simulate.Durable} {
		s := batchOf(10, calls(once(t), "server"), simulate.Downstream{Service: simulate.Always(time.Second)})
		s.Callers[0].Mode, s.Callers[0].Workers, s.Callers[0].MaxWaiting = mode, 2, 3
		c := run(t, s, 1).Runs[0].Caller("caller")
		if c.Totals.Succeeded != 5 || len(c.DeadLetters) != 1 || c.DeadLetters[0].Cause != "turned_away" || c.DeadLetters[0].Jobs != 5 {
			t.Errorf("%s: %+v %+v", mode, c.Totals, c.DeadLetters)
		}
	}
}

// TestTargets: jobs are spread over copies and names by weight.
func TestTargets(t *testing.T) {
	s := batchOf(120, calls(once(t), "server"), simulate.Downstream{Copies: 3})
	s.Downstreams = append(s.Downstreams, simulate.Downstream{Name: "other"})
	s.Callers[0].Targets = []simulate.Target{{Downstream: "server", Weight: 3}, {Downstream: "other", Names: 4}}
	o := run(t, s, 1).Runs[0]
	for name, want := range map[string]int64{"server/1": 30, "server/2": 30, "server/3": 30, "other": 30} {
		if got := o.Downstream(name).Totals.Requests; got != want {
			t.Errorf("%s got %d requests, want %d", name, got, want)
		}
	}
	names := map[string]int{}
	for _, e := range traced(t, s) {
		if e.Kind == simulate.Started {
			names[e.Target]++
		}
	}
	if len(names) != 7 || names["other#4"] < 7 || names["other#4"] > 8 {
		t.Errorf("targets %v", names)
	}
	s.Callers[0].Pick, s.Callers[0].Arrivals[0].Jobs = simulate.Random, 10000
	within(t, run(t, s, 10), "downstream/other/requests", 2500, 0.02)
}

// TestGateScopes: a breaker that opens after 3 failures in a row lets 3 calls
// out of each gate.
func TestGateScopes(t *testing.T) {
	p := tries(t, 1, time.Second, func(p *policy.Policy) {
		p.Gate, p.MaxHold = true, time.Minute
		p.Breaker = policy.Breaker{Consecutive: 3, Open: time.Hour}
	})
	for _, c := range []struct {
		scope simulate.GateScope
		want  int64
	}{{simulate.GateNone, 80}, {simulate.GateShared, 3}, {simulate.GateCaller, 6}, {simulate.GateClient, 24}} {
		for _, mode := range []simulate.Mode{simulate.InProcess, simulate.Durable} {
			s := batchOf(40, calls(p, "server"), failing(1))
			// One after the other, so that a gate hears of one before the next.
			s.Callers[0].Arrivals = []simulate.Arrivals{{Kind: simulate.Regular, Rate: simulate.Constant(1), Jobs: 40}}
			s.Callers[0].Clients, s.Callers[0].Mode, s.Callers[0].Gate = 4, mode, c.scope
			s.Callers = append(s.Callers, s.Callers[0])
			s.Callers[1].Name = "second"
			s.Length.Time, s.Length.End = 30*time.Minute, simulate.Cut // the breaker is open until then
			o := run(t, s, 1).Runs[0]
			if got := o.Downstream("server").Totals.Requests; got != c.want {
				t.Errorf("%s gates, %s: %d requests, want %d", c.scope, mode, got, c.want)
			}
			if c.scope == simulate.GateNone {
				continue
			}
			// Whoever was held for max_hold is parked; in process the caller is told.
			first, second := o.Caller("caller"), o.Caller("second")
			if dead := second.DeadLetters; mode == simulate.InProcess {
				if n := len(dead); n == 0 || dead[n-1].Cause != "target_down" || dead[n-1].Class != "unavailable" {
					t.Errorf("%s gates: dead letters %+v", c.scope, dead)
				}
			} else if held := 80 - c.want; first.Totals.Parked+second.Totals.Parked != held || first.Totals.Unfinished+second.Totals.Unfinished != held {
				t.Errorf("%s gates: %d and %d parked, %d and %d unfinished; want %d in all", c.scope,
					first.Totals.Parked, second.Totals.Parked, first.Totals.Unfinished, second.Totals.Unfinished, held)
			}
			for _, h := range []float64{first.Totals.Held, second.Totals.Held} {
				if mode == simulate.InProcess && c.scope != simulate.GateShared && h != float64(40-c.want/2)*60 {
					t.Errorf("%s gates, %s: held for %v s", c.scope, mode, h)
				}
			}
		}
	}
}

// TestAPauseThatTheTargetAskedForIsNoHold: however long it lasts, nobody is
// parked for it.
func TestAPauseThatTheTargetAskedForIsNoHold(t *testing.T) {
	p := tries(t, 5, time.Second, func(p *policy.Policy) {
		p.Gate, p.MaxHold = true, time.Minute
		p.RetryAfter = policy.RetryAfter{Honour: true}
	})
	// Each answer asks for 40 s: as the delay's floor that is no hold, and
	// the second job, which arrives at 1 s, is held for it.
	d := simulate.Downstream{Faults: []simulate.Fault{{Kind: simulate.FaultError, Answer: simulate.Answer{Status: 503, RetryAfter: 40 * time.Second}}}}
	for mode, want := range map[simulate.Mode][]string{
		simulate.InProcess: {"started 1m20s ", "started 2m0s ", "started 4m0s ", "started 4m40s ", "started 6m0s ", "finish 6m0s exhausted"},
		simulate.Durable:   {"started 40s ", "started 1m20s ", "started 2m0s ", "started 3m20s ", "started 4m0s ", "finish 4m0s exhausted"},
	} {
		s := batchOf(1, calls(p, "server"), d)
		s.Callers[0].Arrivals = []simulate.Arrivals{{Kind: simulate.Trace, Times: []time.Duration{0, time.Second}}}
		s.Callers[0].Gate, s.Callers[0].Mode = simulate.GateCaller, mode
		var held []string
		for _, e := range traced(t, s) {
			if e.Job == 2 && (e.Kind == simulate.Started || e.Kind == simulate.Finish) {
				held = append(held, fmt.Sprintf("%s %s %s", e.Kind, e.At, e.Cause))
			}
		}
		if !slices.Equal(held, want) {
			t.Errorf("%s: %q, want %q", mode, held, want)
		}
	}
}
