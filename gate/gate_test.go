package gate_test

import (
	"testing"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/policy"
)

// t0 is where every test's clock starts.
var t0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

var (
	serverDown = failure.Of(failure.Server)
	ourFault   = failure.Of(failure.DiskFull)
	badInput   = failure.Of(failure.InvalidInput)
)

// target drives one gate on a clock that the test moves.
type target struct {
	t     *testing.T
	c     gate.Config
	s     gate.State
	now   time.Time
	draw  float64
	calls []gate.Verdict // admitted and not ended, oldest first
}

func newTarget(t *testing.T, c gate.Config) *target {
	return &target{t: t, c: c, now: t0, draw: 0.5}
}

// at moves the clock to d after the start.
func (g *target) at(d time.Duration) *target { g.now = t0.Add(d); return g }

func (g *target) ask(retry bool) gate.Verdict {
	g.t.Helper()
	var v gate.Verdict
	g.s, v = gate.Step(g.c, g.s, gate.Ask{Retry: retry}, g.now, g.draw)
	if v.Admit {
		g.calls = append(g.calls, v)
	}
	return v
}

// start asks and expects to be admitted.
func (g *target) start(retry bool) gate.Verdict {
	g.t.Helper()
	v := g.ask(retry)
	if !v.Admit {
		g.t.Fatalf("at %s: %s; want it admitted", g.now.Sub(t0), v)
	}
	return v
}

// held asks and expects the hold, until the time after the start; a negative
// one means that no time helps.
func (g *target) held(retry bool, by gate.Hold, until time.Duration) {
	g.t.Helper()
	v := g.ask(retry)
	var want time.Time
	if until >= 0 {
		want = t0.Add(until)
	}
	if v.Admit || v.Held != by || !v.Until.Equal(want) {
		g.t.Fatalf("at %s: admit %t, held by %s until %s; want held by %s until %s",
			g.now.Sub(t0), v.Admit, v.Held, v.Until, by, want)
	}
}

func (g *target) apply(e gate.Event) {
	g.s, _ = gate.Step(g.c, g.s, e, g.now, g.draw)
}

// pass, fail and drop end the oldest call.
func (g *target) pass()                  { g.t.Helper(); g.apply(g.oldest().Success()) }
func (g *target) fail(f failure.Failure) { g.t.Helper(); g.apply(g.oldest().Failure(f)) }
func (g *target) drop() {
	g.t.Helper()
	v := g.oldest()
	g.apply(gate.Abandon{Retry: v.Retry, Probe: v.Probe})
}

func (g *target) oldest() gate.Verdict {
	g.t.Helper()
	if len(g.calls) == 0 {
		g.t.Fatal("no call in flight to end")
	}
	v := g.calls[0]
	g.calls = g.calls[1:]
	return v
}

// failed runs n calls that all blame the target.
func (g *target) failed(n int) {
	g.t.Helper()
	for range n {
		g.start(false)
		g.fail(serverDown)
	}
}

func (g *target) phase(want gate.Phase) {
	g.t.Helper()
	if g.s.Phase != want {
		g.t.Fatalf("at %s: phase %s, want %s", g.now.Sub(t0), g.s.Phase, want)
	}
}

func TestOfTakesThePolicysFigures(t *testing.T) {
	p := policy.MustPreset("webhook")
	c := gate.Of(&p)
	want := gate.Config{
		Breaker: p.Breaker, Jitter: 0.1, Pause: true, RetryAfter: p.RetryAfter,
		Budget: p.Budget, PerTarget: policy.PerTarget{Concurrency: 4},
	}
	if c != want {
		t.Errorf("webhook: %+v, want %+v", c, want)
	}
	scrape := policy.MustPreset("scrape")
	if c := gate.Of(&scrape); c != (gate.Config{}) {
		t.Errorf("scrape has its gate off: %+v, want the zero Config", c)
	}
}

func TestGateOffKeepsTheTargetsLimits(t *testing.T) {
	p := policy.MustPreset("webhook")
	p.Gate = false
	if got, want := gate.Of(&p), (gate.Config{PerTarget: policy.PerTarget{Concurrency: 4}}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestZeroConfigHoldsNothing(t *testing.T) {
	g := newTarget(t, gate.Config{})
	for range 100 {
		g.start(true)
	}
	for range 100 {
		g.fail(failure.Failure{Class: failure.Throttled, Blame: failure.BlameTarget, RetryAfter: time.Hour})
	}
	g.start(false)
}

func TestConcurrency(t *testing.T) {
	g := newTarget(t, gate.Config{PerTarget: policy.PerTarget{Concurrency: 2}})
	g.start(false)
	g.start(true)
	g.held(false, gate.HeldConcurrency, -1)
	g.at(time.Hour).held(true, gate.HeldConcurrency, -1)
	g.drop()
	g.start(false)
	g.held(false, gate.HeldConcurrency, -1)
	g.fail(ourFault)
	g.pass()
	if g.s.InFlight != 0 || g.s.Retries != 0 {
		t.Errorf("in flight %d, retries %d; want none", g.s.InFlight, g.s.Retries)
	}
}

func TestRateSpacesStartsWithoutBursts(t *testing.T) {
	g := newTarget(t, gate.Config{PerTarget: policy.PerTarget{Rate: 4}})
	g.start(false)
	g.held(false, gate.HeldRate, 250*time.Millisecond)
	g.at(249999*time.Microsecond).held(true, gate.HeldRate, 250*time.Millisecond)
	g.at(250 * time.Millisecond).start(false)
	// Idle time saves up no burst.
	g.at(time.Minute).start(false)
	g.held(false, gate.HeldRate, time.Minute+250*time.Millisecond)

	third := newTarget(t, gate.Config{PerTarget: policy.PerTarget{Rate: 3}})
	third.start(false)
	third.held(false, gate.HeldRate, 333334*time.Microsecond) // rounded up
}

func TestRetryAfterPausesTheWholeTarget(t *testing.T) {
	c := gate.Config{Pause: true, RetryAfter: policy.RetryAfter{Honour: true, Max: time.Minute}}
	g := newTarget(t, c)
	g.start(false)
	g.start(false)
	g.start(false)
	f := failure.Of(failure.Throttled)
	f.RetryAfter = 20 * time.Second
	g.fail(f)
	g.held(false, gate.HeldRetryAfter, 20*time.Second)
	f.RetryAfter = 5 * time.Second // shortens nothing
	g.at(time.Second).fail(f)
	g.held(true, gate.HeldRetryAfter, 20*time.Second)
	f = badInput // whoever is to blame
	f.RetryAfter = time.Hour
	g.at(2 * time.Second).fail(f)
	g.held(false, gate.HeldRetryAfter, 62*time.Second) // cut to max
	g.at(62 * time.Second).start(false)

	c.RetryAfter.Honour = false
	deaf := newTarget(t, c)
	deaf.start(false)
	deaf.fail(f)
	deaf.start(false)
}

func TestPauseOrderedByAClassRule(t *testing.T) {
	g := newTarget(t, gate.Config{Pause: true})
	v := g.start(false)
	d := v.Failure(badInput)
	d.Pause = 2 * time.Hour
	g.apply(d)
	g.held(false, gate.HeldRetryAfter, 2*time.Hour)
}

func TestOperatorsPause(t *testing.T) {
	g := newTarget(t, gate.Config{Pause: true, RetryAfter: policy.RetryAfter{Honour: true}})
	g.start(false)
	g.apply(gate.Pause{})
	g.held(false, gate.HeldOperator, -1)
	f := failure.Of(failure.Throttled)
	f.RetryAfter = time.Minute
	g.fail(f)
	g.held(false, gate.HeldOperator, -1) // the order is named above all
	g.apply(gate.Pause{Until: t0.Add(30 * time.Second)})
	g.held(false, gate.HeldOperator, time.Minute) // but asking helps only after both
	g.at(30*time.Second).held(false, gate.HeldRetryAfter, time.Minute)
	g.apply(gate.Pause{})
	g.at(time.Hour).held(false, gate.HeldOperator, -1)
	g.apply(gate.Resume{})
	g.start(false)
}

func TestClockSetBack(t *testing.T) {
	c := gate.Config{
		Pause: true, RetryAfter: policy.RetryAfter{Honour: true},
		PerTarget: policy.PerTarget{Rate: 1},
		Budget:    policy.Budget{Kind: policy.BudgetWindow, Floor: 1, TTL: 30 * time.Second},
	}
	for _, tc := range []struct {
		name      string
		back      time.Duration
		rate      time.Duration // when the rate allows a start, after the new now
		budgetMin time.Duration // when at the earliest the budget does
	}{
		{"a little: waits for the clock", 5 * time.Second, 6 * time.Second, 35 * time.Second},
		{"an hour: moves with the clock", time.Hour, time.Second, 30 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newTarget(t, c)
			g.at(2 * time.Hour).start(true)
			g.now = g.now.Add(-tc.back)
			back := g.now
			v := g.ask(false)
			if v.Held != gate.HeldRate {
				t.Fatalf("%s; want it held by the rate", v)
			}
			if wait := v.Until.Sub(back); wait != tc.rate {
				t.Errorf("the rate holds for %s, want %s", wait, tc.rate)
			}
			g.now = v.Until
			v = g.ask(true)
			if v.Held != gate.HeldBudget {
				t.Fatalf("%s; want it held by the budget", v)
			}
			wait := v.Until.Sub(back)
			if wait < tc.budgetMin || wait > tc.budgetMin+30*time.Second {
				t.Errorf("the budget holds for %s, want %s to %s", wait, tc.budgetMin, tc.budgetMin+30*time.Second)
			}
		})
	}
}

func TestHugeTimesNeitherOverflowNorAdmit(t *testing.T) {
	const ever = time.Duration(1<<63 - 1)
	c := gate.Config{
		Pause: true, RetryAfter: policy.RetryAfter{Honour: true},
		Breaker:   policy.Breaker{Consecutive: 1, Open: ever},
		PerTarget: policy.PerTarget{Rate: 1e-300},
		Budget:    policy.Budget{Kind: policy.BudgetWindow, Floor: 1, TTL: ever},
		Keep:      ever,
	}
	for _, now := range []time.Time{{}, t0, time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), time.Unix(1<<62, 0), time.Unix(-1<<62, 0)} {
		g := newTarget(t, c)
		g.now = now
		g.start(true)
		f := serverDown
		f.RetryAfter = ever
		g.fail(f)
		g.phase(gate.Open)
		v := g.ask(false)
		if now.Year() < 9000 && (v.Admit || !v.Until.After(now) || v.Until.Year() > 9999) {
			t.Errorf("at %s: %s until %s", now, v, v.Until)
		}
	}
}

func TestStepRefusesEventsByPointer(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a *Done was dropped in silence")
		}
	}()
	gate.Step(gate.Config{}, gate.State{}, &gate.Done{OK: true}, t0, 0)
}
