package storetest

import (
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// Enqueues with targets and keys inside the user's own transaction.
var flowTxRules = []flowTxRule{
	{"a look comes with the commit", func(s *flowTxScript) {
		p := s.process(t0)
		tx := s.tx.begin()
		seq := s.tx.addTx(tx, to("x"))[0].Seq
		s.must(tx.Commit())
		s.found("found", t0, p, seq)
	}},
	{"a settle promotes when it commits", func(s *flowTxScript) {
		p := s.process(t0)
		seqs := s.addKeyed(t0, "", 2)
		j := s.next("head", t0, p, seqs[0])
		for _, commit := range []bool{false, true} {
			tx := s.tx.begin()
			ok, err := s.SettleTx(s.ctx, tx.Join, at(1), p, succeeded(j[0], at(1)))
			s.must(err)
			s.same("applied", ok, true)
			if !commit {
				s.must(tx.Rollback())
				s.same("blocked", s.blocked(seqs...), []bool{false, true})
				continue
			}
			s.must(tx.Commit())
			s.next("promoted", at(1), p, seqs[1])
		}
	}},
	{"a rolled back enqueue blocks nobody", func(s *flowTxScript) {
		p := s.process(t0)
		tx := s.tx.begin()
		s.tx.addTx(tx, keyed(""))
		s.must(tx.Rollback())
		seqs := s.addKeyed(t0, "", 1)
		s.next("head", t0, p, seqs[0])
	}},
	{"a refused unique key refuses its batch", func(s *flowTxScript) {
		s.add(t0, job.New{Kind: "mail", Unique: "u"})
		tx := s.tx.begin()
		_, err := s.EnqueueTx(s.ctx, tx.Join, t0, []job.New{plain, {Kind: "mail", Unique: "u", Conflict: job.ConflictRefuse}})
		s.refused(err, store.ErrUnique)
		s.must(tx.Rollback())
		s.same("counts", s.counts(job.DefaultQueue), map[job.State]int64{job.Queued: 1})
	}},
	{"a replacement is seen after the commit", func(s *flowTxScript) {
		seq := s.add(t0, job.New{Kind: "mail", Unique: "u", Args: []byte("old")})[0]
		n := job.New{Kind: "mail", Unique: "u", Args: []byte("new"), Conflict: job.ConflictReplace}
		for _, commit := range []bool{false, true} {
			tx := s.tx.begin()
			s.same("answer", s.tx.addTx(tx, n), []store.Enqueued{{Seq: seq, Existing: true}})
			want := "old"
			if commit {
				want = "new"
				s.must(tx.Commit())
			} else {
				s.must(tx.Rollback())
			}
			s.same("args", string(s.job(seq).Args), want)
		}
	}},
}

var concurrentFlowTxRules = []flowTxRule{
	{"a late commit is never stranded by a look that has moved on", func(s *flowTxScript) {
		p := s.process(t0)
		tx := s.tx.begin()
		late := s.tx.addTx(tx, to("x"))[0].Seq
		for i := range 5 { // others come, are found and end; the looks move
			seq := s.add(at(float64(i)), to("x"))[0]
			j := s.found("beside", at(float64(i)), p, seq)
			s.settled(at(float64(i)), p, succeeded(j[0], at(float64(i))))
		}
		s.add(at(5), dueAt(at(5000)))
		s.found("nothing due", at(6), p)
		s.must(tx.Commit())
		if due := s.nextDue(); due.IsZero() || due.After(at(6)) {
			s.Fatalf("next due %s, want by now", due)
		}
		s.found("the late one", at(6), p, late)
	}},
	{"a late commit behind a shut gate is found when it opens", func(s *flowTxScript) {
		p := s.process(t0)
		s.add(t0, to("x"))
		s.shut(t0, p, at(30), store.NoLimit)
		tx := s.tx.begin()
		late := s.tx.addTx(tx, to("x"))[0].Seq
		s.found("shut", at(1), p)
		s.must(tx.Commit())
		jobs := s.discover(at(30), p)
		s.same("open", []any{len(jobs), jobs[len(jobs)-1].Seq}, []any{2, late})
	}},
	{"of one key the earlier enqueue goes first, though it commits later", func(s *flowTxScript) {
		p := s.process(t0)
		tx := s.tx.begin()
		first := s.tx.addTx(tx, keyed(""))[0].Seq
		second := make(chan int64)
		failed := make(chan error, 1)
		go func() { // on some stores it waits for the commit
			answers, err := s.Enqueue(s.ctx, at(1), []job.New{keyed("")})
			if failed <- err; err == nil {
				second <- answers[0].Seq
			}
		}()
		s.next("nobody yet", at(1), p)
		s.must(tx.Commit())
		s.must(<-failed)
		later := <-second
		j := s.next("the first", at(2), p, first)
		s.settled(at(2), p, succeeded(j[0], at(2)))
		s.next("the second", at(2), p, later)
	}},
	{"a settle never waits for an open enqueue of its key", func(s *flowTxScript) {
		p := s.process(t0)
		seqs := s.addKeyed(t0, "", 2)
		j := s.next("head", t0, p, seqs[0])
		tx := s.tx.begin()
		last := s.tx.addTx(tx, keyed(""))[0].Seq
		s.settled(at(1), p, succeeded(j[0], at(1)))
		s.must(tx.Commit())
		for _, seq := range []int64{seqs[1], last} {
			jobs := s.workOff(at(2), p)
			s.same("in order", seqsOf(jobs), []int64{seq})
			s.settled(at(2), p, succeeded(jobs[0], at(2)))
		}
	}},
	{"an open enqueue that is rolled back lets later ones go", func(s *flowTxScript) {
		p := s.process(t0)
		tx := s.tx.begin()
		s.tx.addTx(tx, keyed(""))
		done := make(chan error)
		go func() {
			_, err := s.Enqueue(s.ctx, at(1), []job.New{keyed("")})
			done <- err
		}()
		s.must(tx.Rollback())
		s.must(<-done)
		s.same("claimed", len(s.claim(at(2), p, 9)), 1)
	}},
}

// workOff claims plainly, in as many turns and steps of maintenance as a note
// left behind may need.
func (s *flowTxScript) workOff(now time.Time, process int64) []job.Job {
	s.Helper()
	for range 3 {
		if jobs := s.claim(now, process, 9); len(jobs) > 0 {
			return jobs
		}
		s.maintain(store.Maintenance{Now: now, Limit: 100})
	}
	return nil
}
