package postgres_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/postgres"
)

// register adds a process that handles mail.
func register(t *testing.T, s *postgres.Store) int64 {
	t.Helper()
	p, err := s.Register(t.Context(), time.Time{}, store.Process{Host: "h", Kinds: []string{"mail"}})
	if err != nil {
		t.Fatal(err)
	}
	return p.ID
}

// mail enqueues n jobs on the database's clock.
func mail(t *testing.T, s *postgres.Store, n int) (seqs []int64) {
	t.Helper()
	answers, err := s.Enqueue(t.Context(), time.Time{}, slices.Repeat([]job.New{{Kind: "mail"}}, n))
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range answers {
		seqs = append(seqs, a.Seq)
	}
	return seqs
}

// claim claims on the database's clock.
func claim(t *testing.T, s *postgres.Store, process int64, limit int) []job.Job {
	t.Helper()
	answer, err := s.Turn(t.Context(), store.Turn{
		Process: process, Claims: []store.Claim{{Queue: job.DefaultQueue, Kinds: []string{"mail"}, Limit: limit}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return answer.Claimed
}

func seqsOf(jobs []job.Job) (seqs []int64) {
	for _, j := range jobs {
		seqs = append(seqs, j.Seq)
	}
	return seqs
}

// TestALateCommitIsNeverStranded: a transaction enqueues and stays open while
// later jobs commit, are claimed and go on coming. Its job is claimed although
// claims begin where the last one ended, by a claim that finds less than it
// asks for as well as under a backlog.
func TestALateCommitIsNeverStranded(t *testing.T) {
	for _, c := range []struct {
		name    string
		backlog int // jobs that wait behind the late one
	}{{"idle", 0}, {"under a backlog", 5000}} {
		t.Run(c.name, func(t *testing.T) {
			url := migrated(t)
			s := open(t, url, postgres.Options{Sweep: time.Millisecond, Poll: time.Hour})
			p := register(t, s)
			tx, err := connect(t, url).Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			late, err := s.EnqueueTx(t.Context(), tx, time.Time{}, []job.New{{Kind: "mail"}})
			if err != nil {
				t.Fatal(err)
			}
			for range 20 {
				mail(t, s, 10)
				if n := len(claim(t, s, p, 10)); n != 10 {
					t.Fatalf("claimed %d of 10 while the transaction is open", n)
				}
			}
			mail(t, s, c.backlog)
			wakes, err := s.Wakes(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			taken := 0
			for {
				jobs := claim(t, s, p, 10)
				taken += len(jobs)
				if slices.Contains(seqsOf(jobs), late[0].Seq) {
					break
				}
				if len(jobs) < 10 {
					<-wakes // as a worker waits
				}
			}
			if taken > 1+c.backlog/2 {
				t.Errorf("the late job came after %d others", taken-1)
			}
		})
	}
}

func TestWhatGoesBackIsClaimedFirst(t *testing.T) {
	s := open(t, migrated(t), postgres.Options{Sweep: time.Hour})
	p := register(t, s)
	seqs := mail(t, s, 30)
	first := claim(t, s, p, 10)
	claim(t, s, p, 10)
	// Ten that never began go back to a place behind all others.
	var back []store.Settle
	for _, j := range first {
		back = append(back, store.Settle{Ref: store.Ref{Seq: j.Seq, Epoch: j.Epoch}, To: job.Queued, Delay: -time.Minute, History: j.History})
	}
	if _, err := s.Turn(t.Context(), store.Turn{Process: p, Settles: back}); err != nil {
		t.Fatal(err)
	}
	if got := seqsOf(claim(t, s, p, 10)); !slices.Equal(got, seqs[:10]) {
		t.Errorf("claimed %v, want those that went back, %v", got, seqs[:10])
	}
	early := time.Now().Add(-time.Hour)
	answers, err := s.Enqueue(t.Context(), time.Time{}, []job.New{{Kind: "mail", DueAt: early}})
	if err != nil {
		t.Fatal(err)
	}
	if got := seqsOf(claim(t, s, p, 1)); !slices.Equal(got, []int64{answers[0].Seq}) {
		t.Errorf("claimed %v, want the one that was due an hour ago, %d", got, answers[0].Seq)
	}
}

// TestAQueueBecomesStrictElsewhere: a process that does not know yet that a
// queue is strict claims in its order all the same, and never two.
func TestAQueueBecomesStrictElsewhere(t *testing.T) {
	url := migrated(t)
	here, there := open(t, url, postgres.Options{}), open(t, url, postgres.Options{})
	p := register(t, here)
	seqs := mail(t, here, 3)
	if err := there.StrictQueue(t.Context(), job.DefaultQueue, true); err != nil {
		t.Fatal(err)
	}
	if got := seqsOf(claim(t, here, p, 9)); !slices.Equal(got, seqs[:1]) {
		t.Errorf("claimed %v, want %v", got, seqs[:1])
	}
	if got := claim(t, here, p, 9); len(got) != 0 {
		t.Errorf("claimed %v beside a running one", seqsOf(got))
	}
	if err := there.StrictQueue(t.Context(), job.DefaultQueue, false); err != nil {
		t.Fatal(err)
	}
	if got := seqsOf(claim(t, here, p, 9)); !slices.Equal(got, seqs[1:]) {
		t.Errorf("claimed %v after the queue was let go, want %v", got, seqs[1:])
	}
}

// TestATurnBehindAPooler runs without session settings and prepared
// statements.
func TestATurnBehindAPooler(t *testing.T) {
	s := open(t, migrated(t), postgres.Options{Pooler: true, Poll: time.Millisecond})
	p := register(t, s)
	seqs := mail(t, s, 250)
	jobs := claim(t, s, p, 300)
	if got := seqsOf(jobs); !slices.Equal(got, seqs) {
		t.Fatalf("claimed %v, want %v", got, seqs)
	}
	var settles []store.Settle
	for _, j := range jobs {
		settles = append(settles, outcome(&j, j.LeasedAt, j.Seq%2 == 0))
	}
	answer, err := s.Turn(t.Context(), store.Turn{Process: p, Settles: settles})
	if err != nil || slices.Contains(answer.Settled, false) {
		t.Fatalf("settled %v: %v", answer.Settled, err)
	}
	wakes, err := s.Wakes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	<-wakes // by polling
	queues, err := s.Queues(t.Context())
	if err != nil || len(queues) != 1 || queues[0].Counts[job.Succeeded] != 125 || queues[0].Counts[job.Queued] != 125 {
		t.Errorf("queues %+v: %v", queues, err)
	}
}

// TestAReaperWaitsForTheTurnUnderWay: what a turn claims is reaped with its
// process, or not claimed.
func TestAReaperWaitsForTheTurnUnderWay(t *testing.T) {
	s := open(t, migrated(t), postgres.Options{})
	for range 20 {
		p := register(t, s)
		mail(t, s, 20)
		turned := make(chan error)
		go func() {
			_, err := s.Turn(context.WithoutCancel(t.Context()), store.Turn{
				Process: p, Claims: []store.Claim{{Queue: job.DefaultQueue, Kinds: []string{"mail"}, Limit: 100}},
			})
			turned <- err
		}()
		_, _, err := s.Reap(t.Context(), time.Time{}, p, 0, func(j job.Job) store.Settle {
			return store.Settle{To: job.Queued, History: j.History}
		})
		if late := <-turned; err != nil {
			t.Fatal(err, late)
		}
		held, err := s.List(t.Context(), store.Filter{State: job.Running}, store.Page{Limit: 1})
		if err != nil || len(held) != 0 {
			t.Fatalf("job %v is leased by a process that nobody reaps: %v", seqsOf(held), err)
		}
	}
}

// TestAFrozenReaperLetsGo: a reaper that stops in the middle keeps neither the
// process that it took for dead nor anybody else waiting.
func TestAFrozenReaperLetsGo(t *testing.T) {
	for name, options := range map[string]postgres.Options{
		"session": {IdleTimeout: 20 * time.Millisecond}, "pooler": {IdleTimeout: 20 * time.Millisecond, Pooler: true},
	} {
		t.Run(name, func(t *testing.T) {
			url := migrated(t)
			s, frozen := open(t, url, postgres.Options{}), open(t, url, options)
			p := register(t, s)
			mail(t, s, 2)
			claim(t, s, p, 1)
			var second []job.Job
			_, reaped, err := frozen.Reap(t.Context(), time.Time{}, p, 0, func(job.Job) store.Settle {
				second = claim(t, s, p, 1) // waits for the reaper's lock
				return store.Settle{To: job.Queued}
			})
			if len(second) != 1 {
				t.Errorf("the process claimed %d while a reaper was frozen, want 1", len(second))
			}
			if err == nil || reaped {
				t.Errorf("the reaper went on as if nothing had been: %v", err)
			}
		})
	}
}
