//go:build crash

package crashtest_test

import (
	"testing"
	"time"

	"github.com/ebbhq/ebb/crashtest"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// A target that never recovers has its jobs failed within the schedule's
// length + max_hold + attempts × timeout, so that what waits for it does not
// grow; one that comes back has its parked jobs done; a third one beside them
// does not notice.
func TestTargetNeverRecovers(t *testing.T) {
	onBoth(t, flowing, func(s *stage) {
		// The schedule with its jitter; and until work is looked over: a minute
		// if another process has shut the gate, and the lease if the eldest died.
		const schedule = (crashtest.DyingAttempts - 1) * crashtest.DyingDelay * 12 / 10
		const most = schedule + crashtest.DyingHold + crashtest.DyingAttempts*crashtest.DyingTimeout
		notice := time.Minute + 4*s.fleet.Config.Lease
		workers := s.workers(fleetSize)
		for _, target := range []string{"dead", "parked"} {
			s.mood(target, crashtest.Down)
		}
		var dead, parked, well []int64
		const each, pace = 8, 500 * time.Millisecond
		deepest, allowed := 0, each*(1+int(3*most/pace))
		for step := range size().rounds {
			dead = append(dead, s.enqueue(s.orders(each, crashtest.Order{Kind: crashtest.Call, Policy: crashtest.Dying, Target: "dead", Doomed: true}))...)
			parked = append(parked, s.enqueue(s.orders(each, crashtest.Order{Kind: crashtest.Call, Policy: crashtest.Parking, Target: "parked"}))...)
			well = append(well, s.enqueue(s.orders(each, crashtest.Order{Kind: crashtest.Call, Policy: crashtest.Limited, Target: "well", Millis: 20}))...)
			if step == 3 {
				s.must(s.fleet.Kill(workers[0])) // the eldest, who ends what is held
				_, err := s.fleet.Start()
				s.must(err)
			}
			s.moment(pace)
			deepest = max(deepest, s.count(job.Queued, "dead"))
		}
		if deepest > allowed {
			s.Errorf("%d jobs waited for the dead target, want %d at most", deepest, allowed)
		}
		s.until("all work of the dead target has ended and the other's is parked", func() bool {
			return s.count(job.Queued, "dead") == 0 && s.count(job.Queued, "parked") <= 1 // a probe
		})
		s.mood("parked", crashtest.Well)
		s.until("what was parked is queued again", func() bool { return s.count(job.Parked, "parked") == 0 })
		_, flow := s.finishFlow()
		slowest := time.Duration(0)
		expired := 0
		for _, seq := range dead {
			j := s.job(seq)
			slowest = max(slowest, j.EndedAt.Sub(j.EnqueuedAt))
			if j.History.Attempts == 0 {
				expired++
			}
		}
		if slowest > most+notice {
			s.Errorf("a job of the dead target ended after %s, want %s + %s at most", slowest, most, notice)
		}
		if flow.Most["dead"] == 0 || expired == 0 {
			s.Error("no job of the dead target ran, or none was held to its end: nothing was tested")
		}
		s.Logf("%d jobs of a dead target: the last ended after %s (%s allowed), %d never ran, %d waited at most; %d parked and done later; slowest start beside them %s",
			len(dead), slowest.Round(time.Millisecond), most, expired, deepest, len(parked), s.slowestStart(well).Round(time.Millisecond))
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
