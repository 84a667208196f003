package crashtest_test

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/ebbhq/ebb/crashtest"
)

// Workers are killed one after the other, each long before the lease of the
// one before it has ended. Each takes up at once what that one held: plain
// work, and work whose target has no more permits than the dead one had.
func TestKilledEveryFewSeconds(t *testing.T) {
	const atOnce = 5 * time.Second
	onBoth(t, crashtest.Config{Concurrency: 20}, func(s *stage) {
		size := size()
		seqs := slices.Concat(
			s.enqueue(s.orders(5, crashtest.Order{Kind: crashtest.Stay})),
			s.enqueue(s.orders(crashtest.LimitedTo, crashtest.Order{Kind: crashtest.Stay, Target: "shop", Policy: crashtest.Limited})),
		)
		var waited []time.Duration
		work := func() *crashtest.Life {
			began := crashtest.Mono()
			worker, err := s.fleet.Start()
			s.must(err)
			s.until("it works on everything, or is late", func() bool {
				return len(worker.Running()) == len(seqs) || crashtest.Mono()-began > atOnce
			})
			running := worker.Running()
			if len(running) < len(seqs) {
				s.Fatalf("worker %d works on %d of %d jobs %s after its start", worker.Number, len(running), len(seqs), atOnce)
			}
			last := slices.MaxFunc(running, func(a, b crashtest.Event) int { return int(a.Mono - b.Mono) })
			waited = append(waited, last.Mono-began)
			// Jobs that crash twice without progress would run one at a time.
			s.until("all have reported progress", func() bool {
				return !slices.ContainsFunc(seqs, func(seq int64) bool { return s.job(seq).History.Crashes > 0 })
			})
			return worker
		}
		for range size.lives {
			victim := work()
			s.moment(size.alone(s.rng))
			s.must(s.fleet.Kill(victim))
		}
		last := work()
		s.must(s.fleet.Signal(last, syscall.SIGTERM))
		s.until("it drains", func() bool { return last.Count(crashtest.Draining) == 1 })
		s.must(s.fleet.Signal(last, syscall.SIGTERM)) // its handlers return when they are told to
		s.until("it has stopped", func() bool { return last.EndedAt != 0 })
		for _, seq := range seqs {
			if j := s.job(seq); j.History.Attempts != 0 || j.History.Starts != size.lives+1 {
				s.Errorf("job %d: %d starts and %d attempts spent, want %d and none", seq, j.History.Starts, j.History.Attempts, size.lives+1)
			}
			_, err := s.store.Cancel(s.ctx, time.Time{}, "crashtest", seq)
			s.must(err)
		}
		if report := s.judge(); report.Crashes != size.lives*len(seqs) {
			s.Errorf("%d crash rows, want %d", report.Crashes, size.lives*len(seqs))
		}
		s.noErrors(slow)
		s.Logf("%d workers, each working on all %d jobs again after %s at most, the first after %s",
			len(waited), len(seqs), slices.Max(waited[1:]).Round(time.Millisecond), waited[0].Round(time.Millisecond))
	})
}
