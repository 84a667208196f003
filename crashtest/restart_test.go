package crashtest_test

import (
	"testing"
	"time"

	"github.com/ebbhq/ebb/crashtest"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store/pgtest"
)

// PostgreSQL crashes and comes back under load, again and again: nothing
// acknowledged is lost, and no worker needs to be started again.
func TestPostgresRestarts(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t, pgtest.Config{})
	s := newStage(t, server.URL("postgres"), short)
	workers := s.workers(4)
	asked, refused := 0, 0
	offer := func(n int) {
		for range n {
			asked++
			if _, err := s.tryEnqueue(s.orders(10, crashtest.Order{Kind: crashtest.Steps, Millis: 60})); err != nil {
				refused++
			}
		}
	}
	for restart := range size().restarts {
		offer(20)
		s.moment(time.Duration(s.rng.IntN(100)) * time.Millisecond)
		end := server.Stop
		if restart%2 == 1 {
			end = server.Shutdown
		}
		s.must(end())
		offer(2)
		s.must(server.Start())
	}
	s.until("the store answers again", func() bool {
		_, err := s.tryEnqueue(s.orders(10, crashtest.Order{Kind: crashtest.Quick}))
		return err == nil
	})
	report := s.finish()
	if down := 2 * size().restarts; refused < down {
		s.Errorf("%d of %d enqueues failed, want at least the %d that were made while the server was down", refused, asked, down)
	}
	if report.Lives != len(workers) || report.Kills != 0 {
		s.Errorf("%d workers took part and %d died, want %d and none", report.Lives, report.Kills, len(workers))
	}
	if report.Erred == 0 {
		s.Error("no call of the store failed: the restarts hit nothing")
	}
}

// An enqueue whose transaction stays open while later ones commit, are
// claimed and end is not stranded: its job runs once it is committed.
func TestLateCommit(t *testing.T) {
	t.Parallel()
	s := newStage(t, pgtest.Database(t), short)
	s.workers(2)
	tx, err := crashtest.Begin(s.ctx, s.store, s.url)
	s.must(err)
	late := s.orders(1, crashtest.Order{Kind: crashtest.Quick})[0]
	answers, err := s.store.EnqueueTx(s.ctx, tx.Join, time.Time{}, []job.New{late.New()})
	s.must(err)
	seq := answers[0].Seq
	for range 5 {
		seqs := s.enqueue(s.orders(100, crashtest.Order{Kind: crashtest.Quick}))
		if seqs[0] < seq {
			s.Fatalf("a later enqueue got number %d, the open one has %d", seqs[0], seq)
		}
		s.must(s.fleet.Drained(s.ctx, s.store))
	}
	s.must(tx.Commit(s.ctx))
	committed := time.Now()
	s.acked[seq] = late
	s.must(s.fleet.Drained(s.ctx, s.store))
	s.Logf("it was done %s after its commit", time.Since(committed).Round(time.Millisecond))
	s.finish()
	s.noErrors(slow)
}

// On SQLite one transaction at a time writes: an open one keeps later
// enqueues waiting, none fails, and all of it runs.
func TestOpenTransactionOnSQLite(t *testing.T) {
	t.Parallel()
	s := newStage(t, "sqlite:"+t.TempDir()+"/ebb.db", short)
	s.workers(2)
	tx, err := crashtest.Begin(s.ctx, s.store, s.url)
	s.must(err)
	first := s.orders(1, crashtest.Order{Kind: crashtest.Quick})[0]
	answers, err := s.store.EnqueueTx(s.ctx, tx.Join, time.Time{}, []job.New{first.New()})
	s.must(err)
	other, err := crashtest.Open(s.ctx, s.url) // as another process would
	s.must(err)
	second := s.orders(1, crashtest.Order{Kind: crashtest.Quick})[0]
	waited := make(chan error, 1)
	go func() {
		later, err := other.Enqueue(s.ctx, time.Time{}, []job.New{second.New()})
		if err == nil {
			s.acked[later[0].Seq] = second
		}
		waited <- err
	}()
	s.moment(2 * short.Beat) // the workers' heartbeats wait, too
	select {
	case err := <-waited:
		s.Fatalf("a second enqueue was answered (%v) while the first transaction was open", err)
	default:
	}
	s.must(tx.Commit(s.ctx))
	s.must(<-waited)
	s.must(other.Close())
	s.acked[answers[0].Seq] = first
	s.finish()
	s.noErrors(slow)
}
