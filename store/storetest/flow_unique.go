package storetest

import (
	"strings"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// lasting is a job whose unique key stays taken for a minute.
var lasting = job.New{Kind: "mail", Unique: "u", UniqueFor: time.Minute}

// finish claims the one job there is and ends it well.
func (s *flowScript) finish(now time.Time, process int64) {
	s.Helper()
	s.settled(now, process, succeeded(s.claimOne(now, process), now))
}

var uniqueRules = []flowRule{
	{"a key stays taken for its time, though its job has ended", func(s *flowScript) {
		p := s.process(t0)
		seq := s.add(t0, lasting)[0]
		s.finish(at(1), p)
		u := job.New{Kind: "mail", Unique: "u"}
		s.same("within", s.enqueueOne(at(59.999999), u), store.Enqueued{Seq: seq, Existing: true})
		next := s.enqueueOne(at(60), u)
		s.same("after", next.Existing || next.Seq == seq, false)
		s.finish(at(61), p)
		again := s.enqueueOne(at(61), u)
		s.same("the later one has no time of its own", again.Existing, false)
	}},
	{"a key whose job lives on stays taken beyond its time", func(s *flowScript) {
		seq := s.add(t0, lasting)[0]
		s.same("later", s.enqueueOne(at(3600), lasting), store.Enqueued{Seq: seq, Existing: true})
	}},
	{"whatever the job ended as", func(s *flowScript) {
		p := s.process(t0)
		cancelled, failed := lasting, lasting
		cancelled.Unique, failed.Unique = "c", "f"
		seqs := s.add(t0, cancelled, failed)
		s.cancel(at(1), seqs[0])
		s.settled(at(1), p, ended(s.claimOne(at(1), p), at(1), job.Failed, retry.CauseFatal))
		s.same("cancelled", s.enqueueOne(at(2), cancelled), store.Enqueued{Seq: seqs[0], Existing: true})
		s.same("failed", s.enqueueOne(at(2), failed), store.Enqueued{Seq: seqs[1], Existing: true})
	}},
	{"a redrive of the job that took the key is not in its own way", func(s *flowScript) {
		p := s.process(t0)
		seq := s.add(t0, lasting)[0]
		s.settled(at(1), p, ended(s.claimOne(at(1), p), at(1), job.Failed, retry.CauseFatal))
		s.must(s.Retry(s.ctx, at(2), "ann", seq))
		s.inState(job.Queued, seq)
	}},
	{"scope: the queue, the kind", func(s *flowScript) {
		inQueue := job.New{Kind: "mail", Unique: "u", UniqueScope: job.UniqueInQueue}
		bulk := inQueue
		bulk.Queue = "bulk"
		first := s.add(t0, inQueue, bulk, job.New{Kind: "mail", Unique: "u"})
		s.same("same queue", s.enqueueOne(t0, inQueue), store.Enqueued{Seq: first[0], Existing: true})
		inKind := job.New{Kind: "mail", Queue: "bulk", Unique: "u", UniqueScope: job.UniqueInKind}
		other := inKind
		other.Kind = "other"
		second := s.add(t0, inKind, other)
		inKind.Queue = ""
		s.same("same kind", s.enqueueOne(t0, inKind), store.Enqueued{Seq: second[0], Existing: true})
	}},
	{"scope, time and conflict are not remembered", func(s *flowScript) {
		n := lasting
		n.UniqueScope, n.Conflict = job.UniqueInKind, job.ConflictRefuse
		j := s.job(s.add(t0, n)[0])
		s.same("job", []any{j.UniqueFor, j.UniqueScope, j.Conflict, strings.HasSuffix(j.Unique, "u")},
			[]any{time.Duration(0), job.UniqueEverywhere, job.ConflictKeep, true})
	}},
	{"replace changes a job that has not started", replaceRule},
	{"replace keeps a job that started, runs or has ended", func(s *flowScript) {
		p := s.process(t0)
		seq := s.add(t0, job.New{Kind: "mail", Unique: "u", UniqueFor: time.Hour, Args: []byte("old")})[0]
		n := job.New{Kind: "mail", Unique: "u", Conflict: job.ConflictReplace, Args: []byte("new")}
		kept := func(what string) {
			s.Helper()
			before := s.job(seq)
			s.same(what, s.enqueueOne(at(1), n), store.Enqueued{Seq: seq, Existing: true})
			s.same(what+": as it was", s.job(seq), before)
		}
		j := s.claimOne(t0, p)
		kept("running")
		s.settled(t0, p, again(j, t0, 0))
		kept("started once")
		s.settled(at(1), p, succeeded(s.claimOne(at(1), p), at(1)))
		kept("succeeded")
	}},
	{"replace within a batch", func(s *flowScript) {
		a, b := job.New{Kind: "mail", Unique: "u", Args: []byte("a")}, job.New{Kind: "mail", Unique: "u", Args: []byte("b"), Conflict: job.ConflictReplace}
		answers, err := s.Enqueue(s.ctx, t0, []job.New{a, b})
		s.must(err)
		s.same("one job", []bool{answers[0].Existing, answers[1].Existing, answers[0].Seq == answers[1].Seq}, []bool{false, true, true})
		s.same("args", string(s.job(answers[0].Seq).Args), "b")
	}},
	{"refuse fails the whole enqueue", func(s *flowScript) {
		seq := s.add(t0, job.New{Kind: "mail", Unique: "u"})[0]
		_, err := s.Enqueue(s.ctx, t0, []job.New{plain, {Kind: "mail", Unique: "u", Conflict: job.ConflictRefuse}})
		s.refused(err, store.ErrUnique)
		for _, part := range []string{`"u"`, job.FormatID(seq)} {
			if !strings.Contains(err.Error(), part) {
				s.Errorf("%q does not name %s", err, part)
			}
		}
		s.same("counts", s.counts(job.DefaultQueue), map[job.State]int64{job.Queued: 1})
		s.cancel(at(1), seq)
		s.add(at(1), job.New{Kind: "mail", Unique: "u", Conflict: job.ConflictRefuse})
	}},
}

// replaceRule: the content is new, the place is not.
func replaceRule(s *flowScript) {
	p := s.process(t0)
	old := job.New{
		Kind: "mail", Target: "x", Key: "k", Unique: "u", Policy: "one", Priority: 5, DueAt: at(600),
		DeadlineAt: at(700), Batch: "b1", Args: []byte("old"), Trace: "t1",
	}
	seqs := s.add(t0, old, job.New{Kind: "mail", Key: "k"})
	n := job.New{
		Kind: "other", Queue: "bulk", Target: "y", Key: "k2", Unique: "u", Conflict: job.ConflictReplace, Policy: "two", Priority: 2,
		DueAt: at(10), DeadlineAt: at(50), Batch: "b2", Args: []byte("new"), Trace: "t2",
	}
	want := s.job(seqs[0])
	s.same("answer", s.enqueueOne(at(1), n), store.Enqueued{Seq: seqs[0], Existing: true})
	want.Args, want.Policy, want.Priority, want.DueAt, want.DeadlineAt = n.Args, n.Policy, n.Priority, n.DueAt, n.DeadlineAt
	want.Batch, want.Trace, want.History.DeadlineAt = n.Batch, n.Trace, n.DeadlineAt
	s.same("job", s.job(seqs[0]), want)
	s.found("too early", at(9), p)
	s.found("at its new due time", at(10), p, seqs[0])
	s.same("blocked", s.blocked(seqs[1]), []bool{true})
	s.maintain(store.Maintenance{Now: at(100), Limit: 10})
	s.inState(job.Running, seqs[0])
}
