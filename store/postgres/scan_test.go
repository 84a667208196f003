package postgres

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

func TestAnOlderSchemaIsRefused(t *testing.T) {
	err := judge(1, 2)
	if !errors.Is(err, store.ErrSchema) || !strings.HasSuffix(err.Error(), "Try: ebb migrate up") {
		t.Errorf("judged %v, want %v and what to try", err, store.ErrSchema)
	}
	if err := judge(2, 2); err != nil {
		t.Errorf("the right version: %v", err)
	}
}

// claimed makes jobs of one priority, a microsecond apart.
func claimed(priority, n int, from time.Time) []job.Job {
	jobs := make([]job.Job, n)
	for i := range jobs {
		jobs[i].Seq, jobs[i].Priority, jobs[i].DueAt = int64(i+1), priority, from.Add(time.Duration(i)*time.Microsecond)
	}
	return jobs
}

// pass lets a bubble's time pass.
func pass(d time.Duration) { <-time.After(d) }

// lows returns where the first ranges of a plan begin, by priority.
func lows(c *scanned) (at []int64) {
	for p := range levels {
		at = append(at, c.ranges.lowAt[p])
	}
	return at
}

func TestAFullClaimIsFollowedFromItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scans{every: time.Second}
		now := time.Now()
		c := s.begin("q", []string{"a"})
		if !c.whole || len(c.ranges.priorities) != levels || c.ranges.lowAt[0] != never {
			t.Fatalf("the first claim: %+v, want everything", c)
		}
		jobs := claimed(3, 10, now.Add(-time.Minute))
		s.end(c, jobs, true, now, 3*time.Millisecond)
		c = s.begin("q", []string{"a"})
		if c.whole || c.behind {
			t.Fatalf("at once after a look at everything: %+v, want neither whole nor behind", c)
		}
		if again := s.end(c, nil, false, now, 0); again != 60*time.Millisecond {
			t.Errorf("a claim that found too little and did not look behind: look again after %s, want 60 ms", again)
		}
		s.forget(c)
		s.end(s.begin("q", []string{"a"}), jobs, true, now, 3*time.Millisecond)
		c = s.begin("q", []string{"a"})
		last := jobs[9]
		if c.ranges.lowAt[3] != micros(last.DueAt) || c.ranges.lowSeq[3] != last.Seq {
			t.Errorf("priority 3 begins at %d, %d; want where the last claim ended", c.ranges.lowAt[3], c.ranges.lowSeq[3])
		}
		if want := micros(now.Add(-behind)); c.ranges.lowAt[0] != want {
			t.Errorf("priority 0, searched in vain, begins at %d, want %d", c.ranges.lowAt[0], want)
		}
		if c.ranges.lowAt[4] != never {
			t.Errorf("priority 4, not searched, begins at %d, want the start", c.ranges.lowAt[4])
		}
		if other := s.begin("q", []string{"b"}); !other.whole {
			t.Error("a claim of other kinds begins where that of these ended")
		}
	})
}

func TestWhatLiesBehindIsLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scans{every: time.Second}
		s.end(s.begin("q", nil), claimed(0, 5, time.Now()), true, time.Now(), 4*time.Millisecond)
		pass(79 * time.Millisecond)
		if c := s.begin("q", nil); c.behind {
			t.Error("looked behind before twenty times the cost had passed")
		}
		pass(time.Millisecond)
		c := s.begin("q", nil)
		if !c.behind || c.whole || len(c.ranges.priorities) != levels+1 {
			t.Fatalf("after twenty times the cost: %+v, want a look behind priority 0", c)
		}
		at := len(c.ranges.priorities) - 1
		if c.ranges.lowAt[at] != never || c.ranges.highAt[at] != c.ranges.lowAt[0] || c.ranges.highSeqs[at] != c.ranges.lowSeq[0] {
			t.Errorf("behind: %+v, want from the start to where the first range begins", c.ranges)
		}
		pass(920 * time.Millisecond)
		if c := s.begin("q", nil); !c.whole {
			t.Error("a backlog hides what is behind for more than Sweep")
		}
		if c := s.begin("q", nil); c.whole {
			t.Error("two claims at once both look at everything")
		}
	})
}

func TestACheapLookIsAlwaysTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scans{every: time.Second}
		for range 3 {
			c := s.begin("q", nil)
			if !c.whole && !c.behind {
				t.Fatalf("%+v, want a look", c)
			}
			if again := s.end(c, nil, false, time.Now(), cheap); again != 0 {
				t.Errorf("looked and is to look again after %s", again)
			}
		}
	})
}

// TestADearLookIsOwed: a job that comes into an idle queue does not wait for a
// look behind; the claim after it looks.
func TestADearLookIsOwed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scans{every: time.Second}
		s.end(s.begin("q", nil), nil, false, time.Now(), 2*time.Millisecond)
		for range 3 {
			pass(time.Minute)
			c := s.begin("q", nil)
			if c.whole || c.behind {
				t.Fatalf("the first claim after a while: %+v, want no look", c)
			}
			if again := s.end(c, claimed(0, 1, time.Now()), false, time.Now(), 0); again != cheap {
				t.Errorf("owes a look after %s, want %s", again, cheap)
			}
			if c = s.begin("q", nil); !c.whole {
				t.Fatalf("the claim after it: %+v, want a look", c)
			}
			if again := s.end(c, nil, false, time.Now(), 2*time.Millisecond); again != 0 {
				t.Errorf("looked and is to look again after %s", again)
			}
		}
	})
}

// TestADearLookIsRareAndBesideTheTurns: it gets its share of the time, one at
// a time, and no claim waits for it.
func TestADearLookIsRareAndBesideTheTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scans{every: time.Second}
		now := time.Now()
		s.end(s.begin("q", nil), claimed(0, 5, now), true, now, 5*time.Second)
		pass(199 * time.Second)
		if c := s.begin("q", nil); c.whole || c.behind || c.beside {
			t.Error("a look that takes 5 s was repeated within 200 s")
		}
		pass(time.Second)
		c := s.begin("q", nil)
		if c.whole || c.behind || !c.beside {
			t.Fatalf("after them: %+v, want a look beside the turn", c)
		}
		if again := s.begin("q", nil); again.beside {
			t.Error("a second look while the first is under way")
		}
		if r := s.behind(c.lane); len(r.priorities) != 1 || r.lowAt[0] != never || r.highAt[0] != micros(now.Add(4*time.Microsecond)) || r.highSeqs[0] != 5 {
			t.Errorf("looks at %+v, want what lies behind the five claimed of priority 0", r)
		}
		s.looked(c.lane, map[int]place{0: {due: now.Add(-time.Hour), seq: 3}}, 4*time.Second, nil)
		if next := s.begin("q", nil); next.beside || next.ranges.lowAt[0] != micros(now.Add(-time.Hour)) || next.ranges.lowSeq[0] != 2 {
			t.Errorf("after a job was found: %+v, want a claim that begins just before it", next)
		}
		pass(160 * time.Second)
		if c = s.begin("q", nil); !c.beside {
			t.Error("the cost of the look beside the turns does not count")
		}
		s.looked(c.lane, nil, time.Millisecond, errors.New("cut off"))
		if c.lane.cost != 4*time.Second {
			t.Errorf("a look that failed after 1 ms is taken to cost %s", c.lane.cost)
		}
		pass(160 * time.Second)
		s.looked(s.begin("q", nil).lane, nil, 100*time.Microsecond, nil)
		pass(time.Second)
		if c := s.begin("q", nil); !c.whole {
			t.Errorf("vacuum came, the look is cheap again: %+v, want it in the turn", c)
		}
	})
}

// TestWhatIsAwaitedIsLookedFor: a job that stands behind the places is found by
// the next claim with room for it, and meanwhile no worker takes the queue for
// idle.
func TestWhatIsAwaitedIsLookedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scans{every: time.Second}
		s.end(s.begin("q", nil), nil, false, time.Now(), 2*time.Millisecond)
		if from := s.dueFrom([]string{"q"}); slices.Contains(from, never) {
			t.Error("just looked, and the next due time is looked for from the start")
		}
		s.end(s.begin("q", nil), nil, false, time.Now(), 0)
		if from := s.dueFrom([]string{"q"}); slices.Max(from) != never {
			t.Errorf("a look is owed, and the next due time is looked for from %d", from)
		}
		s.await()
		c := s.begin("q", nil)
		if c.whole || !c.behind {
			t.Errorf("%+v, want a look behind before its time", c)
		}
		s.end(c, claimed(0, 5, time.Now()), true, time.Now(), 0)
		if c = s.begin("q", nil); !c.behind {
			t.Error("a claim that found enough did not look, and nobody does")
		}
		s.end(c, nil, false, time.Now(), 2*time.Millisecond)
		if c = s.begin("q", nil); c.behind {
			t.Error("looked, and looks again")
		}
	})
}

// TestADearBeginningIsKept: what failed or idles does not walk over millions
// of dead entries.
func TestADearBeginningIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scans{every: time.Second}
		now := time.Now()
		c := s.begin("q", nil)
		s.end(c, claimed(0, 5, now), true, now, 5*time.Second)
		s.forget(s.begin("q", nil))
		next := s.begin("q", nil)
		if next.whole || !next.beside || next.ranges.lowSeq[0] != 5 {
			t.Errorf("after a failed claim: %+v, want it to go on and a look beside it", next)
		}
		s.looked(next.lane, nil, 5*time.Second, nil)
		s.end(s.begin("q", nil), nil, false, now.Add(time.Second), 0)
		pass(time.Hour)
		if from := s.dueFrom([]string{"q"}); !slices.Equal(from, slices.Repeat(instants{micros(now.Add(time.Second - behind))}, levels)) {
			t.Errorf("the next due time is looked for from %d, want from where claims have come to", from)
		}
	})
}

// TestTheNextDueTimeIsLookedForByPriority: under a backlog no claim comes to
// the later priorities, and that is no reason to begin with the first at its
// start. A queue of which nothing is known is looked at whole.
func TestTheNextDueTimeIsLookedForByPriority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scans{every: time.Second}
		now := time.Now()
		jobs := claimed(2, 5, now)
		s.end(s.begin("q", nil), jobs, true, now, 5*time.Second)
		want := slices.Repeat(instants{never}, levels)
		want[0], want[1], want[2] = micros(now.Add(-behind)), micros(now.Add(-behind)), micros(jobs[4].DueAt)
		if from := s.dueFrom([]string{"q"}); !slices.Equal(from, want) {
			t.Errorf("looked for from %d, want %d", from, want)
		}
		if from := s.dueFrom([]string{"q", "other"}); slices.Max(from) != never {
			t.Errorf("with a queue that was never claimed from: from %d, want everything", from)
		}
		earlier := now.Add(-time.Hour)
		s.end(s.begin("other", nil), nil, false, earlier.Add(behind), 5*time.Second)
		for p := range want {
			want[p] = min(want[p], micros(earlier))
		}
		if from := s.dueFrom([]string{"q", "other"}); !slices.Equal(from, want) {
			t.Errorf("of both looked for from %d, want %d", from, want)
		}
	})
}

func TestWhatGoesBackMovesTheBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scans{every: time.Second}
		now := time.Now()
		s.end(s.begin("q", nil), nil, false, now, time.Millisecond)
		running := s.begin("q", nil)
		early := now.Add(-time.Hour)
		s.lower(map[string]place{"q": {due: early}, "other": {due: early.Add(-time.Hour)}})
		s.end(running, claimed(0, 5, now), true, now, 0) // began before the release
		for p, at := range lows(s.begin("q", nil)) {
			if at != micros(early) {
				t.Errorf("priority %d begins at %d, want %d", p, at, micros(early))
			}
		}
		s.lowerAll(place{due: early.Add(-time.Hour)})
		if c := s.begin("q", nil); c.ranges.lowAt[9] != micros(early.Add(-time.Hour)) || c.ranges.lowSeq[9] != -1 {
			t.Errorf("begins at %d, %d", c.ranges.lowAt[9], c.ranges.lowSeq[9])
		}
		failed := s.begin("q", nil)
		s.forget(failed)
		if c := s.begin("q", nil); !c.whole {
			t.Error("after a failed claim: want a look at everything")
		}
	})
}

func TestAClaimWithItsOwnClockRemembersNothing(t *testing.T) {
	c := everything()
	s := scans{every: time.Second}
	s.end(c, claimed(0, 3, time.Now()), true, time.Now(), time.Second)
	s.forget(c)
	if len(s.lanes) != 0 || c.ranges.highAt[0] != always || c.ranges.highSeqs[0] != math.MaxInt64 {
		t.Errorf("%+v", c)
	}
}

func TestRounds(t *testing.T) {
	refs := []store.Ref{{Seq: 5, Epoch: 1}, {Seq: 2, Epoch: 1}, {Seq: 5, Epoch: 2}, {Seq: 2, Epoch: 1}, {Seq: 9, Epoch: 1}, {Seq: 2, Epoch: 1}}
	all, same := rounds(len(refs), func(i int) store.Ref { return refs[i] })
	want := [][]int{{1, 0, 4}, {2}}
	if len(all) != 2 || !slices.Equal(all[0], want[0]) || !slices.Equal(all[1], want[1]) {
		t.Errorf("rounds %v, want %v", all, want)
	}
	if len(same) != 2 || same[3] != 1 || same[5] != 1 {
		t.Errorf("same %v, want 3 and 5 as 1", same)
	}
}

func TestColumn(t *testing.T) {
	var c column[string]
	for _, v := range []string{"", "a", "", "", "b", ""} {
		c.add(v)
	}
	if got := strings.Join(c.array(), "|"); got != "|a|||b" {
		t.Errorf("sent %q, want no empty rows at the end", got)
	}
	var none column[int32]
	none.add(0)
	if got := none.array(); got == nil || len(got) != 0 {
		t.Errorf("a column without values is sent as %v", got)
	}
}
