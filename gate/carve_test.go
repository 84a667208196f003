package gate_test

import (
	"testing"
	"time"

	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/policy"
)

func TestCarve(t *testing.T) {
	window := policy.Budget{Kind: policy.BudgetWindow, Ratio: 0.5, Floor: 2, TTL: 10 * time.Second}
	for _, tc := range []struct {
		name   string
		config gate.Config
		want   gate.Want
		firsts int
		retry  int
		held   gate.Hold
	}{
		{"no limit", gate.Config{}, gate.Want{Firsts: 5, Retries: 7}, 5, 7, gate.NotHeld},
		{"nothing wanted", gate.Config{}, gate.Want{Firsts: -1}, 0, 0, gate.NotHeld},
		{"more than fits a state", gate.Config{}, gate.Want{Firsts: 1 << 30}, gate.MaxWant, 0, gate.NotHeld},
		{
			"concurrency serves first attempts first",
			gate.Config{PerTarget: policy.PerTarget{Concurrency: 8}},
			gate.Want{Firsts: 5, Retries: 7},
			5, 3, gate.HeldConcurrency,
		},
		{
			"a rate has one start at a time",
			gate.Config{PerTarget: policy.PerTarget{Rate: 10}},
			gate.Want{Firsts: 5},
			1, 0, gate.HeldRate,
		},
		{
			"first attempts pay for retries up to the floor",
			gate.Config{Budget: window},
			gate.Want{Firsts: 10, Retries: 10},
			10, 2, gate.HeldBudget,
		},
		{
			"tokens",
			gate.Config{Budget: policy.Budget{Kind: policy.BudgetTokens, Ratio: 0.1, Floor: 3}},
			gate.Want{Firsts: 1, Retries: 10},
			1, 3, gate.HeldBudget,
		},
		{
			"share: 3 of 12",
			gate.Config{Budget: policy.Budget{Kind: policy.BudgetShare, Ratio: 0.25}},
			gate.Want{Firsts: 9, Retries: 10},
			9, 3, gate.HeldBudget,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, g := gate.Carve(tc.config, gate.State{}, tc.want, t0, 0.5)
			if g.Firsts != tc.firsts || g.Retries != tc.retry {
				t.Errorf("%d first attempts and %d retries, want %d and %d", g.Firsts, g.Retries, tc.firsts, tc.retry)
			}
			if g.Rest.Held != tc.held || g.Rest.Admit != (tc.held == gate.NotHeld) {
				t.Errorf("the rest: %+v, want held by %s", g.Rest, tc.held)
			}
			if s.InFlight != g.Size() || s.Retries != g.Retries {
				t.Errorf("in flight %d with %d retries, granted %d with %d", s.InFlight, s.Retries, g.Size(), g.Retries)
			}
		})
	}
}

func TestCarveOfAHalfOpenBreakerIsTheProbe(t *testing.T) {
	g := newTarget(t, inARow)
	g.failed(3)
	now := t0.Add(30 * time.Second)
	s, first := gate.Carve(inARow, g.s, gate.Want{Firsts: 3, Retries: 3}, now, 0.5)
	if first.Size() != 1 || !first.Probe || first.Rest.Held != gate.HeldBreaker {
		t.Errorf("%+v; want one permit, the probe", first)
	}
	s, second := gate.Carve(inARow, s, gate.Want{Firsts: 3, Retries: 3}, now, 0.5)
	if second.Size() != 0 || second.Probe {
		t.Errorf("%+v; want nothing while the probe is out", second)
	}
	s = gate.Fold(inARow, s, []gate.Outcome{gate.Abandon{Probe: true}}, now, 0.5)
	_, third := gate.Carve(inARow, s, gate.Want{Retries: 3}, now, 0.5)
	if third.Retries != 1 || !third.Probe {
		t.Errorf("%+v; want the freed place", third)
	}
}

func TestCarveReservesPacedStartsWithinKeep(t *testing.T) {
	c := gate.Config{PerTarget: policy.PerTarget{Rate: 10}, Keep: time.Second}
	s, a := gate.Carve(c, gate.State{}, gate.Want{Firsts: 4}, t0, 0.5)
	if a.Firsts != 4 || !a.StartAt.Equal(t0) || a.Every != 100*time.Millisecond {
		t.Fatalf("%+v; want 4 starts from now, every 100 ms", a)
	}
	s, b := gate.Carve(c, s, gate.Want{Firsts: 20}, t0, 0.5)
	if b.Firsts != 7 || !b.StartAt.Equal(t0.Add(400*time.Millisecond)) {
		t.Fatalf("%+v; want the 7 starts from 400 ms to 1 s", b)
	}
	if want := t0.Add(100 * time.Millisecond); b.Rest.Held != gate.HeldRate || !b.Rest.Until.Equal(want) {
		t.Errorf("the rest: %+v, want held by the rate until %s", b.Rest, want)
	}
	// A call that starts now cannot use a reserved start.
	if _, v := gate.Step(c, s, gate.Ask{}, t0.Add(500*time.Millisecond), 0.5); v.Held != gate.HeldRate {
		t.Errorf("%s; want it held by the rate", v)
	}
}

func TestCarveThrottlesByExpectation(t *testing.T) {
	c := budget(policy.BudgetThrottle, 2, 0, time.Minute)
	s := gate.State{}
	var bad []gate.Outcome
	for range 3 {
		bad = append(bad, gate.Done{Failure: serverDown})
	}
	s = gate.Fold(c, s, bad, t0, 0.5) // 3 asked: 3/4 are refused
	for _, tc := range []struct {
		draw          float64
		firsts, retry int
	}{{0, 2, 0}, {0.49, 2, 0}, {0.5, 3, 0}, {0.99, 3, 0}} {
		_, g := gate.Carve(c, s, gate.Want{Firsts: 6, Retries: 4}, t0, tc.draw)
		if g.Firsts != tc.firsts || g.Retries != tc.retry { // 10 × 1/4 = 2.5
			t.Errorf("draw %g: %d and %d, want %d and %d", tc.draw, g.Firsts, g.Retries, tc.firsts, tc.retry)
		}
	}
}
