package dispatch_test

import (
	"slices"
	"testing"
	"time"

	"github.com/ebbhq/ebb/dispatch"
	"github.com/ebbhq/ebb/policy"
)

// born is when every test's process was born.
var born = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func always(dispatch.Item) dispatch.Answer { return dispatch.Answer{Admit: true} }

// floor drives a Floor on a clock that the test moves.
type floor struct {
	*dispatch.Floor
	t   *testing.T
	now time.Time
}

func newFloor(t *testing.T, slots int) *floor {
	return &floor{dispatch.New(slots, born), t, born}
}

func (f *floor) at(d time.Duration) *floor { f.now = born.Add(d); return f }

// first and again add items of policy "p" that are due now.
func (f *floor) first(target string, ids ...int64) {
	for _, id := range ids {
		f.Add(dispatch.Item{ID: id, Target: target, Policy: "p", DueAt: f.now})
	}
}

func (f *floor) again(target string, ids ...int64) {
	for _, id := range ids {
		f.Add(dispatch.Item{ID: id, Target: target, Policy: "p", Retry: true, DueAt: f.now})
	}
}

// starts expects exactly these starts, in this order, and then no more.
func (f *floor) starts(admit func(dispatch.Item) dispatch.Answer, want ...int64) []dispatch.Item {
	f.t.Helper()
	var got []dispatch.Item
	var ids []int64
	for {
		i, ok := f.Next(f.now, admit)
		if !ok {
			break
		}
		got = append(got, i)
		ids = append(ids, i.ID)
	}
	if !slices.Equal(ids, want) {
		f.t.Fatalf("at %s: started %v, want %v", f.now.Sub(born), ids, want)
	}
	return got
}

// nextAt expects the time after birth; negative means none.
func (f *floor) nextAt(d time.Duration) {
	f.t.Helper()
	var want time.Time
	if d >= 0 {
		want = born.Add(d)
	}
	if got := f.NextAt(f.now); !got.Equal(want) {
		f.t.Fatalf("at %s: next at %s, want %s", f.now.Sub(born), got, want)
	}
}

func TestOrderInALane(t *testing.T) {
	f := newFloor(t, 9)
	for _, i := range []dispatch.Item{
		{ID: 1, Priority: 1, DueAt: born.Add(-9 * time.Second)},
		{ID: 2, DueAt: born.Add(-time.Second), Retry: true},
		{ID: 3, DueAt: born.Add(-2 * time.Second), Policy: "other"},
		{ID: 5, DueAt: born.Add(-time.Second)},
		{ID: 4, DueAt: born.Add(-time.Second)},
		{ID: 6, Priority: -1, DueAt: born},
	} {
		i.Target = "a"
		f.Add(i)
	}
	f.nextAt(0)
	f.starts(always, 6, 3, 2, 4, 5, 1)
	f.nextAt(-1)
}

func TestLanesTakeTurns(t *testing.T) {
	f := newFloor(t, 99)
	f.first("a", 1, 2, 3, 4)
	f.first("b", 11, 12)
	f.first("c", 21)
	f.starts(always, 1, 11, 21, 2, 12, 3, 4)
}

func TestThePlainLaneGetsEverySecondTurn(t *testing.T) {
	f := newFloor(t, 99)
	f.first("a", 1, 2)
	f.first("b", 11, 12)
	f.first("c", 21)
	f.first("", 91, 92, 93, 94, 95, 96, 97)
	f.starts(always, 91, 1, 92, 11, 93, 21, 94, 2, 95, 12, 96, 97)
}

func TestSlots(t *testing.T) {
	f := newFloor(t, 2)
	f.first("", 1, 2, 3)
	got := f.starts(always, 1, 2)
	if f.Free() != 0 {
		t.Errorf("%d free, want 0", f.Free())
	}
	f.nextAt(-1)
	f.Ended(got[0].Place(), f.now)
	f.nextAt(0)
	f.starts(always, 3)
}

// Twenty slots with a quarter kept: retries run in fifteen.
func TestFirstShare(t *testing.T) {
	for _, tc := range []struct {
		slots, concurrency int
		share              float64
		retries            int
	}{
		{50, 20, 0.25, 15},
		{50, 10, 0.25, 7},  // 2.5 kept: 3
		{50, 10, 0.1, 9},   // exactly 1 kept
		{50, 1, 0.25, 1},   // never none
		{50, 2, 0.9, 1},    // likewise
		{50, 0, 0, 50},     // no limit but the slots
		{50, 0, 0.5, 25},   // of the slots
		{10, 20, 0.25, 7},  // of the slots there are
		{50, 20, 0, 20},    // nothing kept
		{50, 3, 1. / 3, 2}, // 1 kept in spite of binary fractions
	} {
		f := newFloor(t, tc.slots)
		f.SetPolicy("p", dispatch.Limits{Concurrency: tc.concurrency, FirstShare: tc.share})
		for id := range int64(60) {
			f.again("a", id)
		}
		got := 0
		for {
			if _, ok := f.Next(f.now, always); !ok {
				break
			}
			got++
		}
		if got != tc.retries {
			t.Errorf("%+v: %d retries run", tc, got)
		}
	}
}

func TestKeptSlotsGoToFirstAttempts(t *testing.T) {
	f := newFloor(t, 50)
	f.SetPolicy("p", dispatch.Limits{Concurrency: 4, FirstShare: 0.5})
	f.again("a", 1, 2, 3)
	f.first("a", 11, 12, 13)
	got := f.starts(always, 1, 2, 11, 12)
	f.Ended(got[2].Place(), f.now) // a first attempt ends: a retry may not have its slot
	f.starts(always, 13)
	f.Ended(got[0].Place(), f.now)
	f.starts(always, 3)
}

func TestAFullPolicyLetsOthersPass(t *testing.T) {
	f := newFloor(t, 50)
	f.SetPolicy("p", dispatch.Limits{Concurrency: 1})
	f.first("a", 1, 2)
	f.Add(dispatch.Item{ID: 3, Target: "a", Policy: "q", DueAt: born.Add(time.Hour)})
	f.starts(always, 1, 3)
}

func TestSpacing(t *testing.T) {
	f := newFloor(t, 50)
	f.SetPolicy("p", dispatch.Limits{Spacing: 150 * time.Millisecond})
	f.first("a", 1)
	f.first("", 2)
	f.again("b", 3)
	f.starts(always, 2)
	f.nextAt(150 * time.Millisecond)
	f.at(149 * time.Millisecond).starts(always)
	f.at(150*time.Millisecond).starts(always, 1)
	f.nextAt(300 * time.Millisecond)
	f.at(time.Second).starts(always, 3)
	f.nextAt(-1)
}

func TestAGateThatRefusesRetriesLetsFirstAttemptsGo(t *testing.T) {
	f := newFloor(t, 50)
	f.again("a", 1, 2)
	f.first("a", 11, 12)
	f.first("b", 21)
	asked := 0
	admit := func(i dispatch.Item) dispatch.Answer {
		if i.Retry {
			asked++
		}
		return dispatch.Answer{Admit: !i.Retry, Until: born.Add(5 * time.Second)}
	}
	f.starts(admit, 11, 21, 12)
	f.at(time.Second).starts(admit)
	if asked != 1 {
		t.Errorf("asked %d times, want once until the time it named", asked)
	}
	f.nextAt(5 * time.Second)
	f.at(5*time.Second).starts(always, 1, 2)
}

func TestAGateThatRefusesFirstAttemptsLetsRetriesGo(t *testing.T) {
	f := newFloor(t, 50)
	f.first("a", 1)
	f.again("a", 2)
	f.starts(func(i dispatch.Item) dispatch.Answer { return dispatch.Answer{Admit: i.Retry} }, 2)
	f.nextAt(-1)
	f.at(time.Hour).starts(always) // nothing changed
	f.Wake("b")
	f.starts(always)
	f.Wake("a")
	f.nextAt(time.Hour)
	f.starts(always, 1)
}

func TestWakeGoesBeforeTheTime(t *testing.T) {
	f := newFloor(t, 50)
	f.first("a", 1)
	f.starts(func(dispatch.Item) dispatch.Answer { return dispatch.Answer{Until: born.Add(time.Minute)} })
	f.first("a", 2) // waits behind it, unasked
	f.starts(always)
	f.Wake("a")
	f.starts(always, 1, 2)
}

func TestRemove(t *testing.T) {
	f := newFloor(t, 50)
	f.first("a", 1, 2, 3)
	f.again("a", 4)
	f.again("", 5)
	if !f.Remove(2) || f.Remove(2) || f.Remove(99) {
		t.Error("what waits is removed once")
	}
	f.first("b", 3) // in place of the one in a
	for _, tc := range []struct {
		target          string
		firsts, retries int
	}{{"a", 1, 1}, {"b", 1, 0}, {"", 0, 1}, {"c", 0, 0}} {
		if firsts, retries := f.Waiting(tc.target); firsts != tc.firsts || retries != tc.retries {
			t.Errorf("%q: %d and %d wait, want %d and %d", tc.target, firsts, retries, tc.firsts, tc.retries)
		}
	}
	f.starts(always, 5, 1, 3, 4)
	if f.Remove(1) {
		t.Error("removed what has started")
	}
}

func TestLimitsOf(t *testing.T) {
	want := dispatch.Limits{Concurrency: 20, FirstShare: 0.25, Batch: 100, SlowShare: 0.5}
	if got := dispatch.LimitsOf(new(policy.MustPreset("webhook"))); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestSeatBesideWhatWaits: who comes takes a slot at once where gates have
// refused all that waits, and not where somebody would go before it, or with it in
// turns.
func TestSeatBesideWhatWaits(t *testing.T) {
	later := born.Add(time.Second)
	yes := func() dispatch.Answer { return dispatch.Answer{Admit: true} }
	for name, tc := range map[string]struct {
		target string
		change func(f *dispatch.Floor)
		now    time.Time
		want   bool
	}{
		"all others were refused":       {target: "b", want: true},
		"and have nobody to call":       {target: "", want: true},
		"their time has come":           {target: "b", now: later},
		"one was woken":                 {target: "b", change: func(f *dispatch.Floor) { f.Wake("a") }},
		"another came":                  {target: "b", change: func(f *dispatch.Floor) { f.Add(dispatch.Item{ID: 2, Target: "c"}) }},
		"plain work came":               {target: "b", change: func(f *dispatch.Floor) { f.Add(dispatch.Item{ID: 2}) }},
		"its own target's wait":         {target: "a"},
		"what waited has been given up": {target: "a", change: func(f *dispatch.Floor) { f.Remove(1) }, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := dispatch.New(9, born)
			f.Add(dispatch.Item{ID: 1, Target: "a", Retry: true, DueAt: born})
			f.Next(born, func(dispatch.Item) dispatch.Answer { return dispatch.Answer{Until: later} })
			if tc.change != nil {
				tc.change(f)
			}
			now := tc.now
			if now.IsZero() {
				now = born
			}
			if got, waits := f.Seat(&dispatch.Item{ID: 9, Target: tc.target, DueAt: born}, now, yes); got != tc.want || waits {
				t.Errorf("seated %t, waits %t, want %t, false", got, waits, tc.want)
			}
		})
	}
}
