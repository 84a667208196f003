package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// crowd is how many goroutines meet.
const crowd = 4

// together runs f that often at the same time and fails on the first error.
func (s *script) together(f func(n int) error) {
	s.Helper()
	errs := make([]error, crowd)
	var wg sync.WaitGroup
	for n := range crowd {
		wg.Go(func() { errs[n] = f(n) })
	}
	wg.Wait()
	s.must(errors.Join(errs...))
}

var concurrentRules = []rule{
	{"a crowd drains a queue: each job once, every claim sorted", func(s *script) {
		seqs := s.addN(t0, 300)
		got := make([][]int64, crowd)
		var processes []int64
		for range crowd {
			processes = append(processes, s.process(t0))
		}
		var left atomic.Int64
		left.Store(int64(len(seqs)))
		s.together(func(n int) error {
			turn := store.Turn{Process: processes[n], Now: t0, Claims: []store.Claim{{Queue: job.DefaultQueue, Kinds: []string{"mail"}, Limit: 7}}}
			for left.Load() > 0 || len(turn.Settles) > 0 {
				answer, err := s.Turn(s.ctx, turn)
				if err != nil || slices.Contains(answer.Settled, false) {
					return fmt.Errorf("settled %v: %w", answer.Settled, err)
				}
				claimed := seqsOf(answer.Claimed)
				if !slices.IsSorted(claimed) {
					return fmt.Errorf("not sorted: %v", claimed)
				}
				left.Add(-int64(len(claimed)))
				got[n] = append(got[n], claimed...)
				turn.Settles = nil
				for _, j := range answer.Claimed {
					turn.Settles = append(turn.Settles, succeeded(j, t0))
				}
			}
			return nil
		})
		all := slices.Sorted(slices.Values(slices.Concat(got...)))
		s.same("claimed", all, seqs)
		s.same("counts", s.counts(job.DefaultQueue), map[job.State]int64{job.Succeeded: 300})
	}},
	{"a crowd on a strict queue: one at a time, in order", func(s *script) {
		s.must(s.StrictQueue(s.ctx, job.DefaultQueue, true))
		seqs := s.addN(t0, 40)
		var processes []int64
		for range crowd {
			processes = append(processes, s.process(t0))
		}
		var mu sync.Mutex
		var order []int64
		var running, left atomic.Int64
		left.Store(int64(len(seqs)))
		s.together(func(n int) error {
			for left.Load() > 0 {
				answer, err := s.Turn(s.ctx, store.Turn{
					Process: processes[n], Now: t0, Claims: []store.Claim{{Queue: job.DefaultQueue, Kinds: []string{"mail"}, Limit: 5}},
				})
				if err != nil {
					return err
				}
				if len(answer.Claimed) == 0 {
					continue
				}
				if now := running.Add(int64(len(answer.Claimed))); now > 1 {
					return fmt.Errorf("%d are running", now)
				}
				mu.Lock()
				order = append(order, answer.Claimed[0].Seq)
				mu.Unlock()
				running.Add(-1)
				left.Add(-1)
				if _, err := s.Turn(s.ctx, store.Turn{Process: processes[n], Now: t0, Settles: []store.Settle{succeeded(answer.Claimed[0], t0)}}); err != nil {
					return err
				}
			}
			return nil
		})
		s.same("order", order, seqs)
	}},
	{"a crowd that wants the same unique keys gets each once, whatever the order", func(s *script) {
		const keys = 12
		answers := make([][]store.Enqueued, crowd)
		s.together(func(n int) (err error) {
			var jobs []job.New
			for i := range keys {
				jobs = append(jobs, job.New{Kind: "mail", Unique: fmt.Sprint("u", (i*(2*(n%2)-1)+keys)%keys)})
			}
			answers[n], err = s.Enqueue(s.ctx, t0, jobs)
			return err
		})
		fresh := 0
		for _, list := range answers {
			for _, a := range list {
				if !a.Existing {
					fresh++
				}
				s.inState(job.Queued, a.Seq)
			}
		}
		s.same("new", fresh, keys)
		s.same("counts", s.counts(job.DefaultQueue), map[job.State]int64{job.Queued: keys})
	}},
	{"of a crowd of reapers one is first", func(s *script) {
		p := s.process(t0)
		seqs := s.addN(t0, 20)
		s.claim(t0, p, 20)
		seen, _ := s.seen(p)
		var ended, wins atomic.Int64
		s.together(func(int) error {
			n, ok, err := s.Reap(s.ctx, at(30), p, seen.Beat, crashed(at(30)))
			if ended.Add(int64(n)); ok {
				wins.Add(1)
			}
			return err
		})
		s.same("winners and leases", []int64{wins.Load(), ended.Load()}, []int64{1, 20})
		for _, seq := range seqs {
			s.same("ledger", len(s.ledger(seq)), 1)
		}
	}},
	{"a reap amid settles and claims: every start is written down once", func(s *script) {
		seqs := s.addN(t0, 60)
		doomed, other := s.process(t0), s.process(t0)
		jobs := s.claim(t0, doomed, 40)
		seen, _ := s.seen(doomed)
		s.together(func(n int) error {
			var err error
			switch n {
			case 0:
				_, _, err = s.Reap(s.ctx, at(30), doomed, seen.Beat, crashed(at(30)))
			case 1, 2: // late or in time: each answer is right
				for _, j := range jobs[20*(n-1) : 20*n] {
					_, err = s.Turn(s.ctx, store.Turn{Process: doomed, Now: at(30), Settles: []store.Settle{succeeded(j, at(30))}})
					if err != nil {
						break
					}
				}
				if errors.Is(err, store.ErrLostProcess) {
					err = nil
				}
			default:
				for range 20 {
					_, err = s.Turn(s.ctx, store.Turn{Process: other, Now: at(30), Claims: []store.Claim{{Queue: job.DefaultQueue, Kinds: []string{"mail"}, Limit: 3}}})
					if err != nil {
						break
					}
				}
			}
			return err
		})
		for _, seq := range seqs {
			j := s.job(seq)
			if j.State == job.Running && j.Process != other {
				s.Fatalf("left behind: %+v", j)
			}
			if n := len(s.ledger(seq)); n != j.History.Starts {
				s.Fatalf("%d rows for %d starts of job %d", n, j.History.Starts, seq)
			}
		}
		s.same("counts", s.counts(job.DefaultQueue), s.truth(job.DefaultQueue))
	}},
	{"a claim beside the reap of its own process leaves no lease behind", func(s *script) {
		for round := range 10 {
			now := at(float64(round))
			p := s.process(now)
			s.addN(now, 3)
			seen, _ := s.seen(p)
			s.together(func(n int) error {
				if n == 0 {
					_, _, err := s.Reap(s.ctx, now, p, seen.Beat, crashed(now))
					return err
				}
				_, err := s.Turn(s.ctx, store.Turn{Process: p, Now: now, Claims: []store.Claim{{Queue: job.DefaultQueue, Kinds: []string{"mail"}, Limit: 1}}})
				if errors.Is(err, store.ErrLostProcess) {
					return nil
				}
				return err
			})
			if n := s.truth(job.DefaultQueue)[job.Running]; n != 0 {
				s.Fatalf("round %d: %d leases of a process that is gone", round, n)
			}
		}
	}},
	{"cancel beside settle: one of them was first", func(s *script) {
		p := s.process(t0)
		for range 10 {
			seq := s.addN(t0, 1)[0]
			j := s.claimOne(t0, p)
			var applied atomic.Bool
			s.together(func(n int) error {
				if n == 0 {
					answer, err := s.Turn(s.ctx, store.Turn{Process: p, Now: at(1), Settles: []store.Settle{again(j, at(1), time.Hour)}})
					applied.Store(err == nil && answer.Settled[0])
					return err
				}
				_, err := s.Cancel(s.ctx, at(1), "ann", seq)
				if errors.Is(err, store.ErrState) { // another was faster
					return nil
				}
				return err
			})
			s.same("the settle", applied.Load(), true)
			s.inState(job.Cancelled, seq) // before the settle as an order, after it at once
			s.same("ledger", len(s.ledger(seq)), 1)
		}
	}},
}
