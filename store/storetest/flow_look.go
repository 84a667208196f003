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
		seq := s.add(t0, until("x", at(30)))[0]
		s.found("a microsecond early", at(30).Add(-time.Microsecond), p)
		s.found("on time", at(30), p, seq)
	}},
	{"a look in vain waits for the next due time", func(s *flowScript) {
		p := s.process(t0)
		seqs := s.add(t0, until("x", at(30)), until("x", at(50)))
		if due := s.nextDue(); due.IsZero() || due.After(at(30)) {
			s.Fatalf("next due %s, want until %s", due, at(30))
		}
		s.cancel(at(1), seqs[0])
		s.found("the cancelled", at(30), p)
		s.same("next due", s.nextDue(), at(50))
		s.found("the other", at(50), p, seqs[1])
		s.same("nothing left", s.nextDue(), time.Time{})
	}},
	{"an earlier job brings its own look", func(s *flowScript) {
		p := s.process(t0)
		s.add(t0, until("x", at(60)))
		s.found("nothing yet", at(1), p)
		early := s.add(at(1), until("x", at(10)))[0]
		if due := s.nextDue(); due.After(at(10)) {
			s.Fatalf("next due %s, want until %s", due, at(10))
		}
		s.found("early", at(9), p)
		s.found("due", at(10), p, early)
	}},
	{"a job whose due time passed long ago is found at once", func(s *flowScript) {
		p := s.process(t0)
		seq := s.add(t0, until("x", at(-3600)))[0]
		s.found("found", t0, p, seq)
	}},
	{"everything that makes a job queued brings its look", lookOfEveryWay},
	{"the rest after a claim that left due jobs behind", func(s *flowScript) {
		p, q := s.process(t0), s.process(t0)
		seqs := s.add(t0, to("x"), to("x"), to("x"), to("x"))
		c := everything
		c.Limit = 1
		s.same("first", seqsOf(s.lanes(t0, p, c).Claimed), seqs[:1])
		s.found("while it rests", t0.Add(store.LaneRest-time.Microsecond), q)
		s.same("by name", seqsOf(s.serve(t0, p, "x", 1)), seqs[1:2])
		s.found("after the rest", t0.Add(store.LaneRest), q, seqs[2:]...)
	}},
	{"no rest after a claim that left nothing due behind", func(s *flowScript) {
		p := s.process(t0)
		seqs := s.add(t0, to("x"), until("x", at(0.5)))
		s.found("first", t0, p, seqs[0])
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
		seq := s.add(t0, until("x", at(60)))[0]
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
		s.add(t0, until("x", at(40)), job.New{Kind: "other", Target: "x", DueAt: at(20)}, job.New{Kind: "mail", DueAt: at(50)})
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
		later := s.add(t0, until("x", at(60)))[0]
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

// lookOfEveryWay holds a lane for a day, makes a job of it queued in every
// way there is, and finds the job.
func lookOfEveryWay(s *flowScript) {
	p := s.process(t0)
	day := at(86400)
	// One of each part keeps the lane, and so its hold, in place.
	keep := s.add(t0, to("x"), until("x", day))
	s.settled(t0, p, again(s.serveOne(t0, p, "x"), t0, 24*time.Hour))
	now := t0
	claimed := func() job.Job { // a fresh one, leased
		s.Helper()
		s.add(now, job.New{Kind: "mail", Target: "x", Priority: 1})
		return s.serveOne(now, p, "x")
	}
	failed := func(to job.State, cause job.Cause) job.Job {
		s.Helper()
		j := claimed()
		s.settled(now, p, ended(j, now, to, cause))
		return j
	}
	for _, way := range []struct {
		name string
		do   func() (prepare int64, queue func())
	}{
		{"enqueue", func() (int64, func()) { return 0, func() { s.add(now, to("x")) } }},
		{"settle", func() (int64, func()) {
			j := claimed()
			return j.Seq, func() { s.settled(now, p, again(j, now, 0)) }
		}},
		{"settle unspent", func() (int64, func()) {
			j := claimed()
			return j.Seq, func() {
				s.settled(now, p, store.Settle{Ref: refOf(j), To: job.Queued, History: j.History})
			}
		}},
		{"release", func() (int64, func()) {
			j := claimed()
			return j.Seq, func() { s.turn(store.Turn{Process: p, Now: now, Release: []store.Ref{refOf(j)}}) }
		}},
		{"reap", func() (int64, func()) {
			doomed := s.process(now)
			seq := s.add(now, job.New{Kind: "mail", Target: "x", Priority: 1})[0]
			s.serveOne(now, doomed, "x")
			return seq, func() { s.reap(now, doomed, crashed(now)) }
		}},
		{"redrive", func() (int64, func()) {
			j := failed(job.Failed, retry.CauseFatal)
			return j.Seq, func() { s.redrive(now, store.Filter{State: job.Failed, Seqs: []int64{j.Seq}}, 10) }
		}},
		{"retry of a dead letter", func() (int64, func()) {
			j := failed(job.Failed, retry.CauseFatal)
			return j.Seq, func() { s.must(s.Retry(s.ctx, now, "ann", j.Seq)) }
		}},
		{"retry of a waiting job", func() (int64, func()) {
			seq := s.add(now, until("x", day))[0]
			return seq, func() { s.must(s.Retry(s.ctx, now, "ann", seq)) }
		}},
		{"a new config", func() (int64, func()) {
			j := failed(job.Parked, retry.CauseConfig)
			return j.Seq, func() {
				_, err := s.Register(s.ctx, now, store.Process{Kinds: []string{"mail"}, Config: "new"})
				s.must(err)
			}
		}},
		{"promotion", func() (int64, func()) {
			keyed := job.New{Kind: "mail", Target: "x", Key: "k"}
			head := keyed
			head.Priority = 1
			seqs := s.add(now, head, keyed)
			j := s.serveOne(now, p, "x")
			return seqs[1], func() { s.settled(now, p, succeeded(j, now)) }
		}},
	} {
		now = now.Add(time.Minute)
		seq, queue := way.do()
		s.hold(now, p, "x", false, day)
		s.same(way.name+": held", len(s.discover(now, p)), 0)
		queue()
		got := seqsOf(s.discover(now, p))
		if len(got) != 1 || seq != 0 && got[0] != seq || s.job(got[0]).State != job.Running {
			s.Fatalf("%s: discovery found %v, want %d", way.name, got, seq)
		}
	}
	s.inState(job.Queued, keep...)
}
