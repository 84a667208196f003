package postgres

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// look looks behind the marks now, by a walk in any case or as the looks say, and
// reports whether the shop's stayed.
func (l *looker) look(anyway bool) (stayed bool) {
	l.t.Helper()
	l.marks.every, l.marks.cost = 0, 0
	looks, due := l.marks.behind()
	g, marked := looks[shopLane]
	if !due || !marked {
		l.t.Fatalf("nobody looks behind the lane: %v, %t", looks, due)
	}
	g.used, g.anyway = true, anyway
	l.marks.every = time.Hour
	l.lookBehind(l.t.Context(), map[laneName]glance{shopLane: g})
	return l.goesFurther()
}

// come lets n mails that are due then come by another process.
func (l *looker) come(n int, due time.Time) (first int64) {
	l.t.Helper()
	there := looker{Store: l.other(), t: l.t}
	return there.add(slices.Repeat([]job.New{{Kind: "mail", DueAt: due}}, n)...)[0]
}

// comeOld lets n come that were due before all others.
func (l *looker) comeOld(n int) (first int64) { return l.come(n, time.Now().Add(-time.Hour)) }

// TestWhatComesBehindAMarkIsFound: by a look beside the turns, since what comes
// there has a look of its own; then it is claimed next.
func TestWhatComesBehindAMarkIsFound(t *testing.T) {
	for name, come := range map[string]func(l *looker, first *job.Job) int64{
		"late":      func(l *looker, _ *job.Job) int64 { return l.comeOld(1) },
		"many late": func(l *looker, _ *job.Job) int64 { return l.comeOld(copyFrom) },
		"put off": func(l *looker, _ *job.Job) int64 {
			seq := l.comeOld(1)
			if got := l.discoverMail(5); len(got) != 0 {
				l.t.Fatalf("discovered %v of a lane that is served", got)
			}
			return seq
		},
		"given back elsewhere": func(l *looker, first *job.Job) int64 {
			l.elsewhere(store.Turn{Process: l.process, Release: []store.Ref{{Seq: first.Seq, Epoch: first.Epoch}}})
			return first.Seq
		},
		"put off elsewhere": func(l *looker, _ *job.Job) int64 {
			seq := l.comeOld(1)
			l.fullGate()
			if got := l.elsewhere(discoverMails(l.process, 5)); len(got) != 0 {
				l.t.Fatalf("discovered %v behind a gate without room", got)
			}
			return seq
		},
		"held elsewhere": func(l *looker, _ *job.Job) int64 {
			seq := l.comeOld(1)
			l.elsewhere(store.Turn{Process: l.process, Holds: []store.LaneHold{{Queue: job.DefaultQueue, Target: shop, Until: time.Now().Add(time.Hour)}}})
			return seq
		},
		"gathered": func(l *looker, _ *job.Job) int64 {
			seq := l.comeOld(1)
			if _, err := l.gather(l.t.Context(), &lanePart{}, 100); err != nil {
				l.t.Fatal(err)
			}
			return seq
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLooker(t, time.Hour)
			l.discoverMail(1) // a look for what is there
			seqs := l.add(slices.Repeat([]job.New{{Kind: "mail", DueAt: time.Now().Add(-time.Minute)}}, 20)...)
			first := l.lane(4, 0)[0]
			l.lane(4, 4)
			for range 2 { // the first one reads the looks of the enqueue
				if !l.look(false) {
					t.Fatal("a look found what is not there")
				}
			}
			want := come(l, &first)
			l.wantLane(seqs[8:12], 4)
			if l.look(false) {
				t.Fatal("the look did not find it")
			}
			if got := numbersOf(l.lane(4, 4)); got[0] != want {
				t.Errorf("claimed %v, want %d first", got, want)
			}
		})
	}
}

// TestNobodyWalksBehindAMarkForNothing: where looks say that nothing came there,
// only a walk in any case finds something; and once it was looked for in vain, they
// do say so.
func TestNobodyWalksBehindAMarkForNothing(t *testing.T) {
	l := newLooker(t, time.Hour)
	seqs := l.add(slices.Repeat([]job.New{{Kind: "mail", DueAt: time.Now().Add(-time.Minute)}}, 20)...)
	l.lane(4, 4)
	unseen := func() (n int) {
		t.Helper()
		if err := l.pool.QueryRow(t.Context(), "SELECT count(*) FROM ebb_look WHERE since < 'infinity'").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := unseen(); n != 1 {
		t.Fatalf("%d looks stand for something new, want that of the enqueue", n)
	}
	if !l.look(false) || unseen() != 0 || len(l.looks()) != 1 {
		t.Fatalf("after a look in vain: %d looks stand for something new, %v", unseen(), l.looks())
	}
	execute(t, l.connect(), "UPDATE ebb_job SET process = NULL, leased_at = NULL, begun = false WHERE seq = $1", seqs[0]) // as if given up
	if !l.look(false) {
		t.Error("somebody walked")
	}
	if l.look(true) {
		t.Error("a walk did not find it")
	}
	l.wantLane(append(seqs[:1:1], seqs[4:7]...), 4)
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
	if !l.look(true) {
		t.Error("what another claim has locked is taken for left behind")
	}
	if err := tx.Rollback(context.Background()); err != nil {
		t.Fatal(err)
	}
	l.wantLane(seqs[5:9], 4)
	if l.look(true) {
		t.Error("what was given up is not found")
	}
	l.wantLane(append(seqs[:1:1], seqs[9:12]...), 4)
}

// TestADiscoveredLaneIsClaimedAsAWhole: what came behind its mark and is more than
// the discovery takes is served by name.
func TestADiscoveredLaneIsClaimedAsAWhole(t *testing.T) {
	l := newLooker(t, time.Hour)
	l.add(slices.Repeat([]job.New{{Kind: "mail", DueAt: time.Now().Add(-time.Minute)}}, 8)...)
	l.lane(4, 4)
	l.lane(10, 10)
	first := l.comeOld(4)
	if got := l.lane(4, 4); !l.goesFurther() || len(got) > 0 {
		t.Fatalf("claimed %v from behind the mark", numbersOf(got))
	}
	got := l.discoverMail(2)
	if len(got) != 2 || got[0] != first {
		t.Fatalf("discovered %v, want %d and another", got, first)
	}
	if rest := l.lane(4, 4); len(rest) != 2 || slices.Contains(got, rest[0].Seq) {
		t.Errorf("then claimed %v", numbersOf(rest))
	}
}

// TestADiscoveryBeginsAtTheMark: it does not walk over a backlog that was; the part
// keeps a look, and is discovered from its start when the mark is forgotten.
func TestADiscoveryBeginsAtTheMark(t *testing.T) {
	l := newLooker(t, time.Hour)
	seqs := l.add(slices.Repeat([]job.New{{Kind: "mail", DueAt: time.Now().Add(-time.Minute)}}, 8)...)
	l.lane(4, 4)
	l.lane(10, 10)
	l.look(false)
	execute(t, l.connect(), "UPDATE ebb_job SET process = NULL, leased_at = NULL, begun = false WHERE seq = $1", seqs[0]) // as if given up
	due := func() {
		t.Helper()
		execute(t, l.connect(), "UPDATE ebb_look SET look_at = now()")
	}
	soon := store.Instant(time.Now().Add(store.LaneRest / 2))
	for _, next := range []time.Time{time.Now().Add(time.Hour), soon} {
		due()
		if got := l.discoverMail(5); len(got) != 0 {
			t.Fatalf("discovered %v from behind the mark", got)
		}
		first := l.looks()[0].at
		if len(l.looks()) != 1 || time.Until(first) > store.LaneRest {
			t.Errorf("looks %v, want one within %s", l.looks(), store.LaneRest)
		}
		l.come(1, next)
	}
	due()
	if got, first := l.discoverMail(5), l.looks()[0].at; len(got) == 0 && !first.Equal(soon) {
		t.Errorf("a job that is due at %s is looked for at %s", soon, first)
	}
	l.marks.of(shopLane)
	for range 2 {
		l.marks.every, l.marks.cost = 0, 0
		looks, _ := l.marks.behind()
		l.marks.every = time.Hour
		l.lookBehind(t.Context(), looks)
	}
	if l.marks.marked() != 0 {
		t.Fatal("a mark that nobody uses stays")
	}
	due()
	if got := l.discoverMail(5); !slices.Contains(got, seqs[0]) {
		t.Errorf("discovered %v, want %d", got, seqs[0])
	}
}

// other is a store that knows nothing of this one's marks.
func (l *looker) other() *Store {
	l.t.Helper()
	s, err := Open(l.t.Context(), l.url, Options{})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = s.Close() })
	return s
}

// elsewhere lets such a store do a turn, and returns what it claimed.
func (l *looker) elsewhere(t store.Turn) []int64 {
	l.t.Helper()
	answer, err := l.other().Turn(l.t.Context(), t)
	if err != nil {
		l.t.Fatal(err)
	}
	return numbersOf(answer.Claimed)
}

// fullGate lets the shop's gate have no room.
func (l *looker) fullGate() {
	l.t.Helper()
	execute(l.t, l.connect(), `INSERT INTO ebb_gate (version, open_at, room, target, state, grants, disabled, policy)
		VALUES (1, NULL, 0, $1, '{"v":1}', '[]', '', '')`, shop)
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
		"no more":  {func(l *looker) { l.age(shopLane, servedFor) }, 2},
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
