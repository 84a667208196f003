package gate_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/policy"
)

// start is one line of the ledger: a call that really began.
type start struct {
	at    time.Time
	retry bool
}

// checkLedger tries every window of length ttl that begins or ends at, just
// before or just after a start.
func checkLedger(t *rapid.T, b policy.Budget, ledger []start) {
	for _, s := range ledger {
		for _, off := range []time.Duration{-1, 0, 1} {
			checkWindow(t, b, ledger, s.at.Add(off))
			checkWindow(t, b, ledger, s.at.Add(off-b.TTL))
		}
	}
}

func checkWindow(t *rapid.T, b policy.Budget, ledger []start, from time.Time) {
	firsts, retries := 0, 0
	for _, s := range ledger {
		switch {
		case s.at.Before(from) || s.at.After(from.Add(b.TTL)):
		case s.retry:
			retries++
		default:
			firsts++
		}
	}
	if most := b.Ratio*float64(firsts) + b.Floor; float64(retries) > most+1e-9 {
		t.Fatalf("%d retries and %d first attempts from %s on, at most %g", retries, firsts, from, most)
	}
}

func windowBudgets() *rapid.Generator[policy.Budget] {
	return rapid.Custom(func(t *rapid.T) policy.Budget {
		return policy.Budget{
			Kind:  policy.BudgetWindow,
			Ratio: rapid.OneOf(rapid.SampledFrom([]float64{0, 0.1, 0.2, 1. / 3, 2. / 3, 1, 1.5}), rapid.Float64Range(0, 2)).Draw(t, "ratio"),
			Floor: float64(rapid.IntRange(0, 12).Draw(t, "floor")) / 2,
			TTL:   time.Millisecond + seconds(12).Draw(t, "ttl"),
		}
	})
}

// adversary asks for retries as early as the gate's own verdicts allow. Its
// clock may be set back; the ledger is in true time.
type adversary struct {
	*rapid.T
	s      gate.State
	now    time.Time // true
	behind time.Duration
	ledger []start
}

func (a *adversary) ask(c gate.Config, retry bool) gate.Verdict {
	var v gate.Verdict
	a.s, v = gate.Step(c, a.s, gate.Ask{Retry: retry}, a.now.Add(-a.behind), 0.5)
	if v.Admit {
		a.ledger = append(a.ledger, start{a.now, retry})
	} else if !retry {
		a.Fatalf("a first attempt: %s", v)
	}
	return v
}

func (a *adversary) act(c gate.Config, setBack bool) {
	switch what := rapid.IntRange(0, 8).Draw(a.T, "what"); {
	case what == 0 && setBack:
		a.behind += rapid.OneOf(seconds(15), seconds(4000)).Draw(a.T, "set back")
	case what <= 2:
		a.now = a.now.Add(seconds(4).Draw(a.T, "wait"))
	case what <= 4: // spend all there is
		for a.ask(c, true).Admit {
			continue
		}
	case what <= 6: // wait no longer than the gate says
		if v := a.ask(c, true); !v.Until.IsZero() {
			a.now = v.Until.Add(a.behind)
			a.ask(c, true)
		}
	default:
		for range rapid.IntRange(1, 5).Draw(a.T, "burst") {
			a.ask(c, false)
		}
	}
}

func TestWindowBudgetHoldsInEveryWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := gate.Config{Budget: windowBudgets().Draw(t, "budget")}
		a := &adversary{T: t, now: t0}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			a.act(c, true)
		}
		checkLedger(t, c.Budget, a.ledger)
	})
}

// Policies that share a target and differ in their ttl keep the shorter one.
func TestWindowBudgetHoldsWhenTheTTLChanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		short := gate.Config{Budget: windowBudgets().Draw(t, "budget")}
		long := short
		long.Budget.TTL += seconds(30).Draw(t, "longer")
		a := &adversary{T: t, now: t0}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			c := short
			if rapid.Bool().Draw(t, "long") {
				c = long
			}
			a.act(c, false)
		}
		checkLedger(t, short.Budget, a.ledger)
	})
}

// Permits that are kept for a while before their calls start, lost ones
// included, do not stretch the budget.
func TestWindowBudgetHoldsForKeptGrants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := gate.Config{Budget: windowBudgets().Draw(t, "budget"), Keep: time.Millisecond + seconds(6).Draw(t, "keep")}
		var s gate.State
		var ledger []start
		var permits, calls []start // at: when carved, when started
		now := t0
		// take removes one of the list.
		take := func(list *[]start) start {
			i := rapid.IntRange(0, len(*list)-1).Draw(t, "which")
			got := (*list)[i]
			*list = append((*list)[:i:i], (*list)[i+1:]...)
			return got
		}
		for range rapid.IntRange(1, 150).Draw(t, "steps") {
			switch what := rapid.IntRange(0, 7).Draw(t, "what"); {
			case what == 0:
				now = now.Add(seconds(4).Draw(t, "wait"))
			case what <= 2:
				var g gate.Grant
				s, g = gate.Carve(c, s, gate.Want{
					Firsts: rapid.IntRange(0, 4).Draw(t, "firsts"), Retries: rapid.IntRange(0, 4).Draw(t, "retries"),
				}, now, 0.5)
				for i := range g.Size() {
					permits = append(permits, start{now, i >= g.Firsts})
				}
			case what <= 5 && len(permits) > 0:
				p := take(&permits)
				if now.Sub(p.at) > c.Keep || rapid.IntRange(0, 5).Draw(t, "lost") == 0 {
					s, _ = gate.Step(c, s, gate.Abandon{Retry: p.retry, Unused: rapid.Bool().Draw(t, "unused")}, now, 0.5)
					continue
				}
				ledger = append(ledger, start{now, p.retry})
				calls = append(calls, start{now, p.retry})
			case len(calls) > 0:
				call := take(&calls)
				s, _ = gate.Step(c, s, gate.Done{OK: true, Retry: call.retry, StartedAt: call.at}, now, 0.5)
			}
		}
		checkLedger(t, c.Budget, ledger)
	})
}

// A retry may start late and a first attempt early: then a window holds the
// one without the other.
func TestAFirstAttemptDoesNotPayForAKeptRetry(t *testing.T) {
	c := budget(policy.BudgetWindow, 1, 1, 10*time.Second)
	c.Keep = 5 * time.Second
	s, g := gate.Carve(c, gate.State{}, gate.Want{Firsts: 1, Retries: 1}, t0, 0.5)
	if g.Size() != 2 {
		t.Fatalf("%+v; want both", g)
	}
	// The first attempt starts after 2 s and ends; the retry starts after 5 s.
	s, _ = gate.Step(c, s, gate.Done{OK: true, StartedAt: t0.Add(2 * time.Second)}, t0.Add(3*time.Second), 0.5)
	// A second retry would start after 5 s too: two in the window from 3 s on.
	if _, g = gate.Carve(c, s, gate.Want{Retries: 1}, t0.Add(4*time.Second), 0.5); g.Retries != 0 {
		t.Error("a second retry")
	}
}

// Under Keep, first attempts do pay once their starts are known.
func TestKeptFirstAttemptsPay(t *testing.T) {
	c := budget(policy.BudgetWindow, 1, 1, 10*time.Second)
	c.Keep = time.Second
	s, g := gate.Carve(c, gate.State{}, gate.Want{Retries: 2}, t0, 0.5)
	if g.Retries != 1 {
		t.Fatalf("%d retries, want the floor of 1", g.Retries)
	}
	now := t0.Add(5 * time.Second)
	s, _ = gate.Carve(c, s, gate.Want{Firsts: 1}, now, 0.5)
	if _, g = gate.Carve(c, s, gate.Want{Retries: 1}, now, 0.5); g.Retries != 0 {
		t.Error("a first attempt paid before it started")
	}
	started := now
	now = now.Add(2 * time.Second)
	s, _ = gate.Step(c, s, gate.Done{OK: true, StartedAt: started}, now, 0.5)
	if _, g = gate.Carve(c, s, gate.Want{Retries: 2}, now, 0.5); g.Retries != 1 {
		t.Errorf("%d retries after a first attempt paid, want 1", g.Retries)
	}
}

// Reserved starts of all grants together keep the rate.
func TestReservedStartsNeverOverlap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := gate.Config{
			PerTarget: policy.PerTarget{Rate: rapid.Float64Range(0.1, 1000).Draw(t, "rate")},
			Keep:      seconds(3).Draw(t, "keep"),
		}
		var s gate.State
		now, free := t0, t0
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			now = now.Add(seconds(2).Draw(t, "wait"))
			var g gate.Grant
			s, g = gate.Carve(c, s, gate.Want{Firsts: rapid.IntRange(0, 50).Draw(t, "firsts")}, now, 0.5)
			if g.Size() == 0 {
				continue
			}
			if g.Every.Seconds() < 1/c.PerTarget.Rate-1e-9 {
				t.Fatalf("a start every %s at a rate of %g", g.Every, c.PerTarget.Rate)
			}
			last := g.StartAt.Add(time.Duration(g.Size()-1) * g.Every)
			if g.StartAt.Before(free) || g.StartAt.Before(now) || last.After(now.Add(c.Keep)) {
				t.Fatalf("at %s: starts from %s to %s, free from %s", now, g.StartAt, last, free)
			}
			free = last.Add(g.Every)
		}
	})
}
