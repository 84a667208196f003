package gate_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/policy"
)

func TestShutAndRoom(t *testing.T) {
	limited := gate.Config{Pause: true, PerTarget: policy.PerTarget{Concurrency: 8}, Breaker: inARow.Breaker}
	at := func(d time.Duration) gate.Instant { return instant(t, t0.Add(d)) }
	now := at(0)
	for _, tc := range []struct {
		name  string
		c     gate.Config
		s     gate.State
		shut  bool
		until time.Duration // < 0: not by time
		room  int
	}{
		{"healthy", limited, gate.State{}, false, -1, 8},
		{"without a limit", inARow, gate.State{InFlight: 70}, false, -1, gate.Unlimited},
		{"full", limited, gate.State{InFlight: 8}, false, -1, 0},
		{"above a lowered limit", limited, gate.State{InFlight: 20}, false, -1, 0},
		{"stopped", limited, gate.State{Stopped: true}, true, -1, 0},
		{"stopped for a while", limited, gate.State{Stopped: true, StopUntil: at(9 * time.Second)}, true, 9 * time.Second, 0},
		{"paused", limited, gate.State{PauseUntil: at(5 * time.Second)}, true, 5 * time.Second, 0},
		{"paused, which does not hold this work", gate.Config{}, gate.State{PauseUntil: at(5 * time.Second)}, false, -1, gate.Unlimited},
		{"open", limited, gate.State{Phase: gate.Open, OpenUntil: at(time.Second)}, true, time.Second, 0},
		{"open and paused for longer", limited, gate.State{Phase: gate.Open, OpenUntil: at(time.Second), PauseUntil: at(time.Minute)}, true, time.Minute, 0},
		{"open, of another's breaker", gate.Config{}, gate.State{Phase: gate.Open, OpenUntil: at(time.Second)}, false, -1, gate.Unlimited},
		{"open time passed", limited, gate.State{Phase: gate.Open, OpenUntil: now}, false, -1, 1},
		{"half-open", limited, gate.State{Phase: gate.HalfOpen}, false, -1, 1},
		{"half-open, its probe out", limited, gate.State{Phase: gate.HalfOpen, Probing: true, InFlight: 1}, true, -1, 0},
		{"ramping", limited, gate.State{Phase: gate.Ramping, Ramp: 4, InFlight: 1}, false, -1, 3},
	} {
		until, shut := gate.Shut(tc.c, tc.s, t0)
		var want time.Time
		if tc.until >= 0 {
			want = t0.Add(tc.until)
		}
		if shut != tc.shut || !until.Equal(want) {
			t.Errorf("%s: shut %t until %s, want %t until %s", tc.name, shut, until, tc.shut, want)
		}
		if got := gate.Room(tc.c, tc.s, t0); got != tc.room {
			t.Errorf("%s: room for %d, want %d", tc.name, got, tc.room)
		}
	}
}

// instant is the time as a state keeps it.
func instant(t *testing.T, at time.Time) gate.Instant {
	t.Helper()
	s, _ := gate.Step(gate.Config{}, gate.State{}, gate.Ask{}, at, 0.5)
	return s.SeenAt
}

// Room is what Carve gives where neither rate nor budget binds, and a gate
// is shut exactly when a breaker or a pause refuses an ask.
func TestRoomIsWhatCarveGives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{T: t, c: configs().Draw(t, "config"), now: t0}
		w.c.Budget, w.c.PerTarget.Rate = policy.Budget{}, 0
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				w.ask()
			case 1:
				w.end()
			case 2:
				w.now = w.now.Add(seconds(3).Draw(t, "wait"))
			}
			room := gate.Room(w.c, w.s, w.now)
			_, g := gate.Carve(w.c, w.s, gate.Want{Firsts: 100}, w.now, 0.5)
			if g.Size() != min(room, 100) {
				t.Fatalf("room for %d, carved %d", room, g.Size())
			}
			until, shut := gate.Shut(w.c, w.s, w.now)
			_, v := gate.Step(w.c, w.s, gate.Ask{}, w.now, 0.5)
			if by := v.Held == gate.HeldBreaker || v.Held == gate.HeldRetryAfter; shut != by || shut && !until.Equal(v.Until) {
				t.Fatalf("shut %t until %s, asked: %s", shut, until, v)
			}
		}
	})
}

// RoomAfter is Room and Every of the state after the outcome, and Apply is Step.
func TestRoomAfter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, now := configs().Draw(t, "config"), t0
		var s gate.State
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			for range rapid.IntRange(0, 3).Draw(t, "asks") {
				s, _ = gate.Step(c, s, gate.Ask{Retry: rapid.Bool().Draw(t, "retry")}, now, 0.5)
			}
			now = now.Add(seconds(3).Draw(t, "wait"))
			switch rapid.IntRange(0, 9).Draw(t, "besides") {
			case 0:
				s, _ = gate.Step(c, s, gate.Pause{Until: now.Add(seconds(3).Draw(t, "pause"))}, now, 0.5)
			case 1:
				s, _ = gate.Step(c, s, gate.Resume{}, now, 0.5)
			case 2:
				now = now.Add(-20 * seconds(3).Draw(t, "the clock was set back"))
			}
			outcome := outcomes().Draw(t, "outcome")
			after, _ := gate.Step(c, s, outcome, now, 0)
			want := gate.Room(c, after, now) > 0 && c.Every(after) == 0
			if got := c.RoomAfter(&s, outcome, now); got != want {
				t.Fatalf("room after %+v: %t, want %t", outcome, got, want)
			}
			if c.Apply(&s, outcome, now, 0); s != after {
				t.Fatalf("applied %+v: %+v, want %+v", outcome, s, after)
			}
		}
	})
}
