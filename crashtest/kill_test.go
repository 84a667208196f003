package crashtest_test

import (
	"testing"
	"time"
)

// Workers die by kill -9 at any moment, again and again, while jobs come in:
// nothing is lost, nothing runs twice at a time, nothing counts twice.
func TestKill(t *testing.T) {
	onBoth(t, short, func(s *stage) {
		size := size()
		s.workers(4)
		began := time.Now()
		for kill := range size.kills {
			s.bring(size.jobs / size.kills)
			s.moment(time.Duration(s.rng.IntN(200)) * time.Millisecond)
			alive := s.fleet.Alive()
			s.must(s.fleet.Kill(alive[s.rng.IntN(len(alive))]))
			_, err := s.fleet.Start()
			s.must(err)
			if kill == size.kills/2 {
				s.must(s.fleet.Drained(s.ctx, s.store))
			}
		}
		s.bring(size.jobs % size.kills)
		report := s.finish()
		if report.Kills != size.kills || report.Jobs != size.jobs {
			s.Errorf("%d kills over %d jobs, want %d over %d", report.Kills, report.Jobs, size.kills, size.jobs)
		}
		if report.Crashes == 0 {
			s.Error("no kill hit a running job: nothing was tested")
		}
		s.noErrors(slow)
		s.Logf("took %s", time.Since(began).Round(time.Millisecond))
	})
}

// bring enqueues n orders in batches of random sizes.
func (s *stage) bring(n int) {
	s.Helper()
	for n > 0 {
		some := 1 + s.rng.IntN(min(n, 100))
		s.enqueue(s.mixed(some))
		n -= some
	}
}
