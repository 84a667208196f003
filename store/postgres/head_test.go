package postgres

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store/pgtest"
)

// at is the same instant for every priority.
func at(t time.Time) instants { return slices.Repeat(instants{micros(t)}, levels) }

// TestADearListBeginsAtTheHeads: where the walk to the first jobs is dear, it
// is taken from the start one thousandth of the time, or when a claim's look has
// become cheap.
func TestADearListBeginsAtTheHeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scans{every: time.Second}
		now := time.Now()
		list := func(from instants) *listing {
			t.Helper()
			l := s.list()
			if l.whole != (from == nil) || !slices.Equal(l.from, from) || len(l.from) != levels*len(l.queues) {
				t.Fatalf("lists %v from %d, from the start: %v; want from %d", l.queues, l.from, l.whole, from)
			}
			return l
		}
		for range 2 { // what is cheap is not remembered
			s.listed(list(nil), map[string]instants{"q": at(now)}, dear)
		}
		s.listed(list(nil), map[string]instants{"q": at(now)}, time.Second)
		s.listed(list(at(now)), map[string]instants{"q": at(now.Add(time.Minute))}, time.Millisecond)
		list(at(now.Add(time.Minute)))
		early := now.Add(-time.Hour)
		s.lower(map[string]place{"q": {due: early}, "other": {due: early}})
		list(at(early))
		s.lowerAll(place{due: early.Add(-time.Hour)})
		list(at(early.Add(-time.Hour)))
		pass(999 * time.Second)
		list(at(early.Add(-time.Hour)))
		pass(time.Second)
		list(nil)
		list(at(early.Add(-time.Hour))) // one walk at a time
		s.end(s.begin("q", nil), claimed(0, 1, early), true, early, 2*dear)
		if s.looked(s.lanes["q\x00"], nil, 2*dear, nil); s.list().whole {
			t.Error("walks from the start while looks are dear")
		}
		s.looked(s.lanes["q\x00"], nil, dear, nil)
		list(nil)
	})
}

// TestAListFollowsTheClaims to where they have come to, by priority, unless
// they went on and left something behind.
func TestAListFollowsTheClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scans{every: time.Second}
		now := time.Now()
		claim := func(due time.Time) {
			jobs := claimed(1, 5, due) // nothing of priority 0 is left, to the others no claim has come
			s.end(s.begin("q", nil), jobs, true, due, 5*time.Second)
		}
		list := func(want ...time.Time) *listing {
			t.Helper()
			l := s.list()
			for p, want := range want {
				if l.whole || l.from[p] != micros(want) {
					t.Errorf("priority %d: lists from %d, from the start: %v; want %d", p, l.from[p], l.whole, micros(want))
				}
			}
			return l
		}
		claim(now)
		head, last := now.Add(time.Second), 4*time.Microsecond // of five jobs
		s.listed(s.list(), map[string]instants{"q": at(head)}, time.Minute)
		list(head, head, head)
		claim(now.Add(time.Minute))
		later := now.Add(90 * time.Second)
		old := at(later)
		old[1] = micros(now.Add(-time.Minute)) // of a kind that is not claimed here
		s.listed(list(now.Add(time.Minute-behind), now.Add(time.Minute+last), head), map[string]instants{"q": old}, time.Second)
		claim(now.Add(2 * time.Minute))
		list(now.Add(2*time.Minute-behind), now.Add(-time.Minute), later)
	})
}

// TestAListFromTheHeads tells the earliest job from each head on, and of a
// queue without one the earliest of all.
func TestAListFromTheHeads(t *testing.T) {
	s, err := Open(t.Context(), pgtest.Database(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	now := time.Now().Truncate(time.Second)
	old, young, future := now.Add(-2*time.Hour), now.Add(-time.Hour), now.Add(time.Hour)
	if _, err := s.Enqueue(t.Context(), time.Time{}, []job.New{
		{Kind: "mail", Queue: "a", DueAt: old, Priority: 9},
		{Kind: "mail", Queue: "a", DueAt: young},
		{Kind: "mail", Queue: "b", DueAt: old},
		{Kind: "mail", Queue: "c", DueAt: future},
		{Kind: "mail", Queue: "d", DueAt: old, Target: "host"},
	}); err != nil {
		t.Fatal(err)
	}
	check := func(want ...time.Time) {
		t.Helper()
		queues, err := s.Queues(t.Context())
		if err != nil || len(queues) != len(want) {
			t.Fatalf("%d queues: %v", len(queues), err)
		}
		for i, q := range queues {
			if !q.DueAt.Equal(want[i]) {
				t.Errorf("queue %s is due at %s, want %s", q.Name, q.DueAt, want[i])
			}
		}
	}
	check(old, old, future, old)
	heads := func(queue string, want instants) {
		t.Helper()
		for p, at := range s.scans.heads.of[queue].at {
			if want[p] != none && at != want[p] || want[p] == none && (at < micros(young) || at > micros(time.Now())) {
				t.Errorf("the head of queue %s, priority %d, is %d, want %d (%d is about now)", queue, p, at, want[p], int64(none))
			}
		}
	}
	unknown := slices.Repeat(instants{none}, levels)
	a, b := slices.Clone(unknown), slices.Clone(unknown)
	a[0], a[9], b[0] = micros(young), micros(old), micros(old)
	heads("a", a)
	heads("b", b)
	heads("c", unknown) // what is due later, or waits in a lane, is no head
	heads("d", unknown)
	delete(s.scans.heads.of, "b")
	s.scans.heads.of["a"].at[9], s.scans.heads.cost = micros(young), time.Hour
	check(young, old, future, old)
	a[9] = none
	heads("a", a)
	heads("b", b)
	s.scans.lowerAll(place{due: old})
	check(old, old, future, old)
}
