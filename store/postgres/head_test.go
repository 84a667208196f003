package postgres

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store/pgtest"
)

// TestADearListBeginsAtTheHeads: where the walk to the first jobs is dear, it
// is taken from the start one hundredth of the time.
func TestADearListBeginsAtTheHeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scans{every: time.Second}
		now := time.Now()
		list := func(want bool) (from instants) {
			t.Helper()
			queues, from, whole := s.list()
			if whole != want || len(queues) != len(from) {
				t.Fatalf("lists %v from %d, from the start: %v; want %v", queues, from, whole, want)
			}
			return from
		}
		for range 2 { // what is cheap is not remembered
			list(true)
			s.listed(map[string]time.Time{"q": now}, true, dear)
		}
		list(true)
		s.listed(map[string]time.Time{"q": now}, true, time.Second)
		if from := list(false); !slices.Equal(from, instants{micros(now)}) {
			t.Errorf("begins at %d, want at the head", from)
		}
		s.listed(map[string]time.Time{"q": now.Add(time.Minute)}, false, time.Millisecond)
		if from := list(false); !slices.Equal(from, instants{micros(now.Add(time.Minute))}) {
			t.Errorf("begins at %d, want at the new head", from)
		}
		early := now.Add(-time.Hour)
		s.lower(map[string]place{"q": {due: early}, "other": {due: early}})
		if from := list(false); !slices.Equal(from, instants{micros(early)}) {
			t.Errorf("begins at %d, want before what was put back", from)
		}
		s.lowerAll(place{due: early.Add(-time.Hour)})
		if from := list(false); !slices.Equal(from, instants{micros(early.Add(-time.Hour))}) {
			t.Errorf("begins at %d, want before what may have been put back", from)
		}
		pass(99 * time.Second)
		list(false)
		pass(time.Second)
		list(true)
		list(false) // one at a time
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
	if at := s.scans.heads.at; !at["a"].Equal(old) || !at["b"].Equal(old) || at["c"].After(time.Now()) || at["c"].Before(young) || at["d"].Before(young) {
		t.Errorf("the heads are %v: want those of plain jobs that are due, else about now", at)
	}
	delete(s.scans.heads.at, "b")
	s.scans.heads.at["a"], s.scans.heads.cost = young, time.Hour
	check(young, old, future, old)
	if at := s.scans.heads.at; !at["a"].Equal(young) {
		t.Errorf("the head of a is %s, want %s", at["a"], young)
	}
	s.scans.lowerAll(place{due: old})
	check(old, old, future, old)
}
