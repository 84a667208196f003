package gate_test

import (
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/policy"
)

// heldFor checks the time held from the start to d after it.
func (g *target) heldFor(d time.Duration, firsts, retries time.Duration) {
	g.t.Helper()
	for _, kind := range []struct {
		retry bool
		want  time.Duration
	}{{false, firsts}, {true, retries}} {
		if got := g.s.HeldBetween(t0, t0.Add(d), kind.retry); got != kind.want {
			g.t.Fatalf("until %s, retry %t: held for %s, want %s", d, kind.retry, got, kind.want)
		}
	}
}

func TestAnOpenBreakerHoldsUntilItsProbePasses(t *testing.T) {
	g := newTarget(t, inARow)
	g.at(10 * time.Second).failed(3) // open for 30 s
	g.heldFor(5*time.Second, 0, 0)
	g.heldFor(25*time.Second, 15*time.Second, 15*time.Second)
	g.at(40 * time.Second).start(false)
	g.at(50 * time.Second).fail(serverDown) // open for 60 s more
	g.at(110 * time.Second).start(false)
	g.at(111 * time.Second).pass()
	g.heldFor(time.Hour, 101*time.Second, 101*time.Second)
	due, ok := g.s.HeldCutoff(t0.Add(time.Hour), 100*time.Second, false)
	if want := t0.Add(11 * time.Second); !ok || !due.Equal(want) {
		t.Errorf("held for 100 s: due %s, %t; want %s", due, ok, want)
	}
	if due, ok = g.s.HeldCutoff(t0.Add(time.Hour), 102*time.Second, false); ok {
		t.Errorf("held for 102 s: due %s; want none", due)
	}
	if due, ok = g.s.HeldCutoff(t0, 0, false); !ok || !due.Equal(t0) {
		t.Errorf("held for nothing: due %s, %t; want now", due, ok)
	}
}

// A target that says when to come back holds its work without using up what
// the work may be held.
func TestAPauseThatTheTargetAskedForIsNoHold(t *testing.T) {
	c := gate.Config{Pause: true, RetryAfter: policy.RetryAfter{Honour: true}}
	g := newTarget(t, c)
	wish := serverDown
	wish.RetryAfter = 20 * time.Second
	g.start(false)
	g.at(5 * time.Second).fail(wish)
	g.at(60 * time.Second).start(false)
	g.fail(wish)
	g.heldFor(time.Hour, 0, 0)
	for to, want := range map[time.Duration]time.Duration{15: 10, 25: 20, 60: 20, 70: 30, 3600: 40} {
		g.pausedFor(to*time.Second, want*time.Second)
	}
}

// pausedFor expects how long the target had asked for pauses until then.
func (g *target) pausedFor(until, want time.Duration) {
	g.t.Helper()
	if got := g.s.PausedBetween(t0, t0.Add(until)); got != want {
		g.t.Errorf("until %s: paused for %s, want %s", until, got, want)
	}
}

func TestAnOpenBreakerHoldsOnlyBesideThePause(t *testing.T) {
	c := inARow
	c.Pause, c.RetryAfter = true, policy.RetryAfter{Honour: true}
	g := newTarget(t, c)
	wish := serverDown
	wish.RetryAfter = 20 * time.Second
	g.start(false)
	g.fail(wish) // paused until 20 s
	for range 2 {
		g.apply(gate.Done{Failure: serverDown}) // calls that were under way; open until 30 s
	}
	g.phase(gate.Open)
	g.heldFor(15*time.Second, 0, 0)
	g.heldFor(25*time.Second, 5*time.Second, 5*time.Second)
}

func TestAnEmptyBudgetHoldsRetriesAlone(t *testing.T) {
	g := newTarget(t, budget(policy.BudgetTokens, 1, 1, 0))
	g.start(true)
	g.at(10*time.Second).held(true, gate.HeldBudget, -1)
	g.at(15*time.Second).held(true, gate.HeldBudget, -1)
	g.heldFor(20*time.Second, 0, 10*time.Second)
	g.at(30 * time.Second).pass() // pays, but nobody was admitted yet
	g.at(32 * time.Second).start(true)
	g.heldFor(time.Hour, 0, 22*time.Second)
}

// An operator who stops a dead target does not use up its work's max_hold.
func TestAnOperatorsPauseNeverCounts(t *testing.T) {
	g := newTarget(t, inARow)
	g.failed(3)
	g.at(10 * time.Second).apply(gate.Pause{})
	g.heldFor(time.Hour, 10*time.Second, 10*time.Second)
	g.at(60 * time.Second).apply(gate.Pause{Until: t0.Add(100 * time.Second)})
	g.heldFor(90*time.Second, 10*time.Second, 10*time.Second)
	g.heldFor(105*time.Second, 15*time.Second, 15*time.Second)
	g.at(80 * time.Second).apply(gate.Resume{})
	g.heldFor(105*time.Second, 35*time.Second, 35*time.Second)
}

// flap opens and closes the gate n times by its breaker: hold on, gap off.
func flap(n int, hold, gap time.Duration) (s gate.State, end time.Time) {
	c := gate.Config{Breaker: policy.Breaker{Consecutive: 1, Open: hold, Cap: hold}, PerTarget: policy.PerTarget{Concurrency: 1}}
	now := t0
	for range n {
		s, _ = gate.Step(c, s, gate.Done{Failure: serverDown}, now, 0.5)
		now = now.Add(hold)
		s, _ = gate.Step(c, s, gate.Ask{}, now, 0.5)
		s, _ = gate.Step(c, s, gate.Done{OK: true, Probe: true}, now, 0.5)
		now = now.Add(gap)
	}
	return s, now
}

func TestManyShortGapsLoseNoHeldTime(t *testing.T) {
	s, end := flap(40, 30*time.Second, time.Second)
	if got := s.HeldBetween(t0, end, false); got != 20*time.Minute {
		t.Errorf("held for %s, want 20m", got)
	}
	if got := s.HeldBetween(end.Add(-31*time.Second), end, false); got != 30*time.Second {
		t.Errorf("the last hold: %s, want 30s", got)
	}
}

func TestOldHoldsFarApartAreForgotten(t *testing.T) {
	s, end := flap(40, 5*time.Minute, 24*time.Hour)
	if got := s.HeldBetween(t0, end, false); got != 40*time.Minute {
		t.Errorf("held for %s, want the last 8 times 5m", got)
	}
	if got := s.HeldBetween(end.Add(-36*time.Hour), end, false); got != 5*time.Minute {
		t.Errorf("in the last day and a half: %s, want 5m", got)
	}
}

// A state that a build without these fields wrote counts from its last step.
func TestAnOlderStateCountsItsHoldFromWhenItWasSeen(t *testing.T) {
	var s gate.State
	old := `{"v":1,"seen_at":63902822400000000,"phase":"open","trips":1,"open_until":63902822430000000}`
	if err := json.Unmarshal([]byte(old), &s); err != nil {
		t.Fatal(err)
	}
	if got := s.HeldBetween(t0.Add(-time.Hour), t0.Add(time.Minute), false); got != time.Minute {
		t.Errorf("held for %s, want 1m", got)
	}
}

func TestHoldsMoveWithAClockThatIsSetBack(t *testing.T) {
	g := newTarget(t, inARow)
	g.at(time.Hour).failed(3)
	g.at(time.Hour + 10*time.Second).apply(gate.Abandon{})
	g.at(10 * time.Second).apply(gate.Abandon{}) // an hour back
	g.heldFor(10*time.Second, 10*time.Second, 10*time.Second)
}

// A refused ask is written only where a budget's hold begins or ends.
func TestARefusalThatChangesNothingReturnsTheSameState(t *testing.T) {
	c := budget(policy.BudgetWindow, 0.5, 1, 10*time.Second)
	c.Keep = time.Second
	s, g := gate.Carve(c, gate.State{}, gate.Want{Firsts: 3, Retries: 1}, t0, 0.5)
	if g.Size() != 4 {
		t.Fatalf("%+v; want all", g)
	}
	refuse := func(after time.Duration) gate.State {
		next, g := gate.Carve(c, s, gate.Want{Retries: 2}, t0.Add(after), 0.5)
		if g.Size() != 0 || g.Rest.Held != gate.HeldBudget {
			t.Fatalf("%+v; want nothing, held by the budget", g)
		}
		return next
	}
	first := refuse(time.Second)
	if first == s {
		t.Error("the hold's beginning was not remembered")
	}
	s = first
	if refuse(3*time.Second) != s {
		t.Error("a further refusal changed the state")
	}
	if next, _ := gate.Step(c, s, gate.Ask{Retry: true}, t0.Add(4*time.Second), 0.5); next != s {
		t.Error("a refused ask changed the state")
	}
}

// quarter is the grid of TestHeldTimesAgreeWithSampling: all that happens
// does so at whole quarters of a second.
const quarter = 250 * time.Millisecond

// watcher samples what holds in each quarter, by its own rules.
type watcher struct {
	*rapid.T
	c     gate.Config
	s     gate.State
	now   time.Time
	calls []gate.Verdict
	dry   bool
	// By quarters from t0 on: held for all, by an empty budget, for retries.
	all, empty, retry, paused []bool
}

func quarters(t *rapid.T, most int, name string) time.Duration {
	return time.Duration(rapid.IntRange(1, most).Draw(t, name)) * quarter
}

func (w *watcher) wait(n int) {
	for range n {
		middle := w.now.Add(quarter / 2)
		stopped := w.s.Stopped && (w.s.StopUntil == 0 || w.s.StopUntil.Time().After(middle))
		paused := w.s.PauseUntil.Time().After(middle)
		held := w.s.Phase == gate.Open || w.s.Phase == gate.HalfOpen
		w.all = append(w.all, held && !paused && !stopped)
		w.empty = append(w.empty, w.dry && !paused && !stopped)
		w.retry = append(w.retry, (held || w.dry) && !paused && !stopped)
		w.paused = append(w.paused, paused && !stopped)
		w.now = w.now.Add(quarter)
	}
}

func (w *watcher) step(e gate.Event) (v gate.Verdict) {
	w.s, v = gate.Step(w.c, w.s, e, w.now, 0.5)
	sameAfterJSON(w.T, w.s)
	return v
}

func (w *watcher) act() {
	switch what := rapid.IntRange(0, 11).Draw(w.T, "what"); {
	case what <= 3:
		v := w.step(gate.Ask{Retry: rapid.Bool().Draw(w.T, "retry")})
		if v.Admit {
			w.calls = append(w.calls, v)
		}
		if v.Retry {
			w.dry = v.Held == gate.HeldBudget
		}
	case what <= 6 && len(w.calls) > 0:
		v := w.calls[0]
		w.calls = w.calls[1:]
		end := v.Success()
		if rapid.Bool().Draw(w.T, "failed") {
			end = v.Failure(serverDown)
			if rapid.IntRange(0, 3).Draw(w.T, "wish") == 0 {
				end.Failure.RetryAfter = quarters(w.T, 20, "for")
			}
		}
		w.step(end)
	case what == 7:
		w.step(gate.Resume{})
	case what == 8:
		p := gate.Pause{}
		if rapid.Bool().Draw(w.T, "timed") {
			p.Until = w.now.Add(quarters(w.T, 20, "for"))
		}
		w.step(p)
	case what == 9:
		w.step(gate.Probe{})
	case what == 10:
		w.step(gate.Close{})
	default:
		w.wait(rapid.IntRange(1, 12).Draw(w.T, "wait"))
	}
}

// runs counts the stretches of true.
func runs(held []bool) (n int) {
	for i, h := range held {
		if h && (i == 0 || !held[i-1]) {
			n++
		}
	}
	return n
}

func sampled(held []bool, from, to int) (sum time.Duration) {
	for _, h := range held[from:to] {
		if h {
			sum += quarter
		}
	}
	return sum
}

func TestHeldTimesAgreeWithSampling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &watcher{T: t, now: t0, c: gate.Config{
			Pause: true, RetryAfter: policy.RetryAfter{Honour: true},
			Breaker: policy.Breaker{Consecutive: 2, Open: time.Second, Cap: 4 * time.Second},
			Budget:  policy.Budget{Kind: policy.BudgetTokens, Ratio: 0.5, Floor: 2},
		}}
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			w.act()
		}
		w.wait(4)
		for retry, held := range map[bool][]bool{false: w.all, true: w.retry} {
			w.compare(held, retry)
		}
	})
}

func (w *watcher) compare(held []bool, retry bool) {
	n := len(held)
	at := func(i int) time.Time { return t0.Add(time.Duration(i) * quarter) }
	a := rapid.IntRange(0, n).Draw(w.T, "from")
	b := rapid.IntRange(a, n).Draw(w.T, "to")
	mid := rapid.IntRange(a, b).Draw(w.T, "mid")
	got := w.s.HeldBetween(at(a), at(b), retry)
	if parts := w.s.HeldBetween(at(a), at(mid), retry) + w.s.HeldBetween(at(mid), at(b), retry); got != parts {
		w.Fatalf("%s in all, %s in two parts", got, parts)
	}
	if got > at(b).Sub(at(a)) {
		w.Fatalf("held for %s of %s", got, at(b).Sub(at(a)))
	}
	if runs(w.paused) <= 8 {
		if got, want := w.s.PausedBetween(at(a), at(b)), sampled(w.paused, a, b); got != want {
			w.Fatalf("from %d to %d: paused for %s, sampled %s", a, b, got, want)
		}
	}
	if runs(w.all) <= 8 && runs(w.empty) <= 8 {
		if want := sampled(held, a, b); got != want {
			w.Fatalf("from %d to %d, retry %t: %s, sampled %s", a, b, retry, got, want)
		}
	} else if got, most := w.s.HeldBetween(t0, w.now, false), sampled(w.all, 0, n); got > most {
		w.Fatalf("held for %s, sampled %s", got, most)
	}
	w.invert(held, retry)
}

func (w *watcher) invert(held []bool, retry bool) {
	atLeast := quarters(w.T, len(held)+1, "at least")
	due, ok := w.s.HeldCutoff(w.now, atLeast, retry)
	switch {
	case !ok:
		if got := w.s.HeldBetween(time.Time{}, w.now, retry); got >= atLeast {
			w.Fatalf("no cutoff for %s, held for %s", atLeast, got)
		}
	case w.s.HeldBetween(due, w.now, retry) != atLeast:
		w.Fatalf("due %s: held for %s, want %s", due, w.s.HeldBetween(due, w.now, retry), atLeast)
	case w.s.HeldBetween(due.Add(time.Microsecond), w.now, retry) >= atLeast:
		w.Fatalf("due a moment after %s: held as long", due)
	}
}
