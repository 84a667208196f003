package gate_test

import (
	"testing"
	"time"

	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/policy"
)

// patient honours a target's wish for a pause, with or without a breaker.
func patient(breaker policy.Breaker) gate.Config {
	return gate.Config{Pause: true, RetryAfter: policy.RetryAfter{Honour: true}, Breaker: breaker}
}

// throttled ends the oldest call with the wish to be left alone for d.
func (g *target) throttled(d time.Duration) {
	g.t.Helper()
	f := serverDown
	f.RetryAfter = d
	g.fail(f)
}

// probe starts a call that must be the breaker's one probe.
func (g *target) probe() {
	g.t.Helper()
	if v := g.start(false); !v.Probe {
		g.t.Fatalf("at %s: %+v; want the probe", g.now.Sub(t0), v)
	}
	g.held(false, gate.HeldBreaker, -1)
}

func TestAnOrderedProbeDoesNotWaitForTheOpenTime(t *testing.T) {
	g := newTarget(t, inARow)
	g.failed(3)
	g.held(false, gate.HeldBreaker, 30*time.Second)
	g.at(5 * time.Second).apply(gate.Probe{})
	g.phase(gate.HalfOpen)
	g.probe()
	g.at(6 * time.Second).fail(serverDown) // it opens again, doubled
	g.phase(gate.Open)
	g.held(false, gate.HeldBreaker, 66*time.Second)
	g.at(10 * time.Second).apply(gate.Probe{})
	g.probe()
	g.pass()
	g.phase(gate.Ramping)
	g.heldFor(time.Hour, 10*time.Second, 10*time.Second)
}

func TestAnOrderedProbeOfAHalfOpenBreaker(t *testing.T) {
	g := newTarget(t, inARow)
	g.failed(3)
	g.at(30 * time.Second).probe()
	before := g.s
	g.apply(gate.Probe{})
	if g.s != before {
		t.Errorf("its probe is out, and an order changed %+v to %+v", before, g.s)
	}
	g.drop()
	g.apply(gate.Probe{})
	g.probe()
}

func TestAnOrderedProbeEndsARetryAfter(t *testing.T) {
	g := newTarget(t, patient(inARow.Breaker))
	g.start(false)
	g.throttled(time.Minute)
	g.phase(gate.Closed)
	g.at(10 * time.Second).apply(gate.Probe{})
	g.probe()
	g.throttled(time.Minute) // it asks again: the breaker's probe failed
	g.phase(gate.Open)
	g.held(false, gate.HeldRetryAfter, 70*time.Second)
	g.at(20 * time.Second).apply(gate.Probe{})
	g.probe()
	g.pass()
	g.heldFor(time.Hour, 0, 0)
	g.pausedFor(time.Hour, 20*time.Second)
}

func TestAnOrderedProbeOfARampThatWasAskedToWait(t *testing.T) {
	g := ramped(t, patient(inARow.Breaker))
	at := g.now.Sub(t0)
	g.s.PauseUntil = gate.InstantOf(g.now.Add(time.Minute))
	g.held(false, gate.HeldRetryAfter, at+time.Minute)
	g.apply(gate.Probe{})
	sameAfterJSON(t, g.s)
	g.probe()
}

func TestAnOrderedProbeWithoutABreaker(t *testing.T) {
	g := newTarget(t, patient(policy.Breaker{}))
	g.start(false)
	g.throttled(time.Minute)
	g.at(10 * time.Second).apply(gate.Probe{})
	g.phase(gate.Closed)
	if v := g.start(false); v.Probe {
		t.Errorf("a target without a breaker was probed: %+v", v)
	}
	g.throttled(time.Minute)
	g.held(false, gate.HeldRetryAfter, 70*time.Second)
	g.heldFor(15*time.Second, 0, 0)
	g.pausedFor(15*time.Second, 15*time.Second)
}

func TestAnOrderedProbeChangesNothingElsewhere(t *testing.T) {
	healthy := newTarget(t, inARow)
	healthy.failed(2)
	stopped := newTarget(t, inARow)
	stopped.failed(3)
	stopped.apply(gate.Pause{})
	for name, g := range map[string]*target{"closed": healthy, "ramping": ramped(t, inARow), "paused": stopped} {
		before := g.s
		if g.apply(gate.Probe{}); g.s != before || g.s.Probeable(g.now) {
			t.Errorf("%s: an order to probe changed %+v to %+v, probeable %t", name, before, g.s, g.s.Probeable(g.now))
		}
	}
	stopped.apply(gate.Resume{})
	if stopped.apply(gate.Probe{}); stopped.s.Phase != gate.HalfOpen {
		t.Errorf("resumed, and a probe was ordered: %s", stopped.s.Phase)
	}
}

func TestClosedByHand(t *testing.T) {
	g := newTarget(t, patient(inARow.Breaker))
	g.failed(3)
	g.at(30 * time.Second).start(false)
	g.throttled(time.Hour) // the probe failed: open for 60 s, and asked to wait
	g.at(40 * time.Second).apply(gate.Close{})
	g.phase(gate.Closed)
	if g.s.Trips != 0 || g.s.OpenUntil != 0 || g.s.PauseUntil != 0 || g.s.Probing {
		t.Errorf("closed by hand: %+v", g.s)
	}
	g.heldFor(time.Hour, 30*time.Second, 30*time.Second)
	g.pausedFor(time.Hour, 10*time.Second)
	for range 5 {
		g.start(false)
	}
	g.calls = nil
	g.at(50 * time.Second).failed(2)
	g.phase(gate.Closed) // it counts from the beginning
	g.failed(1)
	g.held(false, gate.HeldBreaker, 80*time.Second) // and so does the open time
}

func TestAProbeThatWasOutWhenClosedByHandDecidesNothing(t *testing.T) {
	for name, end := range map[string]func(gate.Verdict) gate.Event{
		"passed": func(v gate.Verdict) gate.Event { return v.Success() },
		"failed": func(v gate.Verdict) gate.Event { return v.Failure(serverDown) },
		"lost":   func(v gate.Verdict) gate.Event { return gate.Abandon{Probe: v.Probe} },
	} {
		g := newTarget(t, inARow)
		g.failed(3)
		probe := g.at(30 * time.Second).start(false)
		g.apply(gate.Close{})
		sameAfterJSON(t, g.s)
		g.apply(end(probe))
		g.phase(gate.Closed)
		if g.s.InFlight != 0 || g.s.Failed != 0 {
			t.Errorf("%s: %d in flight, %d failed in a row; want none", name, g.s.InFlight, g.s.Failed)
		}
	}
}

func TestAnOperatorsPauseOutlastsClose(t *testing.T) {
	g := newTarget(t, inARow)
	g.failed(3)
	g.apply(gate.Pause{})
	g.apply(gate.Close{})
	g.phase(gate.Closed)
	g.held(false, gate.HeldOperator, -1)
	g.apply(gate.Resume{})
	g.start(false)
}
