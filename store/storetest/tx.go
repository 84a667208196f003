package storetest

import (
	"testing"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// Tx is a user's own transaction.
type Tx struct {
	Join             any // what EnqueueTx and SettleTx take
	Commit, Rollback func() error
}

// Joinable is a store with the transactions that can join it.
type Joinable struct {
	store.Store
	Begin func() Tx
	// Concurrent says that others may write while a transaction is open; a
	// database with one writer cannot.
	Concurrent bool
}

// RunTx states what holds for enqueues and settles inside the user's own
// transaction.
func RunTx(t *testing.T, open func(t *testing.T) Joinable) {
	for _, r := range txRules {
		t.Run(r.name, func(t *testing.T) { runTx(t, open, r.run) })
	}
	if probe := open(t); !probe.Concurrent {
		return
	}
	for _, r := range concurrentTxRules {
		t.Run(r.name, func(t *testing.T) { runTx(t, open, r.run) })
	}
}

type txRule struct {
	name string
	run  func(s *txScript)
}

type txScript struct {
	*script
	begin func() Tx
}

func runTx(t *testing.T, open func(t *testing.T) Joinable, run func(*txScript)) {
	defer failOnPanic(t)
	j := open(t)
	run(&txScript{script: &script{T: t, Store: j.Store, ctx: t.Context()}, begin: j.Begin})
}

// addTx enqueues inside the transaction.
func (s *txScript) addTx(tx Tx, jobs ...job.New) []store.Enqueued {
	s.Helper()
	answers, err := s.EnqueueTx(s.ctx, tx.Join, t0, jobs)
	s.must(err)
	return answers
}

var txRules = []txRule{
	{"an enqueue is seen after the commit, not before", func(s *txScript) {
		tx := s.begin()
		answers := s.addTx(tx, plain, job.New{Kind: "mail", Queue: "q"})
		list, err := s.List(s.ctx, store.Filter{}, store.Page{Limit: 10})
		s.must(err)
		s.same("before", len(list), 0)
		s.must(tx.Commit())
		s.inState(job.Queued, answers[0].Seq, answers[1].Seq)
		p := s.process(t0)
		s.same("claimed", seqsOf(s.claim(t0, p, 9)), []int64{answers[0].Seq})
		s.same("counts", s.counts("q"), map[job.State]int64{job.Queued: 1})
	}},
	{"a rollback leaves nothing", func(s *txScript) {
		tx := s.begin()
		s.addTx(tx, job.New{Kind: "mail", Unique: "u"})
		s.must(tx.Rollback())
		s.nothingThere()
		s.add(t0, job.New{Kind: "mail", Unique: "u"})
	}},
	{"unique keys hold inside a transaction", func(s *txScript) {
		u, v := job.New{Kind: "mail", Unique: "u"}, job.New{Kind: "mail", Unique: "v"}
		seq := s.add(t0, u)[0]
		tx := s.begin()
		s.same("taken", s.addTx(tx, u), []store.Enqueued{{Seq: seq, Existing: true}})
		first := s.addTx(tx, v)[0]
		s.same("taken by the transaction itself", s.addTx(tx, v), []store.Enqueued{{Seq: first.Seq, Existing: true}})
		s.must(tx.Commit())
		s.same("counts", s.counts(job.DefaultQueue), map[job.State]int64{job.Queued: 2})
	}},
	{"a bad job refuses its batch", func(s *txScript) {
		tx := s.begin()
		if _, err := s.EnqueueTx(s.ctx, tx.Join, t0, []job.New{plain, {}}); err == nil {
			s.Fatal("accepted")
		}
		s.must(tx.Rollback())
		s.nothingThere()
	}},
	{"wakes after the commit", func(s *txScript) {
		wakes, err := s.Wakes(s.ctx)
		s.must(err)
		tx := s.begin()
		s.addTx(tx, plain)
		s.must(tx.Commit())
		s.woken(wakes)
	}},
	{"a settle and an enqueue become durable together", func(s *txScript) {
		p := s.process(t0)
		seq := s.addN(t0, 1)[0]
		j := s.claimOne(t0, p)
		st := succeeded(j, at(1))
		st.Result = []byte("r")
		for _, commit := range []bool{false, true} {
			tx := s.begin()
			ok, err := s.SettleTx(s.ctx, tx.Join, at(1), p, st)
			s.must(err)
			s.same("applied", ok, true)
			next := s.addTx(tx, job.New{Kind: "next"})[0].Seq
			s.inState(job.Running, seq)
			if !commit {
				s.must(tx.Rollback())
				s.same("after the rollback", s.job(seq), j)
				s.same("ledger", len(s.ledger(seq)), 0)
				continue
			}
			s.must(tx.Commit())
			s.inState(job.Succeeded, seq)
			s.inState(job.Queued, next)
			s.same("ledger", s.ledger(seq), []job.Attempt{*st.Attempt})
			s.same("result", s.job(seq).Result, []byte("r"))
			s.same("counts", s.counts(job.DefaultQueue), map[job.State]int64{job.Succeeded: 1, job.Queued: 1})
		}
		s.same("sent again", s.settle(at(2), p, st), []bool{false})
	}},
	{"a settle to any state", func(s *txScript) {
		p := s.process(t0)
		for _, to := range []struct {
			state job.State
			cause job.Cause
		}{{job.Queued, ""}, {job.Failed, retry.CauseFatal}, {job.Parked, retry.CauseConfig}, {job.Cancelled, ""}} {
			seq := s.addN(t0, 1)[0]
			st := ended(s.claimOne(t0, p), t0, to.state, to.cause)
			st.Delay = 60e9
			tx := s.begin()
			ok, err := s.SettleTx(s.ctx, tx.Join, t0, p, st)
			s.must(err)
			s.same("applied", ok, true)
			s.must(tx.Commit())
			s.inState(to.state, seq)
			s.same("ledger", len(s.ledger(seq)), 1)
		}
	}},
	{"a stale settle answers false, the transaction goes on", func(s *txScript) {
		p, q := s.process(t0), s.process(t0)
		seq := s.addN(t0, 1)[0]
		j := s.claimOne(t0, p)
		old := j
		old.Epoch--
		tx := s.begin()
		for _, late := range []struct {
			process int64
			j       job.Job
		}{{p, old}, {q, j}, {1 << 40, j}} {
			ok, err := s.SettleTx(s.ctx, tx.Join, t0, late.process, succeeded(late.j, t0))
			s.must(err)
			s.same("applied", ok, false)
		}
		next := s.addTx(tx, plain)[0].Seq
		s.must(tx.Commit())
		s.inState(job.Running, seq)
		s.inState(job.Queued, next)
	}},
	{"an illegal transition is refused", func(s *txScript) {
		p := s.process(t0)
		s.addN(t0, 1)
		j := s.claimOne(t0, p)
		tx := s.begin()
		_, err := s.SettleTx(s.ctx, tx.Join, t0, p, store.Settle{Ref: refOf(j), To: job.Failed})
		s.refused(err, store.ErrState)
		s.must(tx.Rollback())
	}},
	{"what is no transaction cannot be joined", func(s *txScript) {
		for _, foreign := range []any{nil, "tx", 7} {
			_, err := s.EnqueueTx(s.ctx, foreign, t0, []job.New{plain})
			s.refused(err, store.ErrForeignTx)
			_, err = s.SettleTx(s.ctx, foreign, t0, 1, store.Settle{To: job.Succeeded})
			s.refused(err, store.ErrForeignTx)
		}
		s.nothingThere()
	}},
}

var concurrentTxRules = []txRule{
	{"a late commit is never stranded", func(s *txScript) {
		p := s.process(t0)
		tx := s.begin()
		late := s.addTx(tx, plain, job.New{Kind: "mail", Priority: 9})
		// Later ones commit first, are claimed and end.
		for range 5 {
			s.addN(at(1), 3)
			for _, j := range s.claim(at(1), p, 9) {
				s.settled(at(1), p, succeeded(j, at(1)))
			}
		}
		s.same("nothing due", len(s.claim(at(1), p, 9)), 0)
		s.must(tx.Commit())
		s.same("claimed", seqsOf(s.claim(at(2), p, 9)), []int64{late[0].Seq, late[1].Seq})
	}},
	{"a late commit among waiting jobs comes in its order", func(s *txScript) {
		p := s.process(t0)
		tx := s.begin()
		late := s.addTx(tx, plain)[0].Seq
		seqs := s.addN(t0, 3)
		s.same("first", seqsOf(s.claim(t0, p, 1)), seqs[:1])
		s.must(tx.Commit())
		s.same("then", seqsOf(s.claim(t0, p, 9)), []int64{late, seqs[1], seqs[2]})
	}},
}
