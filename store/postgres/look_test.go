package postgres

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/pgtest"
)

// looker is a store with a process that claims mail.
type looker struct {
	*Store
	t       *testing.T
	url     string
	process int64
}

func newLooker(t *testing.T, sweep time.Duration) *looker {
	t.Helper()
	url := pgtest.Database(t)
	s, err := Open(t.Context(), url, Options{Sweep: sweep, Poll: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	p, err := s.Register(t.Context(), time.Time{}, store.Process{Host: "h", Kinds: []string{"mail"}})
	if err != nil {
		t.Fatal(err)
	}
	return &looker{Store: s, t: t, url: url, process: p.ID}
}

func (l *looker) connect() *pgx.Conn {
	l.t.Helper()
	conn, err := pgx.Connect(l.t.Context(), l.url)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// mail enqueues n jobs and claims as many.
func (l *looker) mail(n int) {
	l.t.Helper()
	if _, err := l.Enqueue(l.t.Context(), time.Time{}, slices.Repeat([]job.New{{Kind: "mail"}}, n)); err != nil {
		l.t.Fatal(err)
	}
	if got := len(l.claim(n)); got != n {
		l.t.Fatalf("claimed %d of %d", got, n)
	}
}

func (l *looker) claim(limit int) []job.Job {
	l.t.Helper()
	answer, err := l.Turn(l.t.Context(), store.Turn{
		Process: l.process, Claims: []store.Claim{{Queue: job.DefaultQueue, Kinds: []string{"mail"}, Limit: limit}},
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return answer.Claimed
}

// cost lets the last look have taken that long, and returns how long it took.
func (l *looker) cost(now time.Duration) (was time.Duration) {
	l.scans.mu.Lock()
	defer l.scans.mu.Unlock()
	lane := l.scans.lanes[job.DefaultQueue+"\x00mail"]
	was, lane.cost = lane.cost, now
	return was
}

// TestALookCostsWhatItTakes: what a claim waits for inside the database is its
// cost, although all answers of a turn come together at its end.
func TestALookCostsWhatItTakes(t *testing.T) {
	const wait = "20 milliseconds"
	l := newLooker(t, time.Nanosecond) // every claim looks at everything
	l.mail(5)
	l.cost(0)
	blocker, watcher := l.connect(), l.connect()
	tx, err := blocker.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// Of a turn's statements only the claim asks which kinds are paused.
	if _, err := tx.Exec(t.Context(), "LOCK TABLE ebb_paused IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if len(l.claim(10)) != 0 {
			t.Error("claimed what is not there")
		}
	}()
	for waits := false; !waits; {
		const since = "SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'ebb_paused'::regclass AND NOT granted AND waitstart <= clock_timestamp() - $1::interval)"
		if err := watcher.QueryRow(t.Context(), since, wait).Scan(&waits); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-done
	if cost := l.cost(0); cost < 20*time.Millisecond {
		t.Errorf("the look is taken to cost %s, and waited %s", cost, wait)
	}
}

// TestALateCommitIsFoundBesideTheTurns: while looks are dear, no turn takes
// them, and what a transaction committed late is found all the same.
func TestALateCommitIsFoundBesideTheTurns(t *testing.T) {
	l := newLooker(t, time.Hour)
	tx, err := l.connect().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	late, err := l.EnqueueTx(t.Context(), tx, time.Time{}, []job.New{{Kind: "mail"}})
	if err != nil {
		t.Fatal(err)
	}
	l.mail(20)
	l.cost(dear + time.Millisecond)
	l.mail(20)
	wakes, err := l.Wakes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	for {
		if jobs := l.claim(10); len(jobs) > 0 {
			if len(jobs) != 1 || jobs[0].Seq != late[0].Seq {
				t.Errorf("claimed %d jobs, want the late one", len(jobs))
			}
			return
		}
		<-wakes // as a worker waits
	}
}
