package storetest

import (
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// What makes discovery look at a lane, and what keeps it from that.
var lookRules = []flowRule{
	{"never before the due time, and then", func(s *flowScript) {
		p := s.process(t0)
		seq := s.add(t0, dueAt(at(30)))[0]
		s.found("a microsecond early", at(30).Add(-time.Microsecond), p)
		s.found("on time", at(30), p, seq)
	}},
	{"a look in vain waits for the next due time", func(s *flowScript) {
		p := s.process(t0)
		seqs := s.add(t0, dueAt(at(30)), dueAt(at(50)))
		if due := s.nextDue(); due.IsZero() || due.After(at(30)) {
			s.Fatalf("next due %s, want until %s", due, at(30))
		}
		s.cancel(at(1), seqs[0])
		s.found("the cancelled", at(30), p)
		s.same("next due", s.nextDue(), at(50))
		s.found("the other", at(50), p, seqs[1])
		s.found("in vain", at(51), p)
		s.same("nothing left", s.nextDue(), time.Time{})
	}},
	{"an earlier job brings its own look", func(s *flowScript) {
		p := s.process(t0)
		s.add(t0, dueAt(at(60)))
		s.found("nothing yet", at(1), p)
		early := s.add(at(1), dueAt(at(10)))[0]
		if due := s.nextDue(); due.After(at(10)) {
			s.Fatalf("next due %s, want until %s", due, at(10))
		}
		s.found("early", at(9), p)
		s.found("due", at(10), p, early)
	}},
	{"a job whose due time passed long ago is found at once", func(s *flowScript) {
		p := s.process(t0)
		seq := s.add(t0, dueAt(at(-3600)))[0]
		s.found("found", t0, p, seq)
	}},
	{"everything that makes a job queued brings its look", lookOfEveryWay},
	{"the rest after a claim that left due jobs behind", func(s *flowScript) {
		p, q := s.process(t0), s.process(t0)
		seqs := s.add(t0, to("x"), to("x"), to("x"), to("x"))
		c := everything
		c.Limit = 1
		answer := s.lanes(t0, p, c)
		s.same("first", seqsOf(answer.Claimed), seqs[:1])
		s.same("left", answer.Left, []store.LaneName{{Queue: job.DefaultQueue, Target: "x"}})
		s.found("while it rests", t0.Add(store.LaneRest-time.Microsecond), q)
		s.same("by name", seqsOf(s.serve(t0, p, "x", 1)), seqs[1:2])
		s.found("after the rest", t0.Add(store.LaneRest), q, seqs[2:]...)
	}},
	{"no rest after a claim that left nothing due behind", func(s *flowScript) {
		p := s.process(t0)
		seqs := s.add(t0, to("x"), dueAt(at(0.5)))
		answer := s.lanes(t0, p, everything)
		s.same("first", seqsOf(answer.Claimed), seqs[:1])
		s.same("left", len(answer.Left), 0)
		s.found("second, within the rest of another", at(0.5), p, seqs[1])
	}},
	{"a claim by name leaves due jobs to discovery", func(s *flowScript) {
		p := s.process(t0)
		seqs := s.add(t0, to("x"), to("x"))
		s.serveOne(t0, p, "x")
		s.found("after a rest at the latest", t0.Add(store.LaneRest), p, seqs[1])
	}},
	{"a hold of the whole lane", func(s *flowScript) {
		p := s.process(t0)
		first, second := s.firstAndRetry(p)
		s.hold(at(1), p, "x", false, at(30))
		s.same("next due", s.nextDue(), at(30))
		s.found("held", at(29.999999), p)
		s.found("over", at(30), p, first, second)
	}},
	{"a hold of retries alone", func(s *flowScript) {
		p := s.process(t0)
		first, second := s.firstAndRetry(p)
		s.hold(at(1), p, "x", true, at(30))
		s.found("first attempts alone", at(1), p, first)
		s.found("held", at(29), p)
		s.found("over", at(30), p, second)
	}},
	{"a hold never makes a look earlier", func(s *flowScript) {
		p := s.process(t0)
		seq := s.add(t0, dueAt(at(60)))[0]
		s.found("in vain", t0, p)
		s.hold(at(1), p, "x", false, at(10))
		s.same("next due", s.nextDue(), at(60))
		s.hold(at(1), p, "x", false, at(90))
		s.hold(at(1), p, "x", false, at(70))
		s.found("held", at(89), p)
		s.found("over", at(90), p, seq)
	}},
	{"a hold of another lane, or of one that is empty, holds nothing", func(s *flowScript) {
		p := s.process(t0)
		s.hold(t0, p, "x", false, at(60))
		seq := s.add(t0, to("x"))[0]
		s.hold(t0, p, "y", false, at(60))
		s.turn(store.Turn{Process: p, Now: t0, Holds: []store.LaneHold{{Queue: "bulk", Target: "x", Until: at(60)}}})
		s.found("found", t0, p, seq)
	}},
	{"kinds are looked at apart", func(s *flowScript) {
		p := s.process(t0, "a", "b")
		seqs := s.add(t0, job.New{Kind: "a", Target: "x"}, job.New{Kind: "b", Target: "x"}, job.New{Kind: "b", Target: "x"})
		c := everything
		c.Kinds, c.Limit = []string{"b"}, 1
		s.same("b", seqsOf(s.lanes(t0, p, c).Claimed), seqs[1:2])
		c.Kinds = []string{"a"}
		s.same("a, while b rests", seqsOf(s.lanes(t0, p, c).Claimed), seqs[:1])
		c.Kinds = []string{"a", "b"}
		s.same("both", seqsOf(s.lanes(t0.Add(store.LaneRest), p, c).Claimed), seqs[2:])
	}},
	{"what a claim cannot take keeps its look", func(s *flowScript) {
		p := s.process(t0)
		first, second := s.firstAndRetry(p)
		c := everything
		c.Retries = 0
		s.same("no retries", seqsOf(s.lanes(at(1), p, c).Claimed), []int64{first})
		c.Firsts, c.Retries = 0, 5
		s.same("retries", seqsOf(s.lanes(at(1), p, c).Claimed), []int64{second})
	}},
	{"next due: kinds, queues and pauses", func(s *flowScript) {
		s.add(t0, dueAt(at(40)), job.New{Kind: "other", Target: "x", DueAt: at(20)}, job.New{Kind: "mail", DueAt: at(50)})
		p := s.process(t0, "mail", "other")
		c := everything
		c.Kinds = []string{"mail", "other"}
		s.same("nothing due", len(s.lanes(t0, p, c).Claimed), 0)
		s.same("mail", s.nextDue(), at(40))
		s.same("both", s.nextDue("mail", "other"), at(20))
		s.must(s.PauseKind(s.ctx, t0, "ann", "other", true))
		s.same("other is paused", s.nextDue("mail", "other"), at(40))
		s.must(s.PauseQueue(s.ctx, t0, "ann", job.DefaultQueue, true))
		s.same("all is paused", s.nextDue("mail", "other"), time.Time{})
	}},
	{"a deadline that has passed is not looked for", func(s *flowScript) {
		p := s.process(t0)
		s.add(t0, job.New{Kind: "mail", Target: "x", DeadlineAt: at(5)})
		later := s.add(t0, dueAt(at(60)))[0]
		s.found("passed", at(6), p)
		s.found("the next", at(60), p, later)
	}},
}

// firstAndRetry leaves a first attempt and, due after it, a retry waiting for
// x, both due by second 1.
func (s *flowScript) firstAndRetry(process int64) (first, second int64) {
	s.Helper()
	second = s.add(t0, to("x"))[0]
	j := s.serveOne(t0, process, "x")
	s.settled(t0, process, again(j, t0, time.Second))
	first = s.add(t0, to("x"))[0]
	return first, second
}

// heldLane is a lane of x that is held for a day, in which jobs become queued.
type heldLane struct {
	*flowScript
	process int64
	now     time.Time
}

// claimed enqueues a job and leases it.
func (l *heldLane) claimed() job.Job {
	l.Helper()
	l.add(l.now, job.New{Kind: "mail", Target: "x", Priority: 1})
	return l.serveOne(l.now, l.process, "x")
}

// ended is a claimed one that ended.
func (l *heldLane) ended(to job.State, cause job.Cause) int64 {
	l.Helper()
	j := l.claimed()
	l.settled(l.now, l.process, ended(j, l.now, to, cause))
	return j.Seq
}

// ways are all that make a job queued: each prepares one and returns what
// queues it.
var ways = []struct {
	name string
	do   func(l *heldLane) (seq int64, queue func())
}{
	{"settle", func(l *heldLane) (int64, func()) {
		j := l.claimed()
		return j.Seq, func() { l.settled(l.now, l.process, again(j, l.now, 0)) }
	}},
	{"settle unspent", func(l *heldLane) (int64, func()) {
		j := l.claimed()
		return j.Seq, func() {
			l.settled(l.now, l.process, store.Settle{Ref: refOf(j), To: job.Queued, History: j.History})
		}
	}},
	{"release", func(l *heldLane) (int64, func()) {
		j := l.claimed()
		return j.Seq, func() { l.turn(store.Turn{Process: l.process, Now: l.now, Release: []store.Ref{refOf(j)}}) }
	}},
	{"reap", func(l *heldLane) (int64, func()) {
		doomed := heldLane{flowScript: l.flowScript, process: l.flowScript.process(l.now), now: l.now}
		return doomed.claimed().Seq, func() { l.reap(l.now, doomed.process, crashed(l.now)) }
	}},
	{"redrive", func(l *heldLane) (int64, func()) {
		seq := l.ended(job.Failed, retry.CauseFatal)
		return seq, func() { l.redrive(l.now, store.Filter{State: job.Failed, Seqs: []int64{seq}}, 10) }
	}},
	{"retry of a dead letter", func(l *heldLane) (int64, func()) {
		seq := l.ended(job.Failed, retry.CauseFatal)
		return seq, func() { l.must(l.Retry(l.ctx, l.now, "ann", seq)) }
	}},
	{"retry of a waiting job", func(l *heldLane) (int64, func()) {
		seq := l.add(l.now, dueAt(at(86400)))[0]
		return seq, func() { l.must(l.Retry(l.ctx, l.now, "ann", seq)) }
	}},
	{"a new config", func(l *heldLane) (int64, func()) {
		return l.ended(job.Parked, retry.CauseConfig), func() {
			_, err := l.Register(l.ctx, l.now, store.Process{Kinds: []string{"mail"}, Config: "new"})
			l.must(err)
		}
	}},
	{"promotion", func(l *heldLane) (int64, func()) {
		n := job.New{Kind: "mail", Target: "x", Key: "k", Priority: 1}
		seqs := l.add(l.now, n, n)
		j := l.serveOne(l.now, l.process, "x")
		return seqs[1], func() { l.settled(l.now, l.process, succeeded(j, l.now)) }
	}},
}

// lookOfEveryWay holds a lane for a day, makes a job of it queued in every
// way there is, and finds the job.
func lookOfEveryWay(s *flowScript) {
	day := at(86400)
	l := &heldLane{flowScript: s, process: s.process(t0), now: t0}
	// One of each part keeps the lane, and so its hold, in place.
	keep := s.add(t0, to("x"), dueAt(day))
	s.settled(t0, l.process, again(s.serveOne(t0, l.process, "x"), t0, 24*time.Hour))
	for _, way := range ways {
		l.now = l.now.Add(time.Minute)
		seq, queue := way.do(l)
		s.hold(l.now, l.process, "x", false, day)
		s.found(way.name+": held", l.now, l.process)
		queue()
		s.found(way.name, l.now, l.process, seq)
	}
	l.now = l.now.Add(time.Minute)
	s.hold(l.now, l.process, "x", false, day)
	s.found("enqueue", l.now, l.process, s.add(l.now, to("x"))[0])
	s.inState(job.Queued, keep...)
}
