package postgres

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// newBacklog has a long backlog in the shop's lane, of which four are claimed.
func newBacklog(t *testing.T) (l *looker, seqs []int64, first []job.Job) {
	t.Helper()
	l = newLooker(t, time.Hour)
	seqs = l.add(slices.Repeat([]job.New{{Kind: "mail"}}, 2*stepsFrom)...)
	first = l.lane(4, 4)
	return l, seqs, first
}

// enter lets nobody else claim plenty.
func (l *looker) enter() (leave func()) {
	l.t.Helper()
	l.marks.patience = 0
	leave, err := l.marks.enter(l.t.Context())
	if err != nil {
		l.t.Fatal(err)
	}
	return leave
}

// plenty is a turn that settles the job and claims enough of the shop's lane to
// go in two steps.
func (l *looker) plenty(j *job.Job) store.Turn {
	now := time.Now()
	return store.Turn{
		Process: l.process,
		Settles: []store.Settle{{
			Ref: store.Ref{Seq: j.Seq, Epoch: j.Epoch}, To: job.Succeeded,
			Attempt: &job.Attempt{Start: 1, StartedAt: now, EndedAt: now, OK: true},
		}},
		Lanes: []store.LaneClaim{{
			Queue: job.DefaultQueue, Kinds: []string{"mail", "call"}, Target: shop,
			Firsts: stepsFrom, Retries: stepsFrom, Limit: stepsFrom, Begin: stepsFrom,
		}},
	}
}

// awaitFirstStep waits until a turn has done its first step, as the database
// sees it.
func (l *looker) awaitFirstStep() {
	l.t.Helper()
	conn := l.connect()
	for waiting := false; !waiting; {
		err := conn.QueryRow(l.t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE datname = current_database() AND state = 'idle in transaction')`).Scan(&waiting)
		if err != nil {
			l.t.Fatal(err)
		}
	}
}

// TestTurnsThatClaimPlentyTakeTurns: such a turn settles at once, waits for the
// one that claims, and goes on where that one ended.
func TestTurnsThatClaimPlentyTakeTurns(t *testing.T) {
	l, seqs, first := newBacklog(t)
	leave := l.enter()
	type result struct {
		answer store.Turned
		err    error
	}
	ended := make(chan result, 1)
	go func() {
		answer, err := l.Turn(t.Context(), l.plenty(&first[0]))
		ended <- result{answer, err}
	}()
	l.awaitFirstStep()
	l.wantLane(seqs[4:8], 4) // a few need not wait
	leave()
	got := <-ended
	if got.err != nil || !slices.Equal(got.answer.Settled, []bool{true}) {
		t.Fatalf("settled %v: %v", got.answer.Settled, got.err)
	}
	if want := seqs[8 : 8+stepsFrom]; !slices.Equal(numbersOf(got.answer.Claimed), want) {
		t.Errorf("claimed %v, want what follows, %v", numbersOf(got.answer.Claimed), want)
	}
	if at := l.marks.of(laneName{job.DefaultQueue, shop}).at.seq; at != seqs[7+stepsFrom] {
		t.Errorf("the next claim begins behind %d, want %d", at, seqs[7+stepsFrom])
	}
	l.wantCounts(stepsFrom-8, stepsFrom+7)
}

// TestTheSecondStepBeginsWhereOthersEnded: its place is that of its own time,
// not that of the turn's begin.
func TestTheSecondStepBeginsWhereOthersEnded(t *testing.T) {
	l, seqs, first := newBacklog(t)
	leave := l.enter()
	turn := l.plenty(&first[0])
	w := l.turning(l.process, time.Time{})
	w.enter(nil)
	ended := make(chan error, 1)
	go func() { ended <- w.send(t.Context(), &turn) }()
	l.awaitFirstStep()
	l.wantLane(seqs[4:8], 4)
	leave()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if at := w.lanes[0].from.at.seq; at != seqs[7] {
		t.Errorf("the claim began behind %d, want %d", at, seqs[7])
	}
}

// TestTheSecondStepHasItsPatience: it goes on though another one still claims.
func TestTheSecondStepHasItsPatience(t *testing.T) {
	l, seqs, first := newBacklog(t)
	defer l.enter()()
	l.marks.patience = time.Millisecond
	answer, err := l.Turn(t.Context(), l.plenty(&first[0]))
	if err != nil || !answer.Settled[0] || !slices.Equal(numbersOf(answer.Claimed), seqs[4:4+stepsFrom]) {
		t.Errorf("it settled %v and claimed %d: %v", answer.Settled, len(answer.Claimed), err)
	}
}

// TestATurnInStepsThatFails: nothing of it is done, and the next one can.
func TestATurnInStepsThatFails(t *testing.T) {
	t.Run("while it waits", func(t *testing.T) {
		l, seqs, first := newBacklog(t)
		leave := l.enter()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := l.Turn(ctx, l.plenty(&first[0]))
			ended <- err
		}()
		l.awaitFirstStep()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Fatalf("the turn ended with %v", err)
		}
		leave()
		l.wantCounts(2*stepsFrom-4, 4)
		answer, err := l.Turn(t.Context(), l.plenty(&first[0]))
		if err != nil || !answer.Settled[0] || !slices.Equal(numbersOf(answer.Claimed), seqs[4:4+stepsFrom]) {
			t.Errorf("the next turn settled %v and claimed %d: %v", answer.Settled, len(answer.Claimed), err)
		}
	})
	t.Run("a lost process", func(t *testing.T) {
		l, _, first := newBacklog(t)
		lost := l.plenty(&first[0])
		lost.Process += 1000
		if _, err := l.Turn(t.Context(), lost); !errors.Is(err, store.ErrLostProcess) {
			t.Fatalf("the turn ended with %v", err)
		}
		l.wantCounts(2*stepsFrom-4, 4)
		if answer, err := l.Turn(t.Context(), l.plenty(&first[0])); err != nil || !answer.Settled[0] {
			t.Errorf("the next turn settled %v: %v", answer.Settled, err)
		}
	})
}
