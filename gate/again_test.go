package gate_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/policy"
)

func TestAgainTakesTheFreedPermit(t *testing.T) {
	c := gate.Config{PerTarget: policy.PerTarget{Concurrency: 2}}
	s, g := gate.Carve(c, gate.State{}, gate.Want{Firsts: 1, Retries: 1}, t0, 0.5)
	if g.Size() != 2 {
		t.Fatalf("%+v; want both", g)
	}
	s = gate.Fold(c, s, []gate.Outcome{
		gate.Done{OK: true},
		gate.Again{Retry: true},
		gate.Done{OK: true, Retry: true},
		gate.Again{},
		gate.Abandon{Retry: true},
		gate.Again{Retry: true},
	}, t0, 0.5)
	if s.InFlight != 2 || s.Retries != 1 {
		t.Errorf("in flight %d with %d retries, want 2 with 1", s.InFlight, s.Retries)
	}
	if _, v := gate.Step(c, s, gate.Ask{}, t0, 0.5); v.Held != gate.HeldConcurrency {
		t.Errorf("%s; want it held by concurrency", v)
	}
}

func TestReuse(t *testing.T) {
	wish := serverDown
	wish.RetryAfter = time.Second
	busy := ourFault
	busy.RetryAfter = time.Second
	plain := gate.Config{PerTarget: policy.PerTarget{Concurrency: 4}}
	guarded := gate.Of(new(policy.MustPreset("webhook")))
	throttled := budget(policy.BudgetThrottle, 2, 0, time.Minute)
	tokens := budget(policy.BudgetTokens, 0.1, 3, 0)
	rated := gate.Config{PerTarget: policy.PerTarget{Rate: 5}}
	for _, tc := range []struct {
		name   string
		c      gate.Config
		o      gate.Outcome
		firsts bool
		retry  bool
	}{
		{"a success", plain, gate.Done{OK: true}, true, true},
		{"a failure without a breaker", plain, gate.Done{Failure: wish}, true, true},
		{"given back", plain, gate.Abandon{}, true, true},
		{"a success under a budget", guarded, gate.Done{OK: true}, true, false},
		{"a success under tokens", tokens, gate.Done{OK: true}, true, false},
		{"our own fault", guarded, gate.Done{Failure: ourFault}, true, false},
		{"the target's fault", guarded, gate.Done{Failure: serverDown}, false, false},
		{"a wish", guarded, gate.Done{Failure: busy}, false, false},
		{"a pause", plain, gate.Done{OK: true, Pause: 1}, false, false},
		{"the probe", guarded, gate.Done{OK: true, Probe: true}, false, false},
		{"the probe given back", plain, gate.Abandon{Probe: true}, false, false},
		{"a rate", rated, gate.Done{OK: true}, false, false},
		{"a throttle", throttled, gate.Done{OK: true}, false, false},
		{"a permit that is out", plain, gate.Again{}, false, false},
	} {
		if got := tc.c.Reuse(tc.o, false); got != tc.firsts {
			t.Errorf("%s: reuse for a first attempt %t", tc.name, got)
		}
		if got := tc.c.Reuse(tc.o, true); got != tc.retry {
			t.Errorf("%s: reuse for a retry %t", tc.name, got)
		}
	}
}

// holder is one process: what it carved and what it has not told yet.
type holder struct {
	running []start
	told    []gate.Outcome
}

// Processes that use their permits again without asking, and tell it later,
// keep concurrency and window budget all the same.
func TestReusedPermitsKeepEveryLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := gate.Config{
			PerTarget: policy.PerTarget{Concurrency: rapid.IntRange(1, 6).Draw(t, "concurrency")},
			Budget:    windowBudgets().Draw(t, "budget"),
			Keep:      time.Millisecond + seconds(2).Draw(t, "keep"),
		}
		if rapid.Bool().Draw(t, "no budget") {
			c.Budget = policy.Budget{}
		}
		var s gate.State
		var ledger []start
		holders := make([]holder, 3)
		now := t0
		for range rapid.IntRange(1, 150).Draw(t, "steps") {
			h := &holders[rapid.IntRange(0, len(holders)-1).Draw(t, "who")]
			switch what := rapid.IntRange(0, 5).Draw(t, "what"); {
			case what == 0:
				now = now.Add(seconds(3).Draw(t, "wait"))
			case what <= 2: // one swap: tell all, carve anew, start at once
				s = gate.Fold(c, s, h.told, now, 0.5)
				var g gate.Grant
				s, g = gate.Carve(c, s, gate.Want{
					Firsts: rapid.IntRange(0, 3).Draw(t, "firsts"), Retries: rapid.IntRange(0, 3).Draw(t, "retries"),
				}, now, 0.5)
				h.told = nil
				for i := range g.Size() {
					h.running = append(h.running, start{now, i >= g.Firsts})
					ledger = append(ledger, start{now, i >= g.Firsts})
				}
			case len(h.running) > 0:
				was := h.running[0]
				h.running = h.running[1:]
				end := gate.Done{OK: true, Retry: was.retry, StartedAt: was.at}
				if rapid.Bool().Draw(t, "failed") {
					end.OK, end.Failure = false, failure.Of(failure.Server)
				}
				h.told = append(h.told, end)
				if retry := rapid.Bool().Draw(t, "retry"); c.Reuse(end, retry) {
					h.told = append(h.told, gate.Again{Retry: retry})
					h.running = append(h.running, start{now, retry})
					ledger = append(ledger, start{now, retry})
				}
			}
			running := 0
			for _, h := range holders {
				running += len(h.running)
			}
			if running > c.PerTarget.Concurrency || s.InFlight > c.PerTarget.Concurrency {
				t.Fatalf("%d running, %d counted, at most %d", running, s.InFlight, c.PerTarget.Concurrency)
			}
		}
		if c.Budget.Kind == policy.BudgetWindow {
			checkLedger(t, c.Budget, ledger)
		}
		for i := range holders {
			s = gate.Fold(c, s, holders[i].told, now, 0.5)
			for _, r := range holders[i].running {
				s, _ = gate.Step(c, s, gate.Abandon{Retry: r.retry}, now, 0.5)
			}
		}
		if s.InFlight != 0 || s.Retries != 0 {
			t.Fatalf("%d in flight with %d retries after all came back", s.InFlight, s.Retries)
		}
	})
}
