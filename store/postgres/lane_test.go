package postgres

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

const shop = "https://shop.example/hook"

// add enqueues the jobs, those without one to the shop's lane.
func (l *looker) add(jobs ...job.New) (seqs []int64) {
	l.t.Helper()
	for i := range jobs {
		if jobs[i].Target == "" {
			jobs[i].Target = shop
		}
	}
	answers, err := l.Enqueue(l.t.Context(), time.Time{}, jobs)
	if err != nil {
		l.t.Fatal(err)
	}
	for _, a := range answers {
		seqs = append(seqs, a.Seq)
	}
	return seqs
}

// lane claims from the shop's lane by name.
func (l *looker) lane(limit, begin int) []job.Job {
	l.t.Helper()
	answer, err := l.Turn(l.t.Context(), store.Turn{Process: l.process, Lanes: []store.LaneClaim{{
		Queue: job.DefaultQueue, Kinds: []string{"mail", "call"}, Target: shop, Firsts: limit, Retries: limit, Limit: limit, Begin: begin,
	}}})
	if err != nil {
		l.t.Fatal(err)
	}
	return answer.Claimed
}

// goesFurther says whether the next claim of the shop's lane goes the short way.
func (l *looker) goesFurther() bool {
	m := l.marks.of(laneName{job.DefaultQueue, shop})
	return m.alone()
}

func numbersOf(jobs []job.Job) (seqs []int64) {
	for i := range jobs {
		seqs = append(seqs, jobs[i].Seq)
	}
	return seqs
}

func (l *looker) wantLane(want []int64, begun int) {
	l.t.Helper()
	jobs := l.lane(len(want), begun)
	if got := numbersOf(jobs); !slices.Equal(got, want) {
		l.t.Fatalf("claimed %v, want %v", got, want)
	}
	for i := range jobs {
		if jobs[i].Begun != (i < begun) {
			l.t.Fatalf("job %d of %d is begun: %t, asked for %d", i+1, len(jobs), jobs[i].Begun, begun)
		}
	}
}

// wantCounts checks the counters of the queue.
func (l *looker) wantCounts(queued, running int64) {
	l.t.Helper()
	queues, err := l.Queues(l.t.Context())
	if err != nil || len(queues) != 1 {
		l.t.Fatalf("queues %+v: %v", queues, err)
	}
	if c := queues[0].Counts; c[job.Queued] != queued || c[job.Running] != running {
		l.t.Errorf("%d queued and %d running are counted, want %d and %d", c[job.Queued], c[job.Running], queued, running)
	}
}

// TestALaneIsClaimedFurther: a lane of one part is claimed in its order by the
// short way, in part begun, and counted, to its end and beyond it.
func TestALaneIsClaimedFurther(t *testing.T) {
	l := newLooker(t, time.Hour)
	seqs := l.add(slices.Repeat([]job.New{{Kind: "mail"}}, 20)...)
	if l.goesFurther() {
		t.Fatal("a lane that nobody looked at is taken to have one part")
	}
	l.wantLane(seqs[:4], 4)
	for i, begun := range []int{4, 0, 2} {
		if !l.goesFurther() {
			t.Fatalf("claim %d of a backlog looks at the whole lane", i+2)
		}
		l.wantLane(seqs[4+4*i:8+4*i], begun)
	}
	l.wantCounts(4, 16)
	if got := numbersOf(l.lane(10, 10)); !slices.Equal(got, seqs[16:]) {
		t.Fatalf("claimed %v, want the rest, %v", got, seqs[16:])
	}
	if got := l.lane(10, 10); len(got) != 0 {
		t.Errorf("claimed %v of an empty lane", numbersOf(got))
	}
	l.wantCounts(0, 20)
	if !l.goesFurther() {
		t.Error("the end of a backlog is looked for from its start")
	}
	l.wantLane(l.add(job.New{Kind: "mail"}), 1)
}

// TestWhatComesToALaneIsClaimedSoon: what joins a lane of a long backlog in
// another part, or behind, is claimed by the next claim but one.
func TestWhatComesToALaneIsClaimedSoon(t *testing.T) {
	failed := func(l *looker, first *job.Job) int64 {
		now := time.Now()
		st := store.Settle{
			Ref: store.Ref{Seq: first.Seq, Epoch: first.Epoch}, To: job.Queued, Delay: time.Microsecond,
			History: retry.History{Starts: 1, Attempts: 1, Idle: 1, FirstStartAt: now},
			Attempt: &job.Attempt{Start: 1, StartedAt: now, EndedAt: now},
		}
		if _, err := l.Turn(l.t.Context(), store.Turn{Process: l.process, Settles: []store.Settle{st}}); err != nil {
			l.t.Fatal(err)
		}
		return first.Seq
	}
	for name, come := range map[string]func(l *looker, first *job.Job) int64{
		"priority": func(l *looker, _ *job.Job) int64 { return l.add(job.New{Kind: "mail", Priority: 1})[0] },
		"kind": func(l *looker, _ *job.Job) int64 {
			return l.add(job.New{Kind: "call", Priority: 5, DueAt: time.Now().Add(-time.Hour)})[0]
		},
		"retry": failed,
		"given back": func(l *looker, first *job.Job) int64 {
			ref := store.Ref{Seq: first.Seq, Epoch: first.Epoch}
			if _, err := l.Turn(l.t.Context(), store.Turn{Process: l.process, Release: []store.Ref{ref}}); err != nil {
				l.t.Fatal(err)
			}
			return first.Seq
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLooker(t, time.Hour)
			l.add(slices.Repeat([]job.New{{Kind: "mail", Priority: 5, DueAt: time.Now().Add(-time.Minute)}}, 100)...)
			first := l.lane(4, 0)[0]
			l.lane(4, 4)
			if !l.goesFurther() {
				t.Fatal("the lane is not claimed further")
			}
			want := come(l, &first)
			taken := numbersOf(l.lane(4, 4))
			if taken = append(taken, numbersOf(l.lane(90, 90))...); !slices.Contains(taken, want) {
				t.Errorf("job %d is not among the %d claimed", want, len(taken))
			}
			if name != "given back" && l.goesFurther() {
				t.Error("a lane of two parts is taken to have one")
			}
		})
	}
}

// TestALaneThatMayNotBeClaimedIsNotClaimedFurther: paused kinds and queues, and
// strict ones.
func TestALaneThatMayNotBeClaimedIsNotClaimedFurther(t *testing.T) {
	for name, stop := range map[string]func(l *looker) error{
		"kind":   func(l *looker) error { return l.PauseKind(l.t.Context(), time.Time{}, "test", "mail", true) },
		"queue":  func(l *looker) error { return l.PauseQueue(l.t.Context(), time.Time{}, "test", job.DefaultQueue, true) },
		"strict": func(l *looker) error { return l.StrictQueue(l.t.Context(), job.DefaultQueue, true) },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLooker(t, time.Hour)
			l.add(slices.Repeat([]job.New{{Kind: "mail"}}, 20)...)
			l.lane(4, 4)
			if err := stop(l); err != nil {
				t.Fatal(err)
			}
			if !l.goesFurther() {
				t.Fatal("the lane is not claimed further")
			}
			if got := l.lane(4, 4); len(got) != 0 {
				t.Errorf("claimed %v", numbersOf(got))
			}
		})
	}
}

// TestALaneIsClaimedAsAWholeAfterAFailedTurn: what the turn would have taken may
// stand behind what others took meanwhile.
func TestALaneIsClaimedAsAWholeAfterAFailedTurn(t *testing.T) {
	l := newLooker(t, time.Hour)
	l.add(slices.Repeat([]job.New{{Kind: "mail"}}, 20)...)
	l.lane(4, 4)
	if !l.goesFurther() {
		t.Fatal("the lane is not claimed further")
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	turn := store.Turn{Process: l.process, Lanes: []store.LaneClaim{{Queue: job.DefaultQueue, Kinds: []string{"mail"}, Target: shop, Firsts: 4, Limit: 4}}}
	if _, err := l.Turn(over, turn); err == nil {
		t.Fatal("a turn without time was done")
	}
	if l.goesFurther() {
		t.Error("the lane is claimed further")
	}
}

// TestALaneClaimedFurtherIsDiscovered: what comes after a backlog that went the
// short way is found by discovery, although its claims left the looks alone.
func TestALaneClaimedFurtherIsDiscovered(t *testing.T) {
	l := newLooker(t, time.Hour)
	for round := range 3 {
		for range 12 {
			l.add(job.New{Kind: "mail"})
		}
		for range 3 {
			l.lane(4, 4)
		}
		if !l.goesFurther() {
			t.Fatal("the lane is not claimed further")
		}
		last := l.add(job.New{Kind: "mail"})
		l.age(shopLane, servedFor)
		if got := l.discoverMail(10); !slices.Equal(got, last) {
			t.Errorf("round %d: discovered %v, want %v", round, got, last)
		}
	}
}

// TestLanesOfManyQueuesAreAnsweredInOrder: what goes the short way and what does
// not stand in the answer as they were asked for.
func TestLanesOfManyQueuesAreAnsweredInOrder(t *testing.T) {
	l := newLooker(t, time.Hour)
	turn := store.Turn{Process: l.process}
	want := make([][]int64, 6)
	for i := range want {
		target, queue := fmt.Sprintf("https://host%d.example", 5-i), fmt.Sprintf("q%d", i%3)
		want[i] = l.add(slices.Repeat([]job.New{{Kind: "mail", Queue: queue, Target: target}}, 6)...)
		turn.Lanes = append(turn.Lanes, store.LaneClaim{
			Queue: queue, Kinds: []string{"mail"}, Target: target, Firsts: 2, Retries: 2, Limit: 2, Begin: 2,
		})
	}
	for round := range 3 {
		if round == 1 { // one lane looks at everything
			delete(l.marks.lanes, laneName{"q1", "https://host4.example"})
		}
		answer, err := l.Turn(t.Context(), turn)
		if err != nil {
			t.Fatal(err)
		}
		var all []int64
		for i := range want {
			all = append(all, want[i][2*round:2*round+2]...)
		}
		if got := numbersOf(answer.Claimed); !slices.Equal(got, all) {
			t.Fatalf("round %d: claimed %v, want %v", round, got, all)
		}
	}
}

// TestStrandedLooksAreWoken: a look that waits for a swap of a gate that is open,
// as a commit between a swap and its wake can leave it, is found by maintenance,
// whatever other kinds and queues wait beside it.
func TestStrandedLooksAreWoken(t *testing.T) {
	l := newLooker(t, time.Hour)
	ctx := t.Context()
	seq := l.add(job.New{Kind: "mail"})[0]
	l.add(job.New{Kind: "call", Target: "other"}, job.New{Kind: "mail", Queue: "bulk", Target: "other"})
	discover := func() []int64 { t.Helper(); return l.discoverMail(9) }
	gate := func(open any) {
		t.Helper()
		_, err := l.pool.Exec(ctx, `INSERT INTO ebb_gate (version, open_at, room, target, state, grants, disabled, policy)
			VALUES (1, $1, 9, $2, '{"v":1}', '[]', '', '') ON CONFLICT (target) DO UPDATE SET open_at = $1`, open, shop)
		if err != nil {
			t.Fatal(err)
		}
	}
	gate(store.Never)
	if got := discover(); len(got) != 0 {
		t.Fatalf("discovered %v behind a gate that is shut", got)
	}
	maintain := func() {
		t.Helper()
		if _, err := l.Maintain(ctx, store.Maintenance{Limit: 100}); err != nil {
			t.Fatal(err)
		}
	}
	if maintain(); len(discover()) != 0 {
		t.Fatal("maintenance opened a gate")
	}
	gate(nil) // without a wake
	if got := discover(); len(got) != 0 {
		t.Fatalf("discovered %v before maintenance: the look was not stranded", got)
	}
	maintain()
	if got := discover(); !slices.Equal(got, []int64{seq}) {
		t.Errorf("discovered %v after maintenance, want %d", got, seq)
	}
}
