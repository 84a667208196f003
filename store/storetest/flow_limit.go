package storetest

import (
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// Limits of queues, pauses of kinds.
var limitRules = []flowRule{
	{"a queue with limits has a lane of its own", func(s *flowScript) {
		p := s.process(t0)
		waiting := s.add(t0, plain, to("x"))
		limit := store.QueueLimit{Concurrency: 3, Rate: 0.5}
		s.must(s.LimitQueue(s.ctx, at(1), "ann", job.DefaultQueue, limit))
		waiting = append(waiting, s.addN(at(1), 1)...)
		s.same("no plain work", len(s.claim(at(2), p, 9)), 0)
		own := store.QueueTarget(job.DefaultQueue)
		answer := s.lanes(at(2), p, named(own, 9))
		s.same("by name", seqsOf(answer.Claimed), []int64{waiting[0], waiting[2]})
		s.same("gates", answer.Gates, []store.Gate{{Target: own, Room: store.NoLimit}})
		s.same("unbegun, without a target", []any{answer.Claimed[0].Begun, answer.Claimed[0].Target}, []any{false, ""})
		s.found("targets keep their lanes", at(2), p, waiting[1])
		queues, err := s.Queues(s.ctx)
		s.must(err)
		s.same("queue", []any{queues[0].Name, queues[0].Limit}, []any{job.DefaultQueue, limit})
		rules, err := s.QueueRules(s.ctx)
		s.must(err)
		s.same("its rule", rules, []store.QueueRule{queues[0].QueueRule})
		rows, err := s.Audit(s.ctx, 9)
		s.must(err)
		s.same("audit", []any{len(rows), rows[0].At, rows[0].Actor, rows[0].Act, rows[0].What}, []any{1, at(1), "ann", "queue.limit", job.DefaultQueue})
	}},
	{"a discovery finds the lane of a queue with limits", func(s *flowScript) {
		p := s.process(t0)
		s.must(s.LimitQueue(s.ctx, t0, "ann", job.DefaultQueue, store.QueueLimit{Rate: 1}))
		seqs := s.add(t0, plain, to("a"), to("z"))
		s.found("by name of the gate", t0, p, seqs[1], seqs[0], seqs[2])
	}},
	{"the zero limit ends it", func(s *flowScript) {
		p := s.process(t0)
		s.must(s.LimitQueue(s.ctx, t0, "ann", job.DefaultQueue, store.QueueLimit{Concurrency: 1}))
		seqs := s.addN(t0, 2)
		j := s.serveOne(t0, p, store.QueueTarget(job.DefaultQueue))
		s.must(s.LimitQueue(s.ctx, at(1), "ann", job.DefaultQueue, store.QueueLimit{}))
		s.found("no lane", at(2), p)
		s.same("plain", seqsOf(s.claim(at(2), p, 9)), seqs[1:])
		s.settled(at(2), p, again(j, at(2), 0))
		s.same("what was claimed comes back plain", seqsOf(s.claim(at(2), p, 9)), seqs[:1])
	}},
	{"a strict queue with limits is strict", func(s *flowScript) {
		p := s.process(t0)
		s.must(s.LimitQueue(s.ctx, t0, "ann", job.DefaultQueue, store.QueueLimit{Concurrency: 1}))
		s.must(s.StrictQueue(s.ctx, job.DefaultQueue, true))
		seqs := s.addN(t0, 2)
		s.found("no lane", t0, p)
		j := s.next("plain", t0, p, seqs[0])
		s.must(s.StrictQueue(s.ctx, job.DefaultQueue, false))
		s.same("limited again", seqsOf(s.serve(t0, p, store.QueueTarget(job.DefaultQueue), 9)), seqs[1:])
		s.settled(t0, p, succeeded(j[0], t0))
	}},
	{"blocked jobs go where their queue is when they are promoted", func(s *flowScript) {
		p := s.process(t0)
		seqs := s.addKeyed(t0, "", 2)
		j := s.next("head", t0, p, seqs[0])
		s.must(s.LimitQueue(s.ctx, t0, "ann", job.DefaultQueue, store.QueueLimit{Concurrency: 1}))
		s.settled(at(1), p, succeeded(j[0], at(1)))
		s.next("not plain", at(1), p)
		s.found("in the lane", at(1), p, seqs[1])
	}},
	{"targets may not begin as a queue's gate does", func(s *flowScript) {
		if _, err := s.Enqueue(s.ctx, t0, []job.New{to(store.QueuePrefix + "x")}); err == nil {
			s.Fatal("accepted")
		}
	}},
	{"a paused kind starts nothing", func(s *flowScript) {
		p := s.process(t0, "mail", "other")
		seqs := s.add(t0, plain, job.New{Kind: "other"}, to("x"), job.New{Kind: "other", Target: "x"})
		s.must(s.PauseKind(s.ctx, t0, "ann", "mail", true))
		s.must(s.PauseKind(s.ctx, t0, "ann", "fax", true))
		kinds, err := s.PausedKinds(s.ctx)
		s.must(err)
		s.same("paused", kinds, []string{"fax", "mail"})
		s.same("plain", seqsOf(s.claim(at(1), p, 9, "mail", "other")), seqs[1:2])
		c := everything
		c.Kinds = []string{"mail", "other"}
		s.same("lanes", seqsOf(s.lanes(at(1), p, c).Claimed), seqs[3:])
		s.same("by name", len(s.serve(at(1), p, "x", 9)), 0)
		s.same("next due", s.nextDue(), time.Time{})
		s.must(s.PauseKind(s.ctx, at(2), "bob", "mail", false))
		s.same("plain again", seqsOf(s.claim(at(2), p, 9)), seqs[:1])
		s.found("lanes again", at(2), p, seqs[2])
		rows, err := s.Audit(s.ctx, 1)
		s.must(err)
		s.same("audit", []any{rows[0].Actor, rows[0].Act, rows[0].What}, []any{"bob", "kind.resume", "mail"})
		rows, err = s.Audit(s.ctx, 9)
		s.must(err)
		s.same("audit", []any{len(rows), rows[2].Act, rows[2].What}, []any{3, "kind.pause", "mail"})
	}},
	{"a paused kind at the head of a strict queue blocks it", func(s *flowScript) {
		p := s.process(t0, "mail", "other")
		s.must(s.StrictQueue(s.ctx, job.DefaultQueue, true))
		s.add(t0, plain, job.New{Kind: "other"})
		s.must(s.PauseKind(s.ctx, t0, "ann", "mail", true))
		s.same("claimed", len(s.claim(t0, p, 9, "mail", "other")), 0)
	}},
	{"what already runs goes on", func(s *flowScript) {
		p := s.process(t0)
		s.add(t0, to("x"))
		j := s.serveOne(t0, p, "x")
		s.must(s.PauseKind(s.ctx, t0, "ann", "mail", true))
		s.same("begin", s.begin(at(1), p, refOf(j)), []bool{true})
		s.settled(at(2), p, succeeded(j, at(2)))
	}},
}

// ending is an end of first attempts to x that were due by second 10.
var ending = store.Ending{Target: "x", DueBy: at(10), To: job.Failed, Cause: retry.CauseExpired, Limit: 100}

// end ends waiting jobs and returns how many.
func (s *flowScript) end(now time.Time, e store.Ending) int {
	s.Helper()
	return store.EndTotal(s.ends(now, e))
}

// ends is end with what each count is of.
func (s *flowScript) ends(now time.Time, e store.Ending) []store.EndCount {
	s.Helper()
	list, err := s.EndWaiting(s.ctx, now, e)
	s.must(err)
	return list
}

// heldJob leaves a retry to x, due at second 1, that gates held for a while.
func (s *flowScript) heldJob(process int64, held time.Duration) int64 {
	s.Helper()
	n := to("x")
	seq := s.add(t0, n)[0]
	j := s.serveOne(t0, process, "x")
	s.same("claimed", j.Seq, seq)
	st := again(j, t0, time.Second)
	st.History.Held = held
	s.settled(t0, process, st)
	return seq
}

// Ends of waiting.
var holdRules = []flowRule{
	{"to failed: state, cause, end, groups, and no ledger row", func(s *flowScript) {
		seqs := s.add(t0, to("x"), to("y"))
		s.same("ended", s.end(at(20), ending), 1)
		j := s.job(seqs[0])
		s.same("job", []any{j.State, j.Cause, j.EndedAt, j.Epoch, len(s.ledger(j.Seq))}, []any{job.Failed, retry.CauseExpired, at(20), int64(0), 0})
		s.same("counts", s.counts(job.DefaultQueue), map[job.State]int64{job.Failed: 1, job.Queued: 1})
		groups, err := s.Groups(s.ctx, store.Filter{}, 9)
		s.must(err)
		s.same("groups", groups, []store.Group{{Kind: "mail", Queue: job.DefaultQueue, Cause: retry.CauseExpired, Count: 1, FirstAt: at(20), LastAt: at(20)}})
		s.same("once", s.end(at(20), ending), 0)
	}},
	{"to parked: released as any parked job", func(s *flowScript) {
		seq := s.add(t0, job.New{Kind: "mail", Target: "x", Unique: "u"})[0]
		e := ending
		e.To, e.Cause = job.Parked, retry.CauseTargetDown
		s.same("ended", s.end(at(20), e), 1)
		j := s.job(seq)
		s.same("job", []any{j.State, j.Cause, j.EndedAt}, []any{job.Parked, retry.CauseTargetDown, time.Time{}})
		s.same("its unique key is taken", s.enqueueOne(at(21), job.New{Kind: "mail", Unique: "u"}).Existing, true)
		p := s.process(t0)
		s.found("nothing waits", at(22), p)
		s.redrive(at(30), store.Filter{State: job.Parked}, 9)
		s.found("released", at(30), p, seq)
	}},
	{"a failed one frees its unique key", func(s *flowScript) {
		s.add(t0, job.New{Kind: "mail", Target: "x", Unique: "u"})
		s.end(at(20), ending)
		s.add(at(21), job.New{Kind: "mail", Unique: "u"})
	}},
	{"what selects", func(s *flowScript) {
		p := s.process(t0)
		second := s.heldJob(p, 0)
		held := s.heldJob(p, time.Second)
		seqs := s.add(t0, to("x"), dueAt(at(10)), dueAt(at(10.000001)), job.New{Kind: "mail", Target: "x", Policy: "webhook"}, to("y"))
		running := s.add(at(-5), dueAt(at(-5)))[0]
		s.same("the oldest is running", s.serveOne(t0, p, "x").Seq, running)
		for _, c := range []struct {
			name string
			e    store.Ending
			want []int64
		}{
			{"a policy", store.Ending{Policy: "webhook", DueBy: at(10)}, []int64{seqs[3]}},
			{"numbers, all parts match", store.Ending{DueBy: at(10), Seqs: []int64{seqs[2], held, seqs[4], running}}, nil},
			{"numbers, held before", store.Ending{DueBy: at(10), Retries: true, Seqs: []int64{held, second}}, []int64{held, second}},
			{"retries, not held before", store.Ending{DueBy: at(10), Retries: true}, []int64{second}},
			{"first attempts", store.Ending{DueBy: at(10)}, []int64{seqs[0], seqs[1], seqs[3]}},
			{"any", store.Ending{DueBy: at(10), Any: true}, []int64{second, seqs[0], seqs[1], seqs[3]}},
			{"later", store.Ending{DueBy: at(11), Any: true}, []int64{second, seqs[0], seqs[1], seqs[2], seqs[3]}},
			{"not due by then", store.Ending{DueBy: at(-6), Any: true}, nil},
		} {
			c.e.Target, c.e.To, c.e.Cause, c.e.Limit = "x", job.Parked, job.Disabled, 100
			s.same(c.name, s.end(at(20), c.e), len(c.want))
			s.inState(job.Parked, c.want...)
			s.same(c.name+": no others", len(s.list(store.Filter{State: job.Parked}, store.Page{Limit: 99})), len(c.want))
			for _, seq := range c.want { // and back to what they were
				s.restore(p, seq, seq == second || seq == held, seq == held, map[int64]time.Time{seqs[1]: at(10), seqs[2]: at(10.000001)}[seq])
			}
		}
	}},
	{"what ended is counted by cause, kind, queue, target, policy and whether it ever started", func(s *flowScript) {
		p := s.process(t0)
		s.heldJob(p, 0)
		s.add(t0, to("x"), to("x"), job.New{Kind: "mail", Target: "x", Queue: "other", Policy: "webhook"}, job.New{Kind: "call", Target: "x"}, to("y"))
		e := ending
		e.Any, e.To, e.Cause = true, job.Parked, retry.CauseTargetDown
		like := store.EndCount{To: job.Parked, Cause: retry.CauseTargetDown, Queue: job.DefaultQueue, Target: "x", Policy: policy.DefaultName}
		count := func(kind string, untried bool, n int) store.EndCount {
			c := like
			c.Kind, c.Untried, c.Count = kind, untried, n
			return c
		}
		elsewhere := count("mail", true, 1)
		elsewhere.Queue, elsewhere.Policy = "other", "webhook"
		s.same("counts", s.ends(at(20), e), []store.EndCount{count("call", true, 1), count("mail", false, 1), count("mail", true, 2), elsewhere})
	}},
	{"the least numbers first, up to the limit", func(s *flowScript) {
		seqs := s.add(t0, dueAt(at(9)), dueAt(at(1)), dueAt(at(5)))
		e := ending
		e.Limit = 2
		s.same("ended", s.end(at(20), e), 2)
		s.inState(job.Failed, seqs[:2]...)
		s.inState(job.Queued, seqs[2])
	}},
	{"an end that a waiting job cannot have is refused", func(s *flowScript) {
		s.add(t0, to("x"))
		for _, bad := range []store.Ending{{To: job.Failed, Cause: retry.CauseFatal}, {To: job.Cancelled}, {To: job.Parked}, {To: job.Running}} {
			bad.Target, bad.DueBy, bad.Any, bad.Limit = "x", at(10), true, 9
			_, err := s.EndWaiting(s.ctx, at(20), bad)
			s.refused(err, store.ErrState)
		}
		s.same("counts", s.counts(job.DefaultQueue), map[job.State]int64{job.Queued: 1})
	}},
	{"a head that ends promotes by its rule, blocked ones end too", func(s *flowScript) {
		p := s.process(t0)
		n := keyed(job.KeySkip)
		n.Target = "x"
		seqs := s.add(t0, n, n, n)
		e := ending
		e.Limit = 1
		s.same("head", s.end(at(20), e), 1)
		s.same("promoted", s.blocked(seqs[1:]...), []bool{false, true})
		e.Seqs = seqs[2:]
		s.same("a blocked one", s.end(at(20), e), 1)
		s.found("the one between", at(21), p, seqs[1])
	}},
	{"of jobs that end together all end first, then those behind are parked", func(s *flowScript) {
		n := keyed(job.KeyPark)
		n.Target = "x"
		late := n
		late.DueAt = at(500)
		seqs := s.add(t0, n, n, late)
		s.same("ended", s.end(at(20), ending), 2)
		s.inState(job.Failed, seqs[:2]...)
		s.same("told by the next turn", s.parkedBehind(at(21), s.process(at(21))), 1)
		s.same("behind", []any{s.job(seqs[2]).State, s.job(seqs[2]).Cause}, []any{job.Parked, job.HeadFailed})
	}},
	{"parked because its target was down: goes on with the attempts it had", func(s *flowScript) {
		p := s.process(t0)
		seq := s.heldJob(p, 42*time.Second)
		before := s.job(seq).History
		e := ending
		e.To, e.Cause, e.Any, e.Seqs = job.Parked, retry.CauseTargetDown, true, []int64{seq}
		for i, release := range []func(now time.Time){
			func(now time.Time) { s.must(s.Retry(s.ctx, now, "ann", seq)) },
			func(now time.Time) {
				s.redrive(now, store.Filter{State: job.Parked, Cause: retry.CauseTargetDown, Target: "x"}, 9)
			},
		} {
			now := at(float64(100 + 10*i))
			e.DueBy = now
			s.same("parked", s.end(now, e), 1)
			release(now)
			want := before
			want.Held = 0
			s.same("history", s.job(seq).History, want)
			lanes, err := s.Lanes(s.ctx, "x", 9)
			s.must(err)
			s.same("a retry to its gate", []int{lanes[0].Firsts, lanes[0].Retries}, []int{0, 1})
		}
		j := s.serveOne(at(200), p, "x")
		s.same("claimed", []any{j.Seq, j.History.Attempts, j.History.FirstStartAt}, []any{seq, before.Attempts, before.FirstStartAt})
	}},
	{"what a job was held for is remembered until it is queued anew", func(s *flowScript) {
		p := s.process(t0)
		seq := s.add(t0, to("x"))[0]
		st := again(s.serveOne(t0, p, "x"), t0, 0)
		st.History.Held, st.Attempt.Held, st.Attempt.HeldBy = 42*time.Second, 40*time.Second, "breaker"
		s.settled(t0, p, st)
		s.same("queued", s.job(seq).History.Held, 42*time.Second)
		row := s.ledger(seq)[0]
		s.same("ledger", []any{row.HeldBy, row.Held}, []any{"breaker", 40 * time.Second})
		j := s.serveOne(at(1), p, "x")
		s.same("claimed", j.History.Held, 42*time.Second)
		s.settled(at(1), p, ended(j, at(1), job.Failed, retry.CauseFatal))
		s.same("failed", s.job(seq).History.Held, 42*time.Second)
		s.must(s.Retry(s.ctx, at(2), "ann", seq))
		s.same("fresh", s.job(seq).History.Held, time.Duration(0))
	}},
	{"jobs that were held before, by number", func(s *flowScript) {
		p := s.process(t0)
		s.heldJob(p, 0)
		a, b := s.heldJob(p, time.Second), s.heldJob(p, time.Millisecond)
		list := func(after int64, limit int) []int64 {
			jobs, err := s.HeldBefore(s.ctx, "x", after, limit)
			s.must(err)
			return seqsOf(jobs)
		}
		s.same("all", list(0, 9), []int64{a, b})
		s.same("one", list(0, 1), []int64{a})
		s.same("the next", list(a, 9), []int64{b})
		jobs, err := s.HeldBefore(s.ctx, "x", a, 9)
		s.must(err)
		s.same("whole", plainBytes(jobs[0]), plainBytes(s.job(b)))
		s.same("of another", len(func() []job.Job { j, _ := s.HeldBefore(s.ctx, "y", 0, 9); return j }()), 0)
		s.cancel(at(5), a)
		s.same("queued only", list(0, 9), []int64{b})
	}},
}

// restore brings an ended job back to how it waited: a retry or not, held or
// not, due at second 0 or when told.
func (s *flowScript) restore(process int64, seq int64, second, held bool, due time.Time) {
	s.Helper()
	s.must(s.Retry(s.ctx, at(-100), "ann", seq))
	j := s.serveOne(at(-100), process, "x")
	s.same("restored", j.Seq, seq)
	if due.IsZero() {
		due = t0
	}
	st := store.Settle{Ref: refOf(j), To: job.Queued, Delay: due.Sub(at(-100)), History: j.History}
	if second {
		st.History = st.History.Started(at(-100))
	}
	if held {
		st.History.Held = time.Second
	}
	s.settled(at(-100), process, st)
}
