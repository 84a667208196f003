package crashtest_test

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/ebbhq/ebb/crashtest"
	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
)

// SIGTERM drains: what runs is finished and saved, nothing more is started,
// and what was claimed and not begun goes back for free.
func TestSignalDrains(t *testing.T) {
	onBoth(t, short, func(s *stage) {
		seqs := s.suspects(5)
		// They run one at a time now: one has begun, the others wait.
		victim := s.workers(1)[0]
		s.until("one suspect runs and all are claimed", func() bool {
			return len(victim.Running()) == 1 && victim.Count(crashtest.Claimed) == len(seqs)
		})
		running := victim.Running()[0].Seq
		s.must(s.fleet.Signal(victim, syscall.SIGTERM))
		s.until("it drains", func() bool { return victim.Count(crashtest.Draining) == 1 })
		later := s.enqueue(s.orders(1, crashtest.Order{Kind: crashtest.Quick}))
		s.until("it has stopped", func() bool { return victim.EndedAt != 0 })

		if n := victim.Count(crashtest.Started); n != 1 {
			s.Errorf("%d handlers were started, want the one that ran before the signal", n)
		}
		for _, seq := range seqs {
			j := s.job(seq)
			state, starts := job.Queued, 2
			if seq == running {
				state, starts = job.Succeeded, 3
			}
			if j.State != state || j.History.Starts != starts || j.History.Crashes != 2 && state == job.Queued {
				s.Errorf("job %d: %s after %d starts and %d crashes, want %s after %d and 2", seq, j.State, j.History.Starts, j.History.Crashes, state, starts)
			}
		}
		if j := s.job(later[0]); j.State != job.Queued || j.Epoch != 0 {
			s.Errorf("a job enqueued during the drain is %s with epoch %d, want queued and never claimed", j.State, j.Epoch)
		}
		s.workers(1)
		s.finish()
	})
}

// suspects enqueues n naps and lets each crash twice.
func (s *stage) suspects(n int) []int64 {
	s.Helper()
	seqs := s.enqueue(s.orders(n, crashtest.Order{Kind: crashtest.Nap, Millis: 1000}))
	c := s.fleet.Config
	c.Kinds = []crashtest.Kind{crashtest.Hold}
	watcher, err := s.fleet.StartWith(c)
	s.must(err)
	first := s.workers(1)[0]
	s.until("all naps run", func() bool { return len(first.Running()) == n })
	s.must(s.fleet.Kill(first))
	s.until("the first crash is noticed", func() bool { return watcher.Count(crashtest.Reaped) == 1 })
	second := s.workers(1)[0]
	s.until("all naps run again", func() bool { return len(second.Running()) == n })
	s.must(s.fleet.Kill(second))
	s.until("the second crash is noticed", func() bool { return watcher.Count(crashtest.Reaped) == 2 })
	s.must(s.fleet.Stop(s.ctx))
	return seqs
}

// A second SIGTERM does not wait for the handlers: their contexts end, and
// their starts cost nothing.
func TestSecondSignalIsFaster(t *testing.T) {
	onBoth(t, short, func(s *stage) {
		const held = 20
		victim := s.workers(1)[0]
		seqs := s.enqueue(s.orders(held, crashtest.Order{Kind: crashtest.Hold}))
		s.until("all jobs run", func() bool { return len(victim.Running()) == held })
		s.must(s.fleet.Signal(victim, syscall.SIGTERM))
		s.until("it drains", func() bool { return victim.Count(crashtest.Draining) == 1 })
		if n := len(victim.Running()); n != held {
			s.Errorf("%d handlers run after the first signal, want %d", n, held)
		}
		s.must(s.fleet.Signal(victim, syscall.SIGTERM))
		s.until("it has stopped", func() bool { return victim.EndedAt != 0 })

		at := func(what crashtest.What) time.Duration {
			i := slices.IndexFunc(victim.Events, func(e crashtest.Event) bool { return e.What == what })
			if i < 0 {
				s.Fatalf("the evidence holds no %q", what)
			}
			return victim.Events[i].Mono
		}
		if took := at(crashtest.Stopped) - at(crashtest.Draining); took >= short.Drain {
			s.Errorf("the stop took %s in spite of the second signal; the drain alone is %s", took, short.Drain)
		}
		for _, seq := range seqs {
			j := s.job(seq)
			rows, err := s.store.Attempts(s.ctx, seq)
			s.must(err)
			if j.State != job.Queued || j.History.Attempts != 0 || len(rows) != 1 ||
				rows[0].Class != failure.Interrupted || rows[0].Counted != retry.CountedApart {
				s.Fatalf("job %d: %s, %d attempts spent, ledger %+v; want queued, none spent, one interruption", seq, j.State, j.History.Attempts, rows)
			}
			_, err = s.store.Cancel(s.ctx, time.Time{}, "crashtest", seq)
			s.must(err)
		}
		s.judge()
	})
}

// A job that kills its worker is a dead letter after its free crashes, and
// takes none of its neighbours along.
func TestPoison(t *testing.T) {
	c := short
	c.Kinds = crashtest.Kinds
	onBoth(t, c, func(s *stage) {
		bomb := s.enqueue(s.orders(1, crashtest.Order{Kind: crashtest.Bomb, Policy: "poison"}))[0]
		s.enqueue(s.orders(100, crashtest.Order{Kind: crashtest.Slow, Millis: 50}))
		for range 2 {
			_, err := s.fleet.Start()
			s.must(err)
		}
		s.until("the bomb is defused", func() bool {
			for range 2 - len(s.fleet.Alive()) {
				_, err := s.fleet.Start()
				s.must(err)
			}
			return s.job(bomb).State == job.Failed
		})
		report := s.finish()
		if want := 4; report.Kills != want {
			s.Errorf("the bomb went off %d times, want %d: 3 free crashes and the last", report.Kills, want)
		}
	})
}
