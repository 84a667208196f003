package storetest

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

var claimRules = []rule{
	{"the least by priority, due time, sequence, sorted", func(s *script) {
		p := s.process(t0)
		rng := rand.New(rand.NewPCG(1, 1))
		var jobs []job.New
		for range 200 {
			jobs = append(jobs, job.New{Kind: "mail", Priority: rng.IntN(3), DueAt: at(float64(rng.IntN(5)))})
		}
		seqs := s.add(t0, jobs...)
		order := make([]int, len(jobs))
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int {
			if c := jobs[a].Priority - jobs[b].Priority; c != 0 {
				return c
			}
			return jobs[a].DueAt.Compare(jobs[b].DueAt)
		})
		var want, got []int64
		for _, i := range order {
			want = append(want, seqs[i])
		}
		for len(got) < len(want) {
			claimed := s.claim(at(10), p, 30)
			if len(claimed) == 0 {
				break
			}
			got = append(got, seqsOf(claimed)...)
		}
		s.same("order", got, want)
	}},
	{"an urgent job that is not due does not hide others", func(s *script) {
		p := s.process(t0)
		s.add(t0, job.New{Kind: "mail", DueAt: at(3600)})
		low := s.add(t0, job.New{Kind: "mail", Priority: 9})[0]
		s.same("claimed", seqsOf(s.claim(t0, p, 10)), []int64{low})
	}},
	{"never before the due time", func(s *script) {
		p := s.process(t0)
		seq := s.add(t0, job.New{Kind: "mail", DueAt: at(1)})
		s.same("a microsecond early", len(s.claim(at(1).Add(-time.Microsecond), p, 1)), 0)
		s.same("a nanosecond early", len(s.claim(at(1).Add(-time.Nanosecond), p, 1)), 0)
		s.same("on time", seqsOf(s.claim(at(1), p, 1)), seq)
	}},
	{"a claimed job is whole, leased and begun", func(s *script) {
		p := s.process(t0)
		n := job.New{Kind: "mail", Target: "x", Priority: 3, DeadlineAt: at(99), Args: []byte("a\x00b"), Trace: "t"}
		s.must(s.StrictQueue(s.ctx, job.DefaultQueue, true)) // elsewhere a job with a target waits in its lane
		seq := s.add(t0, n)[0]
		j := s.claimOne(at(2.5), p)
		n.Queue, n.Policy, n.DueAt = job.DefaultQueue, "default", t0
		s.same("claimed", plainBytes(j), job.Job{
			Seq: seq, New: n, State: job.Running, EnqueuedAt: t0, History: retry.History{DeadlineAt: at(99)},
			Epoch: 1, Process: p, LeasedAt: at(2.5), Begun: true,
		})
		s.same("read", s.job(seq), j)
	}},
	{"one lease at a time", func(s *script) {
		p, q := s.process(t0), s.process(t0)
		s.addN(t0, 1)
		s.claimOne(t0, p)
		s.same("second claim", len(s.claim(at(9999), q, 10)), 0)
		s.same("same process", len(s.claim(at(9999), p, 10)), 0)
	}},
	{"only known kinds", func(s *script) {
		p := s.process(t0)
		seqs := s.add(t0, job.New{Kind: "a"}, job.New{Kind: "b"}, job.New{Kind: "c"}, job.New{Kind: "a"})
		s.same("none", len(s.turn(store.Turn{Process: p, Now: t0, Claims: []store.Claim{{Queue: job.DefaultQueue, Limit: 9}}}).Claimed), 0)
		s.same("unknown", len(s.claim(t0, p, 9, "d")), 0)
		s.same("b and c", seqsOf(s.claim(t0, p, 9, "b", "c")), seqs[1:3])
		s.same("a", seqsOf(s.claim(t0, p, 9, "a", "b", "c")), []int64{seqs[0], seqs[3]})
	}},
	{"a limit of 0 takes nothing", func(s *script) {
		p := s.process(t0)
		s.addN(t0, 1)
		s.same("claimed", len(s.claim(t0, p, 0)), 0)
	}},
	{"only the named queue", func(s *script) {
		p := s.process(t0)
		seqs := s.add(t0, job.New{Kind: "mail", Queue: "a"}, job.New{Kind: "mail", Queue: "b"})
		s.same("default", len(s.claim(t0, p, 9)), 0)
		s.same("b", seqsOf(s.claimFrom("b", t0, p, 9)), seqs[1:])
		s.same("a", seqsOf(s.claimFrom("a", t0, p, 9)), seqs[:1])
	}},
	{"several claims in one turn, in their order", func(s *script) {
		p := s.process(t0)
		seqs := s.add(t0, job.New{Kind: "mail", Queue: "a"}, job.New{Kind: "mail", Queue: "b"}, job.New{Kind: "mail", Queue: "a"})
		kinds := []string{"mail"}
		answer := s.turn(store.Turn{Process: p, Now: t0, Claims: []store.Claim{
			{Queue: "b", Kinds: kinds, Limit: 1}, {Queue: "a", Kinds: kinds, Limit: 1}, {Queue: "a", Kinds: kinds, Limit: 5},
		}})
		s.same("claimed", seqsOf(answer.Claimed), []int64{seqs[1], seqs[0], seqs[2]})
	}},
	{"not after the deadline, but on it", func(s *script) {
		p := s.process(t0)
		seqs := s.add(t0, job.New{Kind: "mail", DeadlineAt: at(5)}, job.New{Kind: "mail", DeadlineAt: at(4)}, plain)
		s.same("claimed", seqsOf(s.claim(at(5), p, 9)), []int64{seqs[0], seqs[2]})
		s.inState(job.Queued, seqs[1])
	}},
	{"a paused queue is left alone", func(s *script) {
		p := s.process(t0)
		seqs := s.addN(t0, 2)
		s.must(s.PauseQueue(s.ctx, t0, "ann", job.DefaultQueue, true))
		s.same("paused", len(s.claim(t0, p, 9)), 0)
		s.add(t0, plain) // enqueues go on
		s.must(s.PauseQueue(s.ctx, at(1), "ann", job.DefaultQueue, false))
		s.same("resumed", seqsOf(s.claim(t0, p, 2)), seqs)
	}},
	{"a queue can be paused before its first job", func(s *script) {
		p := s.process(t0)
		s.must(s.PauseQueue(s.ctx, t0, "ann", "later", true))
		s.add(t0, job.New{Kind: "mail", Queue: "later"})
		s.same("claimed", len(s.claimFrom("later", t0, p, 9)), 0)
	}},
	{"a strict queue runs one at a time in the cluster, in order", func(s *script) {
		p, q := s.process(t0), s.process(t0)
		s.must(s.StrictQueue(s.ctx, job.DefaultQueue, true))
		seqs := s.addN(t0, 3)
		first := s.claim(t0, p, 9)
		s.same("first", seqsOf(first), seqs[:1])
		s.same("other process", len(s.claim(t0, q, 9)), 0)
		// A job that waits for its retry does not block later ones.
		s.settled(t0, p, again(first[0], t0, time.Minute))
		second := s.claim(t0, q, 9)
		s.same("second", seqsOf(second), seqs[1:2])
		answer := s.turn(store.Turn{
			Process: q, Now: at(1), Settles: []store.Settle{succeeded(second[0], at(1))},
			Claims: []store.Claim{{Queue: job.DefaultQueue, Kinds: []string{"mail"}, Limit: 9}},
		})
		s.same("settle and claim in one turn", seqsOf(answer.Claimed), seqs[2:])
		s.settled(at(1), q, succeeded(answer.Claimed[0], at(1)))
		s.same("the retry", seqsOf(s.claim(at(60), p, 9)), seqs[:1])
	}},
	{"a strict queue's first job blocks claims that do not know its kind", func(s *script) {
		p := s.process(t0)
		s.must(s.StrictQueue(s.ctx, job.DefaultQueue, true))
		s.add(t0, job.New{Kind: "other"}, plain)
		s.same("mail", len(s.claim(t0, p, 9)), 0)
		s.same("both", len(s.claim(t0, p, 9, "mail", "other")), 1)
	}},
	{"a strict queue passes over a deadline that has passed", func(s *script) {
		p := s.process(t0)
		s.must(s.StrictQueue(s.ctx, job.DefaultQueue, true))
		seqs := s.add(t0, job.New{Kind: "other", DeadlineAt: at(1)}, plain)
		s.same("claimed", seqsOf(s.claim(at(2), p, 9)), seqs[1:])
	}},
	{"a queue can be strict and then not", func(s *script) {
		p := s.process(t0)
		s.must(s.StrictQueue(s.ctx, job.DefaultQueue, true))
		s.addN(t0, 3)
		s.same("strict", len(s.claim(t0, p, 9)), 1)
		s.must(s.StrictQueue(s.ctx, job.DefaultQueue, false))
		s.same("not strict", len(s.claim(t0, p, 9)), 2)
	}},
	{"a job that crashed twice is claimed unbegun", func(s *script) {
		p := s.process(t0)
		s.addN(t0, 1)
		for crashes := range 4 {
			j := s.claimOne(at(float64(crashes)), p)
			s.same("begun", j.Begun, crashes < store.SuspectCrashes)
			st := again(j, at(float64(crashes)), 0)
			st.History.Crashes = crashes + 1
			s.settled(at(float64(crashes)), p, st)
		}
	}},
	{"next due", func(s *script) {
		p := s.process(t0)
		next := func(queues ...string) time.Time {
			due, err := s.NextDue(s.ctx, queues, []string{"other", "mail"})
			s.must(err)
			return due
		}
		s.same("nothing", next("a", "b"), time.Time{})
		s.add(t0, job.New{Kind: "mail", Queue: "a", DueAt: at(50)}, job.New{Kind: "mail", Queue: "a", Priority: 9, DueAt: at(40)},
			job.New{Kind: "mail", Queue: "b", DueAt: at(30)})
		s.same("a", next("a"), at(40))
		s.same("a and b", next("a", "b"), at(30))
		s.same("no queues", next(), time.Time{})
		s.same("unknown", next("c"), time.Time{})
		s.must(s.PauseQueue(s.ctx, t0, "ann", "b", true))
		s.same("b paused", next("a", "b"), at(40))
		j := s.claimFrom("a", at(45), p, 1)
		s.same("one running", next("a", "b"), at(50))
		s.settled(at(45), p, again(j[0], at(45), time.Second))
		s.same("it waits", next("a", "b"), at(46))
	}},
	{"next due of the caller's kinds", func(s *script) {
		next := func(kinds ...string) time.Time {
			due, err := s.NextDue(s.ctx, []string{job.DefaultQueue}, kinds)
			s.must(err)
			return due
		}
		s.add(t0, job.New{Kind: "a", DueAt: at(10)}, job.New{Kind: "b", DueAt: at(20), Priority: 3}, job.New{Kind: "c", DueAt: at(30)})
		s.same("b and c", next("b", "c"), at(20))
		s.same("c", next("c"), at(30))
		s.same("unknown", next("d"), time.Time{})
		s.same("none", next(), time.Time{})
		// Behind many of other kinds it may be named too early, never too late.
		s.add(t0, slices.Repeat([]job.New{{Kind: "e", DueAt: at(5)}}, 300)...)
		if due := next("c"); due.IsZero() || due.After(at(30)) {
			s.Fatalf("c behind many others: %s, want until %s", due, at(30))
		}
	}},
}
