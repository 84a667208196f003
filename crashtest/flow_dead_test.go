//go:build crash

package crashtest_test

import (
	"testing"
	"time"

	"github.com/ebbhq/ebb/crashtest"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// A target that is down for long has its work parked, so that what waits for it
// in the queue does not grow, though processes are killed; when it comes back all
// of its work is done; another target beside it does not notice.
func TestTargetIsDownForLong(t *testing.T) {
	onBoth(t, flowing, func(s *stage) {
		workers := s.workers(fleetSize)
		s.mood("down", crashtest.Down)
		var held, well []int64
		const each, pace = 8, 500 * time.Millisecond
		for step := range size().rounds {
			held = append(held, s.enqueue(s.orders(each, crashtest.Order{Kind: crashtest.Call, Policy: crashtest.Parking, Target: "down"}))...)
			well = append(well, s.enqueue(s.orders(each, crashtest.Order{Kind: crashtest.Call, Policy: crashtest.Limited, Target: "well", Millis: 20}))...)
			if step == 3 {
				s.must(s.fleet.Kill(workers[0])) // the eldest, who parks what is held
				_, err := s.fleet.Start()
				s.must(err)
			}
			s.moment(pace)
		}
		s.until("what its target holds is parked", func() bool {
			return s.count(job.Parked, "down") > 0 && s.count(job.Queued, "down") <= 2*each
		})
		parked := s.count(job.Parked, "down")
		s.mood("down", crashtest.Well)
		s.until("what was parked is queued again", func() bool { return s.count(job.Parked, "down") == 0 })
		s.finishFlow()
		s.Logf("%d jobs of a target that was down, %d of them parked at the end; slowest start beside them %s",
			len(held), parked, s.slowestStart(well).Round(time.Millisecond))
		if lag := s.slowestStart(well); lag > s.fleet.Config.Lease+2*time.Second {
			s.Errorf("a job of a target that was well began %s after its enqueue", lag)
		}
	})
}

// count counts jobs of the target, up to a page.
func (s *stage) count(state job.State, target string) int {
	s.Helper()
	jobs, err := s.store.List(s.ctx, store.Filter{State: state, Target: target}, store.Page{Limit: 1000})
	s.must(err)
	return len(jobs)
}

// slowestStart is the longest from an enqueue to the job's first start.
func (s *stage) slowestStart(seqs []int64) time.Duration {
	s.Helper()
	first := map[int64]time.Time{}
	for _, e := range s.starts(s.fleet.Lives, "well") {
		if _, again := first[e.Seq]; !again {
			first[e.Seq] = e.Wall
		}
	}
	slowest := time.Duration(0)
	for _, seq := range seqs {
		slowest = max(slowest, first[seq].Sub(s.job(seq).EnqueuedAt))
	}
	return slowest
}
