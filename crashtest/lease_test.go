package crashtest_test

import (
	"testing"
	"time"

	"github.com/ebbhq/ebb/crashtest"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// With the defaults a worker that dies with 1,000 running jobs has them
// claimable again within 30 s by the store's clock, wherever it ran.
func TestThousandJobsOfADeadWorker(t *testing.T) {
	jobsOfADeadWorker(t, crashtest.Config{Elsewhere: true}, 30*time.Second)
}

// Where a worker that lives on the same host can see that it is gone, it is a
// matter of one heartbeat, 5 s.
func TestThousandJobsOfADeadNeighbour(t *testing.T) {
	jobsOfADeadWorker(t, crashtest.Config{}, 10*time.Second)
}

func jobsOfADeadWorker(t *testing.T, c crashtest.Config, most time.Duration) {
	const jobs = 1000
	c.Concurrency = jobs
	onBoth(t, c, func(s *stage) {
		victim := s.workers(1)[0]
		// The other one lives and watches, and runs nothing of this.
		c := s.fleet.Config
		c.Kinds = []crashtest.Kind{crashtest.Quick}
		other, err := s.fleet.StartWith(c)
		s.must(err)
		seqs := s.enqueue(s.orders(jobs, crashtest.Order{Kind: crashtest.Hold}))
		s.until("all jobs run", func() bool { return other.Process() != 0 && victim.Count(crashtest.Started) == jobs })
		killedAt, err := s.store.Now(s.ctx)
		s.must(err)
		s.must(s.fleet.Kill(victim))
		s.until("the dead worker is reaped", func() bool { return other.Count(crashtest.Reaped) == 1 })

		p, err := s.store.Register(s.ctx, time.Time{}, store.Process{Kinds: []string{string(crashtest.Hold)}})
		s.must(err)
		answer, err := s.store.Turn(s.ctx, store.Turn{Process: p.ID, Claims: []store.Claim{{
			Queue: job.DefaultQueue, Kinds: []string{string(crashtest.Hold)}, Limit: 2 * jobs,
		}}})
		s.must(err)
		if len(answer.Claimed) != jobs {
			s.Fatalf("%d jobs were claimable again, want %d", len(answer.Claimed), jobs)
		}
		latest := time.Duration(0)
		for i := range answer.Claimed {
			j := &answer.Claimed[i]
			latest = max(latest, j.LeasedAt.Sub(killedAt))
			if want := int64(2); j.Epoch != want || j.History.Starts != 1 || j.History.Attempts != 0 || j.History.Crashes != 1 {
				s.Fatalf("job %d has epoch %d and the history %+v after one crash", j.Seq, j.Epoch, j.History)
			}
		}
		if latest > most {
			s.Errorf("all %d jobs were claimed again %s after the kill, want %s at most", jobs, latest, most)
		}
		s.Logf("%d jobs claimed again %s after the kill", jobs, latest.Round(time.Millisecond))
		s.giveUp(p.ID, answer.Claimed)
		if seqs[0] != answer.Claimed[0].Seq {
			s.Errorf("the first one claimed is job %d, want %d", answer.Claimed[0].Seq, seqs[0])
		}
		s.finish()
	})
}

// giveUp cancels jobs that this process holds and leaves.
func (s *stage) giveUp(process int64, jobs []job.Job) {
	s.Helper()
	turn := store.Turn{Process: process}
	for i := range jobs {
		j := &jobs[i]
		turn.Settles = append(turn.Settles, store.Settle{Ref: store.Ref{Seq: j.Seq, Epoch: j.Epoch}, To: job.Cancelled, History: j.History})
	}
	_, err := s.store.Turn(s.ctx, turn)
	s.must(err)
	s.must(s.store.Leave(s.ctx, process))
}
