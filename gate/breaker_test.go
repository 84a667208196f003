package gate_test

import (
	"testing"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/policy"
)

var inARow = gate.Config{Breaker: policy.Breaker{Consecutive: 3, Open: 30 * time.Second, Cap: 2 * time.Minute}}

func TestBreakerOpensAfterFailuresInARow(t *testing.T) {
	g := newTarget(t, inARow)
	g.failed(2)
	g.start(false)
	g.pass() // breaks the row
	g.failed(2)
	for _, f := range []failure.Failure{ourFault, badInput, {}} {
		g.start(false)
		g.fail(f) // neither breaks nor extends it
	}
	g.start(false)
	g.drop()
	g.phase(gate.Closed)
	g.at(time.Second).failed(1)
	g.phase(gate.Open)
	g.held(false, gate.HeldBreaker, 31*time.Second)
	g.at(31*time.Second-time.Microsecond).held(true, gate.HeldBreaker, 31*time.Second)
}

func TestBreakerOpensByRatio(t *testing.T) {
	c := gate.Config{Breaker: policy.Breaker{Ratio: 0.5, MinCalls: 10, Window: time.Minute, Open: 30 * time.Second}}
	// calls ends one call a step: p passes, f fails, n is nobody's proof.
	run := func(t *testing.T, calls string, every time.Duration) *target {
		g := newTarget(t, c)
		for i, call := range calls {
			g.at(time.Duration(i) * every).start(false)
			switch call {
			case 'p':
				g.pass()
			case 'f':
				g.fail(serverDown)
			case 'n':
				g.fail(ourFault)
			}
		}
		return g
	}
	for _, tc := range []struct {
		name  string
		calls string
		every time.Duration
		want  gate.Phase
	}{
		{"half of ten", "pppppfffff", time.Second, gate.Open},
		{"under half", "ppppppffff", time.Second, gate.Closed},
		{"too few calls", "fffffffff", time.Second, gate.Closed},
		{"the tenth is our own fault", "fffffffffn", time.Second, gate.Closed},
		{"a success does not open", "fffffffffp", time.Second, gate.Closed},
		{"too few in any window", "ffffffffffffffff", 10 * time.Second, gate.Closed},
		{"old successes are forgotten", "ppppppppppppppppffffffff", 5 * time.Second, gate.Open},
	} {
		t.Run(tc.name, func(t *testing.T) { run(t, tc.calls, tc.every).phase(tc.want) })
	}
}

func TestHalfOpenLetsOneProbeThrough(t *testing.T) {
	g := newTarget(t, inARow)
	g.failed(3)
	g.at(30 * time.Second)
	if v := g.start(true); !v.Probe {
		t.Fatalf("%+v; want the probe", v)
	}
	g.phase(gate.HalfOpen)
	g.held(false, gate.HeldBreaker, -1)
	g.at(time.Hour).held(true, gate.HeldBreaker, -1)

	g.drop() // its holder died: the place is free, nothing is decided
	g.phase(gate.HalfOpen)
	if v := g.start(false); !v.Probe {
		t.Fatalf("%+v; want a new probe", v)
	}
	g.fail(ourFault)
	g.phase(gate.HalfOpen)
	g.start(false)
	g.held(false, gate.HeldBreaker, -1)
	g.pass()
	g.phase(gate.Ramping)
}

func TestOpenTimeDoublesToTheCapAndResets(t *testing.T) {
	g := newTarget(t, inARow)
	g.failed(3)
	now := time.Duration(0)
	for _, open := range []time.Duration{30, 60, 120, 120, 120} {
		open *= time.Second
		g.held(false, gate.HeldBreaker, now+open)
		now += open
		g.at(now).start(false)
		g.fail(serverDown)
		g.phase(gate.Open)
	}
	now += 2 * time.Minute
	g.at(now)
	for range 32 {
		g.start(false)
		g.pass()
	}
	g.phase(gate.Closed)
	g.failed(3)
	g.held(false, gate.HeldBreaker, now+30*time.Second)
}

func TestOpenTimeIsJitteredWithinTheCap(t *testing.T) {
	c := inARow
	c.Jitter = gate.OpenJitter
	for _, tc := range []struct {
		draw          float64
		first, capped time.Duration
	}{
		{0, 27 * time.Second, 108 * time.Second},
		{0.25, 28500 * time.Millisecond, 114 * time.Second},
		{0.5, 30 * time.Second, 2 * time.Minute},
		{0.75, 31500 * time.Millisecond, 2 * time.Minute},
	} {
		g := newTarget(t, c)
		g.draw = tc.draw
		g.failed(3)
		g.held(false, gate.HeldBreaker, tc.first)
		for range 5 {
			g.now = g.ask(false).Until
			g.failed(1)
		}
		if got := g.ask(false).Until.Sub(g.now); got != tc.capped {
			t.Errorf("draw %g: open for %s, want %s", tc.draw, got, tc.capped)
		}
	}
}

func TestRetryAfterOutlastsTheBreaker(t *testing.T) {
	c := inARow
	c.Pause, c.RetryAfter = true, policy.RetryAfter{Honour: true, Max: 15 * time.Minute}
	g := newTarget(t, c)
	g.failed(2)
	g.start(false)
	f := serverDown
	f.RetryAfter = 5 * time.Minute
	g.fail(f)
	g.held(false, gate.HeldRetryAfter, 5*time.Minute)
	g.at(time.Minute).held(false, gate.HeldRetryAfter, 5*time.Minute)
	g.at(5 * time.Minute)
	if v := g.start(false); !v.Probe {
		t.Errorf("%+v; want the probe", v)
	}
	f.RetryAfter = time.Second // shorter than the doubled open time
	g.fail(f)
	g.held(false, gate.HeldBreaker, 6*time.Minute)
}

// ramped brings a target to the beginning of its ramp.
func ramped(t *testing.T, c gate.Config) *target {
	g := newTarget(t, c)
	g.failed(3)
	g.at(30 * time.Second).start(false)
	g.pass()
	return g
}

func TestRampDoublesPerRoundOfSuccesses(t *testing.T) {
	for _, tc := range []struct {
		name        string
		concurrency int
		rounds      []int
	}{
		{"no limit", 0, []int{1, 2, 4, 8, 16}},
		{"limit 4", 4, []int{1, 2}},
		{"limit 3", 3, []int{1, 2}},
		{"limit 1: nothing to ramp", 1, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := inARow
			c.PerTarget.Concurrency = tc.concurrency
			g := ramped(t, c)
			for _, n := range tc.rounds {
				g.phase(gate.Ramping)
				for range n {
					g.start(false)
				}
				g.held(false, gate.HeldRamp, -1)
				for range n {
					g.pass()
				}
			}
			g.phase(gate.Closed)
			if g.s.Trips != 0 || g.s.Ramp != 0 {
				t.Errorf("trips %d, ramp %d; want a fresh breaker", g.s.Trips, g.s.Ramp)
			}
		})
	}
}

func TestRampCountsOnlyProof(t *testing.T) {
	g := ramped(t, inARow)
	g.start(false)
	g.pass()
	for range 5 { // two at a time; other people's faults prove nothing
		g.start(false)
		g.start(false)
		g.held(false, gate.HeldRamp, -1)
		g.fail(badInput)
		g.drop()
	}
	g.phase(gate.Ramping)
	for range 2 {
		g.start(false)
		g.fail(serverDown)
		g.phase(gate.Ramping)
	}
	g.start(false)
	g.start(false)
	g.fail(serverDown) // the third in a row, as if it were closed
	g.phase(gate.Open)
	g.held(false, gate.HeldBreaker, 60*time.Second) // 30 s: a probe had passed
	g.pass()                                        // too late to matter
	g.phase(gate.Open)
}

// A failure in the ramp keeps it from growing.
func TestAFailureInTheRampBeginsItsStepAnew(t *testing.T) {
	g := ramped(t, inARow)
	g.start(false)
	g.pass() // two at once
	g.start(false)
	g.start(false)
	g.pass()
	g.fail(serverDown)
	g.start(false)
	g.pass()
	g.start(false)
	g.start(false)
	g.held(false, gate.HeldRamp, -1)
	g.pass()
	for range 3 {
		g.start(false)
	}
	g.held(false, gate.HeldRamp, -1) // four at once, after two in a row
}

// One bad page is not a bad host: what failed before and fails again opens
// nothing, alone or with others of its kind.
func TestWorkThatFailsAgainOpensNothing(t *testing.T) {
	for name, c := range map[string]gate.Config{
		"in a row": inARow,
		"by share": {Breaker: policy.Breaker{Ratio: 0.5, MinCalls: 3, Window: time.Minute, Open: 30 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			g := newTarget(t, c)
			for range 2 {
				g.apply(gate.Done{Failure: serverDown})
			}
			for range 50 {
				g.apply(gate.Done{Failure: serverDown, Repeat: true})
			}
			g.phase(gate.Closed)
			g.apply(gate.Done{Failure: serverDown}) // a third piece of work
			g.phase(gate.Open)
		})
	}
}

func TestWorkThatFailsAgainEndsNoRamp(t *testing.T) {
	g := ramped(t, inARow)
	for range 50 {
		g.start(false)
		g.apply(gate.Done{Failure: serverDown, Repeat: true})
		g.calls = nil
	}
	g.phase(gate.Ramping)
}

// Where nothing else waits, what failed before is the probe. Its failing says
// little, so the open time does not double.
func TestAProbeThatFailedBeforeDoublesNothing(t *testing.T) {
	g := newTarget(t, inARow)
	g.failed(3)
	for at := 30 * time.Second; at < 10*time.Minute; at += 30 * time.Second {
		v := g.at(at).start(false)
		end := v.Failure(serverDown)
		end.Repeat = true
		g.apply(end)
		g.calls = nil
		g.phase(gate.Open)
		g.held(false, gate.HeldBreaker, at+30*time.Second)
	}
}

func TestAPassedProbeForgetsTheDoubling(t *testing.T) {
	g := newTarget(t, inARow)
	g.failed(3)
	g.at(30 * time.Second).start(false)
	g.fail(serverDown) // 60 s
	g.at(90 * time.Second).start(false)
	g.pass()
	g.failed(3)
	g.held(false, gate.HeldBreaker, 120*time.Second)
}

func TestLateOutcomesDoNotDecideForTheProbe(t *testing.T) {
	g := newTarget(t, inARow)
	g.start(false)
	g.start(false)
	slow := g.calls
	g.calls = nil
	g.failed(3)
	g.at(30 * time.Second).start(false)
	g.apply(slow[0].Success())
	g.apply(slow[1].Failure(serverDown))
	g.phase(gate.HalfOpen)
	g.held(false, gate.HeldBreaker, -1)
	if g.s.InFlight != 1 || g.s.Trips != 1 {
		t.Errorf("in flight %d, trips %d; want 1 and 1", g.s.InFlight, g.s.Trips)
	}
}

func TestAProbeWhosePlaceWasFreedDecidesNothing(t *testing.T) {
	g := newTarget(t, inARow)
	g.failed(3)
	v := g.at(30 * time.Second).start(false)
	g.drop()
	g.apply(v.Failure(serverDown))
	g.phase(gate.HalfOpen)
	g.apply(v.Success())
	g.phase(gate.HalfOpen)
}

func TestPolicyWithoutBreakerLeavesTheBreakerAlone(t *testing.T) {
	g := newTarget(t, inARow)
	g.failed(3)
	g.c = gate.Config{}
	g.start(false)
	g.pass()
	g.start(false)
	g.fail(serverDown)
	g.c = inARow
	g.held(false, gate.HeldBreaker, 30*time.Second)
}
