package gate_test

import (
	"math"
	"testing"
	"time"

	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/policy"
)

func budget(kind policy.BudgetKind, ratio, floor float64, ttl time.Duration) gate.Config {
	return gate.Config{Budget: policy.Budget{Kind: kind, Ratio: ratio, Floor: floor, TTL: ttl}}
}

func TestWindowBudget(t *testing.T) {
	g := newTarget(t, budget(policy.BudgetWindow, 0.2, 3, 10*time.Second))
	for range 3 {
		g.start(true)
	}
	// Cells of 2^20 µs: the charge is in cell n and ends with cell n+10.
	v := g.ask(true)
	if v.Held != gate.HeldBudget || !v.CountsHold() {
		t.Fatalf("%s; want an empty budget", v)
	}
	if wait := v.Until.Sub(t0); wait < 10*time.Second || wait > 12*time.Second {
		t.Errorf("room again after %s, want 10 to 12 s", wait)
	}
	for range 4 {
		g.start(false) // first attempts are never held
		g.held(true, gate.HeldBudget, v.Until.Sub(t0))
	}
	g.start(false) // the fifth pays for one retry
	g.start(true)
	g.held(true, gate.HeldBudget, v.Until.Sub(t0))
	g.now = v.Until.Add(-time.Microsecond)
	g.held(true, gate.HeldBudget, v.Until.Sub(t0))
	g.now = v.Until
	for range 3 {
		g.start(true)
	}
	if v := g.ask(true); v.Held != gate.HeldBudget {
		t.Errorf("%s; want an empty budget", v)
	}
}

func TestWindowBudgetSavesUpNoMoreThanTheFloor(t *testing.T) {
	// A window that begins with the first retry holds no first attempt.
	g := newTarget(t, budget(policy.BudgetWindow, 0.5, 2, 10*time.Second))
	for range 1000 {
		g.start(false)
	}
	g.start(true)
	g.start(true)
	if v := g.ask(true); v.Held != gate.HeldBudget {
		t.Errorf("%s; want an empty budget", v)
	}
}

func TestWindowBudgetWithoutFloorAdmitsNoRetry(t *testing.T) {
	g := newTarget(t, budget(policy.BudgetWindow, 1, 0.5, 10*time.Second))
	for range 10 {
		g.start(false)
	}
	g.held(true, gate.HeldBudget, -1)
}

func TestWindowBudgetRoundsPaymentsDown(t *testing.T) {
	g := newTarget(t, budget(policy.BudgetWindow, 0.3333331, 1, 10*time.Second))
	g.start(true)
	for range 3 {
		g.start(false)
	}
	if g.ask(true).Admit { // 0.9999993
		t.Error("three first attempts paid for a whole retry")
	}
	g.start(false)
	g.start(true)
}

func TestWindowBudgetTakesBackAnUnusedFirstAttempt(t *testing.T) {
	g := newTarget(t, budget(policy.BudgetWindow, 1, 1, 10*time.Second))
	g.start(true)
	v := g.start(false)
	g.apply(v.Unused())
	if v := g.ask(true); v.Held != gate.HeldBudget {
		t.Errorf("%s; want an empty budget", v)
	}
}

func TestWindowBudgetOfTwoPoliciesStillForgets(t *testing.T) {
	// Two ttls on one target, in turn: counts must not be carried on for ever.
	g := newTarget(t, budget(policy.BudgetWindow, 0, 1, 10*time.Second))
	other := budget(policy.BudgetWindow, 0, 1, 13700*time.Millisecond)
	g.start(true)
	for i := range 400 {
		g.at(time.Duration(i) * 50 * time.Millisecond)
		g.c, other = other, g.c
		if g.ask(true).Admit {
			if g.now.Sub(t0) < 10*time.Second {
				t.Fatalf("a second retry after %s", g.now.Sub(t0))
			}
			return
		}
	}
	t.Error("no room after 20 s")
}

func TestTokenBudget(t *testing.T) {
	g := newTarget(t, budget(policy.BudgetTokens, 0.1, 3, 0))
	for range 3 {
		g.start(true)
	}
	g.held(true, gate.HeldBudget, -1)
	g.fail(serverDown) // pays nothing
	g.fail(badInput)
	g.at(time.Hour).held(true, gate.HeldBudget, -1) // nor does time
	for range 9 {
		g.start(false)
	}
	for range 9 {
		g.pass()
	}
	g.held(true, gate.HeldBudget, -1) // 0.9 tokens
	g.pass()
	g.start(true)
	g.held(true, gate.HeldBudget, -1)
	for range 100 { // never over the bucket's size
		g.start(false)
		g.pass()
	}
	g.start(true)
	g.start(true)
	v := g.start(true)
	g.held(true, gate.HeldBudget, -1)
	g.apply(v.Unused())
	g.start(true) // the token came back
	g.held(true, gate.HeldBudget, -1)
}

func TestShareBudget(t *testing.T) {
	g := newTarget(t, budget(policy.BudgetShare, 0.25, 1, 0))
	g.start(true) // the floor
	g.held(true, gate.HeldBudget, -1)
	for range 5 {
		g.start(false)
		g.held(true, gate.HeldBudget, -1)
	}
	g.start(false)
	g.start(true) // 2 of 8
	g.held(true, gate.HeldBudget, -1)
	g.pass()      // ends the first retry
	g.start(true) // 2 of 8 again
	g.pass()      // ends a first attempt: 2 of 7, which nobody can help
	g.start(false)
	g.held(true, gate.HeldBudget, -1)
}

func TestThrottle(t *testing.T) {
	c := budget(policy.BudgetThrottle, 2, 4, time.Minute)
	g := newTarget(t, c)
	for range 6 { // in flight: says nothing yet
		g.start(false)
	}
	g.draw = 0
	g.start(false)
	for range 3 {
		g.fail(serverDown)
	}
	g.start(false) // 3 seen, the floor is 4
	g.fail(serverDown)
	// 4 asked, 0 accepted: 4/5.
	g.draw = 0.8
	g.start(false)
	g.draw = math.Nextafter(0.8, 0)
	v := g.ask(false)
	if v.Held != gate.HeldBudget || !v.Until.After(g.now) || v.Until.After(g.now.Add(12*time.Second)) {
		t.Fatalf("%s until %s; want it refused for one cell", v, v.Until)
	}
}

func TestThrottleLetsGoOnceTargetAccepts(t *testing.T) {
	g := newTarget(t, budget(policy.BudgetThrottle, 2, 4, time.Minute))
	for range 8 {
		g.start(false)
	}
	for range 5 {
		g.fail(serverDown)
	}
	g.pass()
	g.pass()
	g.fail(ourFault) // counts neither way
	// 7 asked, 2 accepted: (7 − 4)/8.
	g.draw = 0.375
	g.start(true)
	g.pass() // 8 asked, 3 accepted: 2/9
	g.draw = 2. / 9
	g.start(false)
	g.pass() // 1/10
	g.draw = 0.1
	g.start(false)
	g.pass() // none
	g.draw = 0
	g.start(false)
	g.at(73 * time.Second).start(false) // all forgotten
}

// One draw for each job, or for each target, must not decide for all times.
func TestThrottleDrawsAnewAfterRefusal(t *testing.T) {
	c := budget(policy.BudgetThrottle, 2, 4, time.Hour)
	var s gate.State
	for i := range 7 { // 2 accepted: (7 − 4)/8
		s, _ = gate.Step(c, s, gate.Ask{}, t0, 0.99)
		s, _ = gate.Step(c, s, gate.Done{OK: i < 2, Failure: serverDown}, t0, 0)
	}
	const asks = 10_000
	refused := 0
	for i := range asks {
		s.Refused = uint32(i)
		if _, v := gate.Step(c, s, gate.Ask{}, t0, 0.1); !v.Admit {
			refused++
		}
	}
	if share := float64(refused) / asks; math.Abs(share-0.375) > 0.02 {
		t.Errorf("a share of %.3f was refused with one draw, want 0.375", share)
	}
}

func TestBudgetDoesNotChargeWhatIsHeldOtherwise(t *testing.T) {
	c := budget(policy.BudgetTokens, 1, 1, 0)
	c.PerTarget.Concurrency = 1
	g := newTarget(t, c)
	g.start(false)
	for range 5 {
		g.held(true, gate.HeldConcurrency, -1)
	}
	g.fail(serverDown)
	g.start(true)
}
