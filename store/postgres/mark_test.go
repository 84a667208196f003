package postgres

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebbhq/ebb/job"
)

var shopLane = laneName{job.DefaultQueue, shop}

// mails are first attempts of the shop's lane, due a second apart from a minute ago.
func mails(from, to int64) (jobs []job.Job) {
	for seq := from; seq < to; seq++ {
		due := time.Now().Add(-time.Minute + time.Duration(seq)*time.Second)
		jobs = append(jobs, job.Job{Seq: seq, New: job.New{Queue: job.DefaultQueue, Kind: "mail", Target: shop, DueAt: due}})
	}
	return jobs
}

// elapse lets time pass in a bubble.
func elapse(d time.Duration) { <-time.After(d) }

// alone says whether the shop's lane is marked.
func (m *marks) alone() bool {
	at := m.of(shopLane)
	return at.alone()
}

// claimedTo moves the shop's mark to a job by a claim that found all.
func (m *marks) claimedTo(to int64) {
	m.move(shopLane, m.of(shopLane), mails(to-2, to+1), 3, false, time.Now())
}

func TestAMarkStaysAtTheEndOfABacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := marks{every: time.Second}
		if m.move(shopLane, mark{}, mails(1, 3), 3, false, time.Now()); m.alone() {
			t.Error("a lane that nobody looked at is marked by a claim that took the rest of it")
		}
		m.claimedTo(10)
		m.move(shopLane, m.of(shopLane), mails(11, 13), 3, false, time.Now())
		if at := m.of(shopLane).at; at.seq != 12 {
			t.Errorf("after the last job the mark is at %v", at)
		}
		m.move(shopLane, m.of(shopLane), nil, 3, false, time.Now())
		if at := m.of(shopLane).at; at.seq != 12 {
			t.Errorf("after a claim that found nothing the mark is at %v", at)
		}
		// Short transactions commit in any order: their jobs are not passed.
		m.move(shopLane, m.of(shopLane), mails(60, 61), 3, false, time.Now())
		if at, want := m.of(shopLane).at.due, time.Now().Add(-behind); !at.Equal(want) {
			t.Errorf("where the last job was due now, the mark is at %v, want %v", at, want)
		}
	})
}

func TestAMarkThatWasEndedIsNotBroughtBack(t *testing.T) {
	for name, end := range map[string]func(m *marks){
		"by a look":      func(m *marks) { m.looked([]laneName{shopLane}, 0, nil) },
		"by a discovery": func(m *marks) { m.discovered(mails(1, 30)) },
		"with all":       func(m *marks) { m.clear() },
	} {
		t.Run(name, func(t *testing.T) {
			m := marks{every: time.Second}
			m.claimedTo(10)
			underWay := m.of(shopLane)
			if m.discovered(mails(11, 30)); !m.alone() {
				t.Fatal("what a discovery took from after the mark ended it")
			}
			end(&m)
			if m.alone() {
				t.Fatal("the mark was not ended")
			}
			m.move(shopLane, underWay, mails(11, 14), 3, false, time.Now())
			if m.alone() {
				t.Error("a claim that was under way brought it back")
			}
			m.claimedTo(20)
			if m.of(shopLane).at.seq != 20 {
				t.Error("no claim marks the lane any more")
			}
		})
	}
}

func TestLooksBehindMarksAreRareAndForThoseInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := marks{every: time.Second}
		other := laneName{job.DefaultQueue, "other"}
		look := func(after time.Duration, want ...laneName) {
			t.Helper()
			elapse(after - time.Millisecond)
			if _, due := m.behind(); due {
				t.Fatalf("a look is due before %s", after)
			}
			elapse(time.Millisecond)
			looks, due := m.behind()
			if got := slices.Collect(maps.Keys(looks)); due != (len(want) > 0) || len(got) != len(want) || len(want) > 0 && got[0] != want[0] {
				t.Fatalf("after %s: looks behind %v: %t, want %v", after, got, due, want)
			}
		}
		m.claimedTo(10)
		m.move(other, mark{}, mails(1, 4), 3, false, time.Now())
		elapse(time.Second)
		if looks, due := m.behind(); !due || len(looks) != 2 {
			t.Fatalf("looks behind %v: %t", looks, due)
		}
		if _, due := m.behind(); due {
			t.Fatal("two looks at once")
		}
		m.looked(nil, 100*time.Millisecond, nil)
		m.move(shopLane, m.of(shopLane), mails(11, 14), 3, true, time.Now())
		if last := m.of(shopLane); last.alone() {
			t.Fatal("a lane of two parts is taken to have one")
		}
		look(sweepShare*100*time.Millisecond, shopLane)
		m.looked(nil, time.Millisecond, errors.New("cut off")) // it would have taken longer
		if last := m.of(shopLane); !last.alone() {
			t.Error("whether the lane has another part is never asked again")
		}
		look(sweepShare*100*time.Millisecond, shopLane)
		m.looked(nil, time.Millisecond, nil)
		look(time.Second) // nobody used it
		if len(m.lanes) != 0 {
			t.Errorf("marks that nobody uses stay: %v", m.lanes)
		}
	})
}

// look looks behind the marks now, and reports whether the shop's stayed.
func (l *looker) look() (stayed bool) {
	l.t.Helper()
	l.marks.every, l.marks.cost = 0, 0
	looks, due := l.marks.behind()
	if _, marked := looks[shopLane]; !due || !marked {
		l.t.Fatalf("nobody looks behind the lane: %v, %t", looks, due)
	}
	l.marks.every = time.Hour
	l.lookBehind(l.t.Context(), looks)
	return l.goesFurther()
}

// TestWhatIsBehindAMarkIsFound: by a look beside the turns, if a claim would take
// it; then it is claimed next.
func TestWhatIsBehindAMarkIsFound(t *testing.T) {
	for name, come := range map[string]func(l *looker, first *job.Job) int64{
		"committed late": func(l *looker, _ *job.Job) int64 {
			return l.add(job.New{Kind: "mail"})[0] // its due time is set back below
		},
		"given back elsewhere": func(l *looker, first *job.Job) int64 {
			execute(l.t, l.connect(), "UPDATE ebb_job SET process = NULL, leased_at = NULL, begun = false WHERE seq = $1", first.Seq)
			return first.Seq
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLooker(t, time.Hour)
			conn := l.connect()
			seqs := l.add(slices.Repeat([]job.New{{Kind: "mail"}}, 20)...)
			execute(t, conn, "UPDATE ebb_job SET due_at = due_at - interval '1 minute'")
			first := l.lane(4, 0)[0]
			l.lane(4, 4)
			if !l.look() {
				t.Fatal("a look found what is not there")
			}
			want := come(l, &first)
			execute(t, conn, "UPDATE ebb_job SET due_at = due_at - interval '10 minutes' WHERE seq = $1", want)
			l.wantLane(seqs[8:12], 4)
			if l.look() {
				t.Fatal("the look did not find it")
			}
			l.wantLane(append([]int64{want}, seqs[12:15]...), 4)
		})
	}
}

// TestWhatSomebodyTakesBehindAMarkIsNotFound: until it is given up.
func TestWhatSomebodyTakesBehindAMarkIsNotFound(t *testing.T) {
	l := newLooker(t, time.Hour)
	seqs := l.add(slices.Repeat([]job.New{{Kind: "mail"}}, 20)...)
	tx, err := l.connect().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT FROM ebb_job WHERE seq = $1 FOR UPDATE", seqs[0]); err != nil {
		t.Fatal(err)
	}
	l.wantLane(seqs[1:5], 4)
	if !l.look() {
		t.Error("what another claim has locked is taken for left behind")
	}
	if err := tx.Rollback(context.Background()); err != nil {
		t.Fatal(err)
	}
	l.wantLane(seqs[5:9], 4)
	if l.look() {
		t.Error("what was given up is not found")
	}
	l.wantLane(append(seqs[:1:1], seqs[9:12]...), 4)
}

// TestADiscoveredLaneIsClaimedAsAWhole: what came behind its mark and is more than
// the discovery takes is served by name.
func TestADiscoveredLaneIsClaimedAsAWhole(t *testing.T) {
	l := newLooker(t, time.Hour)
	l.add(slices.Repeat([]job.New{{Kind: "mail"}}, 8)...)
	l.lane(4, 4)
	l.lane(10, 10)
	seqs := l.add(slices.Repeat([]job.New{{Kind: "mail"}}, 4)...)
	execute(t, l.connect(), "UPDATE ebb_job SET due_at = due_at - interval '1 minute' WHERE process IS NULL")
	if got := l.lane(4, 4); !l.goesFurther() || len(got) > 0 {
		t.Fatalf("claimed %v from behind the mark", numbersOf(got))
	}
	if got := l.discoverMail(2); !slices.Equal(got, seqs[:2]) {
		t.Fatalf("discovered %v, want %v", got, seqs[:2])
	}
	l.wantLane(seqs[2:], 2)
}

// TestALaneThatIsServedIsNotDiscovered: its look is put off, and nothing taken;
// where claims by name stopped, or found less than they asked for, it is.
func TestALaneThatIsServedIsNotDiscovered(t *testing.T) {
	for name, tc := range map[string]struct {
		stop func(l *looker)
		want int
	}{
		"served":   {func(*looker) {}, 0},
		"its end":  {func(l *looker) { l.lane(100, 0); l.add(job.New{Kind: "mail"}) }, 1},
		"no more":  {func(l *looker) { l.age(shopLane, served) }, 2},
		"from new": {func(l *looker) { l.marks.clear() }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLooker(t, time.Hour)
			l.add(slices.Repeat([]job.New{{Kind: "mail"}}, 20)...)
			l.lane(4, 4)
			tc.stop(l)
			if got := l.discoverMail(2); len(got) != tc.want {
				t.Errorf("discovered %v, want %d jobs", got, tc.want)
			}
			looks := l.looks()
			if len(looks) != 1 && name != "its end" || len(looks) > 0 && time.Until(looks[0].at) <= 0 {
				t.Errorf("looks %v, want one of the future", looks)
			}
		})
	}
}

// age lets the last claim of a lane have been a while ago.
func (l *looker) age(name laneName, by time.Duration) {
	l.marks.mu.Lock()
	defer l.marks.mu.Unlock()
	m := l.marks.lanes[name]
	m.fullAt = m.fullAt.Add(-by)
	l.marks.lanes[name] = m
}

// TestALookBehindMarksIsTakenBesideTurns: without anybody asking for it.
func TestALookBehindMarksIsTakenBesideTurns(t *testing.T) {
	l := newLooker(t, time.Nanosecond)
	seqs := l.add(slices.Repeat([]job.New{{Kind: "mail"}}, 20)...)
	l.lane(4, 4)
	execute(t, l.connect(), "UPDATE ebb_job SET process = NULL WHERE seq = $1", seqs[0])
	for !slices.Contains(numbersOf(l.lane(1, 1)), seqs[0]) { // as a worker would go on
	}
}
