package storetest

import (
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// keyed is a job of key k with the rule.
func keyed(rule job.KeyRule) job.New { return job.New{Kind: "mail", Key: "k", KeyRule: rule} }

// addKeyed enqueues n jobs of key k in one batch.
func (s *flowScript) addKeyed(now time.Time, rule job.KeyRule, n int) []int64 {
	s.Helper()
	var jobs []job.New
	for range n {
		jobs = append(jobs, keyed(rule))
	}
	return s.add(now, jobs...)
}

// next claims plainly and compares; the claimed is returned.
func (s *flowScript) next(what string, now time.Time, process int64, want ...int64) []job.Job {
	s.Helper()
	jobs := s.claim(now, process, 9)
	s.same(what, seqsOf(jobs), append([]int64{}, want...))
	return jobs
}

var keyRules = []flowRule{
	{"only the head can be claimed; the others are blocked", func(s *flowScript) {
		p := s.process(t0)
		seqs := s.addKeyed(t0, "", 3)
		s.same("blocked", s.blocked(seqs...), []bool{false, true, true})
		head := s.next("head", t0, p, seqs[0])
		s.next("nothing else", at(100), p)
		s.same("blocked", s.blocked(seqs...), []bool{false, true, true})
		s.settled(at(1), p, succeeded(head[0], at(1)))
		s.same("promoted", s.blocked(seqs...), []bool{false, false, true})
	}},
	{"a settle promotes in the same turn", func(s *flowScript) {
		p := s.process(t0)
		seqs := s.addKeyed(t0, "", 3)
		jobs := s.next("head", t0, p, seqs[0])
		for _, seq := range seqs[1:] {
			jobs = s.turn(store.Turn{
				Process: p, Now: at(1), Settles: []store.Settle{succeeded(jobs[0], at(1))},
				Claims: []store.Claim{{Queue: job.DefaultQueue, Kinds: []string{"mail"}, Limit: 9}},
			}).Claimed
			s.same("next", seqsOf(jobs), []int64{seq})
		}
	}},
	{"order is by sequence, whatever priority and due time say", func(s *flowScript) {
		p := s.process(t0)
		first, second := keyed(""), keyed("")
		first.Priority, first.DueAt = 9, at(30)
		second.Priority = 0
		seqs := s.add(t0, first, second)
		s.next("not due", t0, p)
		j := s.next("the head", at(30), p, seqs[0])
		s.settled(at(30), p, succeeded(j[0], at(30)))
		s.next("then", at(30), p, seqs[1])
	}},
	{"a head that waits for its retry blocks its key and no other", func(s *flowScript) {
		p := s.process(t0)
		other := keyed("")
		other.Key = "other"
		seqs := s.add(t0, keyed(""), keyed(""), other)
		jobs := s.next("heads", t0, p, seqs[0], seqs[2])
		s.settled(t0, p, again(jobs[0], t0, time.Minute))
		s.next("blocked", at(59), p)
		s.same("next due", s.nextDue(), at(60))
		s.next("the head again", at(60), p, seqs[0])
	}},
	{"keys of two queues are not the same", func(s *flowScript) {
		p := s.process(t0)
		bulk := keyed("")
		bulk.Queue = "bulk"
		seqs := s.add(t0, keyed(""), bulk)
		s.same("blocked", s.blocked(seqs...), []bool{false, false})
		s.next("default", t0, p, seqs[0])
		s.same("bulk", seqsOf(s.claimFrom("bulk", t0, p, 9)), seqs[1:])
	}},
	{"a key goes across kinds and targets", func(s *flowScript) {
		p := s.process(t0)
		var jobs []job.New
		for _, target := range []string{"x", "", "y"} {
			n := keyed("")
			n.Target = target
			jobs = append(jobs, n)
		}
		seqs := s.add(t0, jobs...)
		s.next("plain", t0, p)
		j := s.found("x", t0, p, seqs[0])
		s.settled(at(1), p, succeeded(j[0], at(1)))
		s.found("nothing in lanes", at(1), p)
		j = s.next("plain", at(1), p, seqs[1])
		s.settled(at(2), p, succeeded(j[0], at(2)))
		s.found("y", at(2), p, seqs[2])
	}},
	{"a cancel of the head promotes, of another changes nothing", func(s *flowScript) {
		p := s.process(t0)
		seqs := s.addKeyed(t0, "", 4)
		s.cancel(at(1), seqs[1])
		s.same("blocked", s.blocked(seqs[0], seqs[2], seqs[3]), []bool{false, true, true})
		s.cancel(at(1), seqs[0])
		s.same("promoted", s.blocked(seqs[2], seqs[3]), []bool{false, true})
		j := s.next("head", at(1), p, seqs[2])
		s.same("an order waits", s.cancel(at(2), seqs[2]), job.Running)
		s.next("still running", at(2), p)
		s.settled(at(3), p, again(j[0], at(3), 0))
		s.inState(job.Cancelled, seqs[2])
		s.next("promoted by the cancelled end", at(3), p, seqs[3])
	}},
	{"a released head is the head again", func(s *flowScript) {
		p := s.process(t0)
		seqs := s.addKeyed(t0, "", 2)
		j := s.next("head", t0, p, seqs[0])
		s.turn(store.Turn{Process: p, Now: at(1), Release: []store.Ref{refOf(j[0])}})
		s.same("blocked", s.blocked(seqs...), []bool{false, true})
		s.next("again", at(1), p, seqs[0])
	}},
	{"a reaped head is the head again", func(s *flowScript) {
		p, q := s.process(t0), s.process(t0)
		seqs := s.addKeyed(t0, "", 2)
		s.next("head", t0, p, seqs[0])
		s.reap(at(30), p, crashed(at(30)))
		s.next("again", at(30), q, seqs[0])
	}},
	{"a kept lease keeps its key", func(s *flowScript) {
		p := s.process(t0)
		seqs := s.addKeyed(t0, "", 2)
		j := s.next("head", t0, p, seqs[0])
		s.settled(t0, p, kept(j[0], t0, time.Minute))
		s.next("nothing", at(3600), p)
	}},
	{"a parked head blocks until it is released or cancelled", func(s *flowScript) {
		p := s.process(t0)
		seqs := s.addKeyed(t0, job.KeySkip, 3)
		j := s.next("head", t0, p, seqs[0])
		s.settled(t0, p, ended(j[0], t0, job.Parked, retry.CauseNoProgress))
		s.next("blocked", at(1), p)
		s.must(s.Retry(s.ctx, at(2), "ann", seqs[0]))
		j = s.next("released", at(2), p, seqs[0])
		s.settled(at(2), p, ended(j[0], at(2), job.Parked, retry.CauseNoProgress))
		s.cancel(at(3), seqs[0])
		s.next("cancelled", at(3), p, seqs[1])
	}},
	{"a blocked job can be cancelled, retried and ended by its deadline", func(s *flowScript) {
		p := s.process(t0)
		late, wait := keyed(job.KeySkip), keyed("")
		late.DeadlineAt, wait.DueAt = at(5), at(600)
		seqs := s.add(t0, keyed(""), late, wait)
		s.must(s.Retry(s.ctx, at(1), "ann", seqs[2]))
		s.same("due now, and blocked", []any{s.job(seqs[2]).DueAt, s.job(seqs[2]).Blocked}, []any{at(1), true})
		s.maintain(store.Maintenance{Now: at(6), Limit: 10})
		s.inState(job.Failed, seqs[1])
		j := s.next("head", at(6), p, seqs[0])
		s.settled(at(6), p, succeeded(j[0], at(6)))
		s.next("the last", at(6), p, seqs[2])
	}},
	{"what looks at waiting jobs leaves the blocked out", func(s *flowScript) {
		head, next := keyed(""), keyed("")
		head.DueAt, next.DueAt = at(50), at(1)
		seqs := s.add(t0, head, next, job.New{Kind: "mail", DueAt: at(60)})
		s.same("next due", s.nextDue(), at(50))
		queues, err := s.Queues(s.ctx)
		s.must(err)
		s.same("queue", []any{queues[0].DueAt, queues[0].Counts[job.Queued]}, []any{at(50), int64(3)})
		n, err := s.Ahead(s.ctx, at(70), seqs[2], 10)
		s.must(err)
		s.same("ahead", n, 1)
	}},
	{"blocked jobs wait in no lane", func(s *flowScript) {
		n := keyed("")
		n.Target = "x"
		s.add(t0, n, n, n)
		lanes, err := s.Lanes(s.ctx, "x", 9)
		s.must(err)
		s.same("first attempts", lanes[0].Firsts, 1)
	}},
	{"only jobs with a key are ever blocked", func(s *flowScript) {
		seqs := s.addN(t0, 3)
		s.same("blocked", s.blocked(seqs...), []bool{false, false, false})
	}},
	{"a strict queue goes by keys too", func(s *flowScript) {
		p := s.process(t0)
		s.must(s.StrictQueue(s.ctx, job.DefaultQueue, true))
		seqs := s.add(t0, keyed(""), keyed(""), plain)
		j := s.next("head", t0, p, seqs[0])
		s.settled(t0, p, again(j[0], t0, time.Minute))
		j = s.next("what is not blocked", t0, p, seqs[2])
		s.settled(t0, p, succeeded(j[0], t0))
		s.next("the head", at(60), p, seqs[0])
	}},
}

// What a failed head does to those behind it.
var keyRuleRules = []flowRule{
	{"block: a dead letter stays the head until it is redriven", func(s *flowScript) {
		p := s.process(t0)
		seqs := s.addKeyed(t0, job.KeyBlock, 2)
		s.failHead(t0, p, seqs[0])
		s.next("blocked", at(10), p)
		later := s.addKeyed(at(10), "", 1)
		s.same("later ones too", s.blocked(seqs[1], later[0]), []bool{true, true})
		s.redrive(at(20), store.Filter{State: job.Failed}, 10)
		j := s.next("the head is back", at(20), p, seqs[0])
		s.settled(at(20), p, succeeded(j[0], at(20)))
		s.next("then", at(20), p, seqs[1])
	}},
	{"block: retention drops the dead letter and promotes", func(s *flowScript) {
		p := s.process(t0)
		seqs := s.addKeyed(t0, job.KeyBlock, 2)
		s.failHead(t0, p, seqs[0])
		s.maintain(store.Maintenance{Now: at(100), FailedKept: time.Minute, Limit: 10})
		s.gone(seqs[0])
		s.next("promoted", at(100), p, seqs[1])
	}},
	{"block: a head whose deadline passed blocks too", func(s *flowScript) {
		p := s.process(t0)
		late := keyed("")
		late.DeadlineAt = at(5)
		seqs := s.add(t0, late, keyed(""))
		s.next("passed", at(6), p)
		s.maintain(store.Maintenance{Now: at(6), Limit: 10})
		s.inState(job.Failed, seqs[0])
		s.next("blocked", at(6), p)
		s.same("blocked", s.blocked(seqs[1]), []bool{true})
	}},
	{"block: one that fails while it is blocked blocks when it is the least", func(s *flowScript) {
		p := s.process(t0)
		late := keyed("")
		late.DeadlineAt = at(5)
		seqs := s.add(t0, keyed(""), late, keyed(""))
		j := s.next("head", t0, p, seqs[0])
		s.maintain(store.Maintenance{Now: at(6), Limit: 10})
		s.settled(at(7), p, succeeded(j[0], at(7)))
		s.next("blocked", at(8), p)
		s.must(s.Retry(s.ctx, at(9), "ann", seqs[1]))
		s.next("redriven", at(9), p, seqs[1])
	}},
	{"skip: the next one goes", func(s *flowScript) {
		p := s.process(t0)
		seqs := s.addKeyed(t0, job.KeySkip, 2)
		s.failHead(t0, p, seqs[0])
		s.next("next", t0, p, seqs[1])
	}},
	{"skip: redriven, it comes in its order, and never two run", func(s *flowScript) {
		p := s.process(t0)
		seqs := s.addKeyed(t0, job.KeySkip, 3)
		s.failHead(t0, p, seqs[0])
		j := s.next("next", t0, p, seqs[1])
		s.must(s.Retry(s.ctx, at(1), "ann", seqs[0]))
		s.next("one is running", at(1), p)
		s.same("blocked", s.blocked(seqs[0], seqs[2]), []bool{true, true})
		s.settled(at(2), p, again(j[0], at(2), 0))
		s.same("it comes first", s.blocked(seqs...), []bool{false, true, true})
		j = s.next("the redriven", at(2), p, seqs[0])
		s.settled(at(3), p, succeeded(j[0], at(3)))
		s.next("then", at(3), p, seqs[1])
	}},
	{"skip: redriven before the next began, it takes its place back", func(s *flowScript) {
		p := s.process(t0)
		seqs := s.addKeyed(t0, job.KeySkip, 2)
		s.failHead(t0, p, seqs[0])
		s.same("promoted", s.blocked(seqs[1]), []bool{false})
		s.must(s.Retry(s.ctx, at(1), "ann", seqs[0]))
		s.same("blocked again", s.blocked(seqs...), []bool{false, true})
		s.next("the redriven", at(1), p, seqs[0])
	}},
	{"park: those behind are parked, and released in their order", func(s *flowScript) {
		p := s.process(t0)
		seqs := s.addKeyed(t0, job.KeyPark, 3)
		s.same("told by the turn that failed it", s.failHead(t0, p, seqs[0]).Parked, []store.EndCount{{
			To: job.Parked, Cause: job.HeadFailed, Kind: "mail", Queue: job.DefaultQueue, Policy: policy.DefaultName, Untried: true, Count: 2,
		}})
		s.same("once", s.parkedBehind(t0, p), 0)
		s.inState(job.Parked, seqs[1:]...)
		j := s.job(seqs[2])
		s.same("cause", []any{j.Cause, j.Blocked, j.EndedAt}, []any{job.HeadFailed, false, time.Time{}})
		s.same("counts", s.counts(job.DefaultQueue), map[job.State]int64{job.Failed: 1, job.Parked: 2})
		later := s.addKeyed(at(1), "", 1)
		s.next("parked ones block", at(1), p)
		s.must(s.Retry(s.ctx, at(2), "ann", seqs[2]))
		s.next("not before its elders", at(2), p)
		s.redrive(at(3), store.Filter{State: job.Parked, Cause: job.HeadFailed}, 10)
		for _, seq := range []int64{seqs[1], seqs[2], later[0]} {
			j := s.next("in order", at(3), p, seq)
			s.settled(at(3), p, succeeded(j[0], at(3)))
		}
	}},
	{"park: whatever failed the head, a turn tells who was parked", func(s *flowScript) {
		p, dying := s.process(t0), s.process(t0)
		head := s.addKeyed(t0, job.KeyPark, 2)
		s.next("head", t0, dying, head[0])
		_, ok := s.reap(at(30), dying, func(j job.Job) store.Settle { return ended(j, at(30), job.Failed, retry.CausePoison) })
		s.same("reaped", ok, true)
		s.same("of the dead process", s.parkedBehind(at(30), p), 1)
		s.redrive(at(31), store.Filter{State: job.Parked}, 9)
		j := s.next("goes", at(31), p, head[1])
		s.settled(at(31), p, succeeded(j[0], at(31)))

		late := keyed(job.KeyPark)
		late.DeadlineAt = at(40)
		s.add(at(32), late, keyed(job.KeyPark), keyed(job.KeyPark))
		s.same("expired", store.EndTotal(s.maintain(store.Maintenance{Now: at(41), Limit: 10})), 1)
		s.same("of the deadline", s.parkedBehind(at(41), p), 2)
	}},
	{"park: with nobody behind, later ones go", func(s *flowScript) {
		p := s.process(t0)
		seqs := s.addKeyed(t0, job.KeyPark, 1)
		s.failHead(t0, p, seqs[0])
		later := s.addKeyed(at(1), "", 1)
		s.next("goes", at(1), p, later[0])
	}},
	{"the rule is the failed head's own", func(s *flowScript) {
		p := s.process(t0)
		seqs := s.add(t0, keyed(job.KeySkip), keyed(job.KeyBlock), keyed(job.KeyPark))
		s.failHead(t0, p, seqs[0])
		s.failHead(t0, p, seqs[1])
		s.next("blocked", t0, p)
		s.inState(job.Queued, seqs[2])
		s.same("rule", s.job(seqs[1]).KeyRule, job.KeyBlock)
		s.same("rule", s.job(seqs[2]).KeyRule, job.KeyPark)
	}},
	{"a crash that ends as poison is a failure of the head", func(s *flowScript) {
		p := s.process(t0)
		seqs := s.addKeyed(t0, job.KeyPark, 2)
		s.next("head", t0, p, seqs[0])
		s.reap(at(30), p, func(j job.Job) store.Settle { return ended(j, at(30), job.Failed, retry.CausePoison) })
		s.inState(job.Parked, seqs[1])
	}},
}

// failHead claims the head of k, which must be the job, and fails it.
func (s *flowScript) failHead(now time.Time, process int64, seq int64) store.Turned {
	s.Helper()
	j := s.next("head", now, process, seq)
	answer := s.turn(store.Turn{Process: process, Now: now, Settles: []store.Settle{ended(j[0], now, job.Failed, retry.CauseExhausted)}})
	s.same("settled", answer.Settled, []bool{true})
	return answer
}

// parkedBehind takes a turn and returns how many jobs it tells of that were
// parked because the job ahead in their key failed.
func (s *flowScript) parkedBehind(now time.Time, process int64) int {
	s.Helper()
	return store.EndTotal(s.turn(store.Turn{Process: process, Now: now}).Parked)
}
