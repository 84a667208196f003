package gate_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/policy"
)

func seconds(most int) *rapid.Generator[time.Duration] {
	return rapid.Custom(func(t *rapid.T) time.Duration {
		return time.Duration(rapid.IntRange(0, most*1e6).Draw(t, "µs")) * time.Microsecond
	})
}

var budgetKinds = []policy.BudgetKind{
	policy.BudgetNone, policy.BudgetWindow, policy.BudgetTokens, policy.BudgetShare, policy.BudgetThrottle,
}

// configs are sane gates small enough for every limit to be reached.
func configs() *rapid.Generator[gate.Config] {
	return rapid.Custom(func(t *rapid.T) gate.Config {
		c := gate.Config{
			Pause:      true,
			RetryAfter: policy.RetryAfter{Honour: true, Max: 20 * time.Second},
			PerTarget:  policy.PerTarget{Concurrency: rapid.IntRange(0, 6).Draw(t, "concurrency")},
			Breaker: policy.Breaker{
				Consecutive: rapid.IntRange(0, 4).Draw(t, "consecutive"),
				Ratio:       rapid.SampledFrom([]float64{0, 0.5}).Draw(t, "ratio"),
				MinCalls:    4, Window: 10 * time.Second,
				Open: 2 * time.Second, Cap: 11 * time.Second,
			},
			Budget: policy.Budget{
				Kind:  rapid.SampledFrom(budgetKinds).Draw(t, "kind"),
				Floor: float64(rapid.IntRange(0, 4).Draw(t, "floor")),
				TTL:   5 * time.Second,
			},
		}
		if rapid.Bool().Draw(t, "rated") {
			c.PerTarget.Rate = rapid.Float64Range(0.5, 50).Draw(t, "rate")
		}
		c.Budget.Ratio = rapid.Float64Range(0.01, 0.9).Draw(t, "share")
		if c.Budget.Kind == policy.BudgetThrottle {
			c.Budget.Ratio++
		}
		return c
	})
}

// world drives a gate by the rules and knows what must hold.
type world struct {
	*rapid.T
	c       gate.Config
	s       gate.State
	now     time.Time
	calls   []gate.Verdict
	trips   int       // openings since a probe last passed
	paused  time.Time // by Retry-After
	lastAt  time.Time // of the last start
	stopped bool
	tokens  float64
}

func (w *world) draw() float64 { return rapid.Float64Range(0, 0.999).Draw(w.T, "draw") }

func (w *world) step(e gate.Event) gate.Verdict {
	before := w.s
	var v gate.Verdict
	w.s, v = gate.Step(w.c, w.s, e, w.now, w.draw())
	done, ended := e.(gate.Done)
	if before.Phase != gate.Open && w.s.Phase == gate.Open {
		if ended && done.Repeat && done.Probe {
			w.trips = max(1, w.trips)
		} else {
			w.trips++
		}
		if ended && done.Repeat && !done.Probe {
			w.Fatalf("work that failed before opened the breaker")
		}
		want := min(w.c.Breaker.Open<<(w.trips-1), w.c.Breaker.Cap)
		if got := w.s.OpenUntil.Time().Sub(w.now); got != want {
			w.Fatalf("opening %d lasts %s, want %s", w.trips, got, want)
		}
	}
	if before.Phase == gate.HalfOpen && w.s.Phase == gate.Ramping || w.s.Phase == gate.Closed {
		w.trips = 0
	}
	if ended && done.OK {
		w.pass(before, done)
	}
	return v
}

// order is a person's: a pause, or what follows one.
func (w *world) order() {
	switch rapid.IntRange(0, 6).Draw(w.T, "order") {
	case 0:
		w.step(gate.Pause{})
		w.stopped = true
	case 1:
		w.probe()
	case 2:
		w.step(gate.Close{})
		w.paused = time.Time{}
		w.calls = slices.DeleteFunc(w.calls, func(v gate.Verdict) bool {
			if v.Probe { // it decides nothing any more
				w.step(v.Failure(serverDown))
			}
			return v.Probe
		})
		if w.s.Phase != gate.Closed || w.s.Trips != 0 {
			w.Fatalf("closed by hand, and the breaker is %s after %d openings", w.s.Phase, w.s.Trips)
		}
	default:
		w.step(gate.Resume{})
		w.stopped = false
	}
}

// probe orders a probe: if it can be one, the next call is.
func (w *world) probe() {
	before := w.s
	w.step(gate.Probe{})
	if !before.Probeable(w.now) {
		if before.SeenAt = w.s.SeenAt; before != w.s {
			w.Fatalf("a probe that cannot be changed %+v to %+v", before, w.s)
		}
		return
	}
	if w.paused = (time.Time{}); w.stopped {
		w.Fatalf("a paused target was probed")
	}
	_, v := gate.Step(w.c, w.s, gate.Ask{}, w.now, w.draw())
	if v.Held == gate.HeldBreaker || v.Held == gate.HeldRetryAfter || v.Held == gate.HeldRamp {
		w.Fatalf("ordered to be called, and %s", v)
	}
	if v.Admit && !v.Probe && w.c.Breaker.On() {
		w.Fatalf("ordered to be probed, and the call is none: %+v", v)
	}
}

// pass folds in little what has just been folded by a step.
func (w *world) pass(before gate.State, done gate.Done) {
	at, end := gate.InstantOf(w.now), gate.Pass{StartedAt: gate.InstantOf(done.StartedAt), Retry: done.Retry, Probe: done.Probe}
	passed := before
	if w.c.Passed(&passed, &end, at); passed != w.s {
		w.Fatalf("a call that passed leaves %+v in little and %+v by a step", passed, w.s)
	}
	again, _ := gate.Step(w.c, w.s, gate.Again{}, w.now, w.draw())
	passed, end.Again = before, true
	if w.c.Passed(&passed, &end, at); passed != again {
		w.Fatalf("a call that passed and went out again leaves %+v in little and %+v by two steps", passed, again)
	}
}

func (w *world) ask() {
	retry := rapid.Bool().Draw(w.T, "retry")
	before := w.s
	v := w.step(gate.Ask{Retry: retry})
	if !v.Admit {
		w.checkHeld(v, retry)
		return
	}
	switch {
	case w.stopped:
		w.Fatalf("admitted while an operator's pause lasts")
	case w.now.Before(w.paused):
		w.Fatalf("admitted at %s, paused until %s", w.now, w.paused)
	case before.Phase == gate.Open && (!v.Probe || w.now.Before(before.OpenUntil.Time())):
		w.Fatalf("an open breaker admitted %+v", v)
	case v.Probe != (before.Phase == gate.Open || before.Phase == gate.HalfOpen):
		w.Fatalf("phase %s admitted %+v", before.Phase, v)
	case before.Phase == gate.Ramping && w.s.InFlight > before.Ramp:
		w.Fatalf("%d in flight on a ramp of %d", w.s.InFlight, before.Ramp)
	}
	for _, call := range w.calls {
		if call.Probe {
			w.Fatalf("admitted %+v while a probe is out", v)
		}
	}
	if rate := w.c.PerTarget.Rate; rate > 0 && !w.lastAt.IsZero() && w.now.Sub(w.lastAt).Seconds() < 1/rate-1e-9 {
		w.Fatalf("%s between two starts at a rate of %g", w.now.Sub(w.lastAt), rate)
	}
	w.lastAt = w.now
	w.calls = append(w.calls, v)
	if retry {
		w.checkBudget(before)
	}
}

func (w *world) checkBudget(before gate.State) {
	b := w.c.Budget
	switch b.Kind {
	case policy.BudgetTokens:
		if w.tokens--; w.tokens < -1e-6 {
			w.Fatalf("a retry took the bucket to %g", w.tokens)
		}
	case policy.BudgetShare:
		most := max(b.Floor, b.Ratio*float64(before.InFlight+1))
		if float64(before.Retries+1) > most+1e-9 {
			w.Fatalf("%d retries of %d in flight, at most %g", before.Retries+1, before.InFlight+1, most)
		}
	}
}

// checkHeld: a hold has a name, and no earlier ask would have helped.
func (w *world) checkHeld(v gate.Verdict, retry bool) {
	if v.Held == gate.NotHeld || v.Probe {
		w.Fatalf("refused without a reason: %+v", v)
	}
	if v.Until.IsZero() || v.Held == gate.HeldBudget && w.c.Budget.Kind == policy.BudgetThrottle {
		return
	}
	if !v.Until.After(w.now) {
		w.Fatalf("at %s: %s until %s", w.now, v, v.Until)
	}
	if _, early := gate.Step(w.c, w.s, gate.Ask{Retry: retry}, v.Until.Add(-time.Microsecond), w.draw()); early.Admit {
		w.Fatalf("%s, yet admitted before", v)
	}
}

func (w *world) end() {
	if len(w.calls) == 0 {
		return
	}
	i := rapid.IntRange(0, len(w.calls)-1).Draw(w.T, "which")
	v := w.calls[i]
	w.calls = append(w.calls[:i:i], w.calls[i+1:]...)
	switch rapid.IntRange(0, 6).Draw(w.T, "how") {
	case 0, 1, 2:
		w.step(v.Success())
		w.tokens = min(w.tokens+w.c.Budget.Ratio, w.c.Budget.Floor)
	case 3, 4:
		f := serverDown
		if rapid.IntRange(0, 3).Draw(w.T, "retry after") == 0 {
			f.RetryAfter = seconds(40).Draw(w.T, "for")
			if until := w.now.Add(min(f.RetryAfter, 20*time.Second)); until.After(w.paused) {
				w.paused = until
			}
		}
		end := v.Failure(f)
		end.Repeat = rapid.Bool().Draw(w.T, "repeat")
		w.step(end)
	case 5:
		w.step(v.Failure(badInput))
	case 6:
		w.step(gate.Abandon{Retry: v.Retry, Probe: v.Probe})
	}
}

func (w *world) invariants(*rapid.T) {
	retries, probes := 0, 0
	for _, v := range w.calls {
		if v.Retry {
			retries++
		}
		if v.Probe {
			probes++
		}
	}
	if w.s.InFlight != len(w.calls) || w.s.Retries != retries {
		w.Fatalf("in flight %d with %d retries, really %d with %d", w.s.InFlight, w.s.Retries, len(w.calls), retries)
	}
	if most := w.c.PerTarget.Concurrency; most > 0 && len(w.calls) > most {
		w.Fatalf("%d in flight, at most %d", len(w.calls), most)
	}
	if probes > 1 || w.s.Probing != (probes == 1) {
		w.Fatalf("%d probes out, probing %t", probes, w.s.Probing)
	}
	sameAfterJSON(w.T, w.s)
}

func TestGateKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{T: t, c: configs().Draw(t, "config"), now: t0}
		w.tokens = w.c.Budget.Floor
		t.Repeat(map[string]func(*rapid.T){
			"ask":   func(*rapid.T) { w.ask() },
			"ask2":  func(*rapid.T) { w.ask() },
			"end":   func(*rapid.T) { w.end() },
			"wait":  func(*rapid.T) { w.now = w.now.Add(seconds(3).Draw(t, "wait")) },
			"order": func(*rapid.T) { w.order() },
			"":      w.invariants,
		})
	})
}

func TestCarveEqualsAskingOneByOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{T: t, c: configs().Draw(t, "config"), now: t0}
		w.tokens = math.Inf(1)
		if w.c.Budget.Kind == policy.BudgetThrottle {
			w.c.Budget.Kind = policy.BudgetNone
		}
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				w.ask()
			case 1:
				w.end()
			case 2:
				w.now = w.now.Add(seconds(3).Draw(t, "wait"))
			}
		}
		want := gate.Want{Firsts: rapid.IntRange(0, 8).Draw(t, "firsts"), Retries: rapid.IntRange(0, 8).Draw(t, "retries")}
		carved, g := gate.Carve(w.c, w.s, want, w.now, 0.5)

		one := w.s
		var got gate.Grant
		for i := range want.Firsts + want.Retries {
			var v gate.Verdict
			one, v = gate.Step(w.c, one, gate.Ask{Retry: i >= want.Firsts}, w.now, 0.5)
			switch {
			case v.Admit && v.Retry:
				got.Retries++
			case v.Admit:
				got.Firsts++
			}
			got.Probe = got.Probe || v.Probe
		}
		if g.Firsts != got.Firsts || g.Retries != got.Retries || g.Probe != got.Probe {
			t.Fatalf("carved %+v, one by one %+v", g, got)
		}
		carved.SeenAt, one.SeenAt = 0, 0 // nothing wanted, nothing seen
		if carved != one {
			t.Fatalf("carved %+v\none by one %+v", carved, one)
		}
	})
}

func outcomes() *rapid.Generator[gate.Outcome] {
	return rapid.Custom(func(t *rapid.T) gate.Outcome {
		retry, probe := rapid.Bool().Draw(t, "retry"), rapid.Bool().Draw(t, "probe")
		if rapid.IntRange(0, 3).Draw(t, "again") == 0 {
			return gate.Again{Retry: retry}
		}
		if rapid.IntRange(0, 3).Draw(t, "lost") == 0 {
			return gate.Abandon{Retry: retry, Probe: probe, Unused: rapid.Bool().Draw(t, "unused")}
		}
		f := failure.Of(rapid.SampledFrom(failure.Classes()).Draw(t, "class"))
		f.RetryAfter = time.Duration(rapid.Int64().Draw(t, "retry after"))
		return gate.Done{
			OK: rapid.Bool().Draw(t, "ok"), Failure: f, Retry: retry, Probe: probe,
			Pause: time.Duration(rapid.Int64().Draw(t, "pause")), StartedAt: wild().Draw(t, "started"),
		}
	})
}

// wild is any time at all.
func wild() *rapid.Generator[time.Time] {
	return rapid.Custom(func(t *rapid.T) time.Time {
		switch rapid.IntRange(0, 3).Draw(t, "era") {
		case 0:
			return time.Time{}.Add(seconds(30).Draw(t, "after zero"))
		case 1:
			return time.Unix(rapid.Int64().Draw(t, "s"), rapid.Int64Range(0, 999999999).Draw(t, "ns"))
		}
		return t0.Add(seconds(30).Draw(t, "after t0"))
	})
}

// wildConfigs are any figures at all, validated or not.
func wildConfigs() *rapid.Generator[gate.Config] {
	return rapid.Custom(func(t *rapid.T) gate.Config {
		span := func(name string) time.Duration {
			return rapid.OneOf(seconds(20), rapid.Map(rapid.Int64(), func(n int64) time.Duration { return time.Duration(n) })).Draw(t, name)
		}
		number := func(name string) float64 {
			return rapid.OneOf(rapid.Float64(), rapid.Float64Range(0, 3),
				rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1)})).Draw(t, name)
		}
		return gate.Config{
			Jitter: number("jitter"), Pause: rapid.Bool().Draw(t, "pause"), Keep: span("keep"), Adapt: rapid.Bool().Draw(t, "adapt"),
			RetryAfter: policy.RetryAfter{Honour: rapid.Bool().Draw(t, "honour"), Max: span("max")},
			PerTarget:  policy.PerTarget{Concurrency: rapid.IntRange(-1, 5).Draw(t, "concurrency"), Rate: number("rate")},
			Breaker: policy.Breaker{
				Consecutive: rapid.IntRange(-1, 3).Draw(t, "consecutive"), Ratio: number("ratio"),
				MinCalls: rapid.IntRange(-1, 5).Draw(t, "calls"), Window: span("window"), Open: span("open"), Cap: span("cap"),
			},
			Budget: policy.Budget{
				Kind: rapid.SampledFrom(budgetKinds).Draw(t, "kind"), Ratio: number("share"), Floor: number("floor"), TTL: span("ttl"),
			},
		}
	})
}

// Any event under any figures at any time leaves a state that can be kept,
// and folding outcomes is applying them in order.
func TestNothingBreaksTheState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s gate.State
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			c, now := wildConfigs().Draw(t, "config"), wild().Draw(t, "now")
			draw := rapid.Float64().Draw(t, "draw")
			switch rapid.IntRange(0, 7).Draw(t, "what") {
			case 7:
				s, _ = gate.Step(c, s, gate.Close{}, now, draw)
			case 6:
				s, _ = gate.Step(c, s, gate.Probe{}, now, draw)
			case 5:
				every := rapid.OneOf(seconds(20), rapid.Map(rapid.Int64(), func(n int64) time.Duration { return time.Duration(n) }))
				s, _ = gate.Step(c, s, gate.Slow{Every: every.Draw(t, "every")}, now, draw)
			case 0:
				s, _ = gate.Step(c, s, gate.Ask{Retry: rapid.Bool().Draw(t, "retry")}, now, draw)
			case 1:
				s, _ = gate.Carve(c, s, gate.Want{Firsts: rapid.Int().Draw(t, "firsts"), Retries: rapid.Int().Draw(t, "retries")}, now, draw)
			case 2:
				s, _ = gate.Step(c, s, gate.Pause{Until: wild().Draw(t, "until")}, now, draw)
			case 3:
				s, _ = gate.Step(c, s, gate.Resume{}, now, draw)
			case 4:
				many := rapid.SliceOfN(outcomes(), 0, 5).Draw(t, "outcomes")
				one := s
				for _, o := range many {
					one, _ = gate.Step(c, one, o, now, draw)
				}
				if s = gate.Fold(c, s, many, now, draw); s != one {
					t.Fatalf("folded %+v\none by one %+v", s, one)
				}
			}
			sameAfterJSON(t, s)
		}
	})
}
