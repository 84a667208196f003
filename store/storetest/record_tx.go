package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// writeTx writes inside the transaction what must be taken.
func (s *txScript) writeTx(tx Tx, w store.Write) []store.Enqueued {
	s.Helper()
	answers, err := s.WriteTx(s.ctx, tx.Join, t0, w)
	s.must(err)
	return answers
}

// puts is a write of records.
func puts(records ...store.Record) store.Write { return store.Write{Puts: records} }

var recordTxRules = []txRule{
	{"a write is seen after the commit, whole, and not before", func(s *txScript) {
		s.put(t0, endpoint("old", 0, "a"), endpoint("gone", 0, "b"))
		w := store.Write{
			Puts: []store.Record{endpoint("new", 0, "c"), endpoint("old", 1, "d")}, Drops: []store.Record{endpoint("gone", 1, "")},
			Jobs: []job.New{plain}, Audit: []store.AuditRow{{Actor: "ann", Act: "x"}},
		}
		for _, commit := range []bool{false, true} {
			tx := s.begin()
			answers := s.writeTx(tx, w)
			s.absent("new")
			s.same("old", s.read("endpoint", "old"), endpoint("old", 1, "a"))
			s.same("list", s.ids(store.RecordFilter{Kind: "endpoint", Limit: 9}), []string{"gone", "old"})
			if !commit {
				s.must(tx.Rollback())
				s.absent("new")
				s.nothingThere()
				continue
			}
			s.must(tx.Commit())
			s.same("list then", s.ids(store.RecordFilter{Kind: "endpoint", Limit: 9}), []string{"new", "old"})
			s.same("old then", s.read("endpoint", "old"), endpoint("old", 2, "d"))
			s.inState(job.Queued, answers[0].Seq)
		}
		rows, err := s.Audit(s.ctx, 9)
		s.must(err)
		s.same("audit", rows, []store.AuditRow{{At: t0, Actor: "ann", Act: "x"}})
	}},
	{"a receipt names the jobs of the transaction", func(s *txScript) {
		w := store.Write{
			Puts: []store.Record{endpoint("1", 0, "")}, Jobs: []job.New{plain},
			Receipt: func(answers []store.Enqueued) []byte { return fmt.Appendf(nil, "%v", answers) },
		}
		tx := s.begin()
		s.writeTx(tx, w)
		s.must(tx.Rollback())
		s.absent("1")
		tx = s.begin()
		answers := s.writeTx(tx, w)
		s.must(tx.Commit())
		s.same("receipt", s.read("endpoint", "1"), endpoint("1", 1, fmt.Sprint(answers)))
		s.inState(job.Queued, answers[0].Seq)
	}},
	{"a later write of the transaction sees the earlier", func(s *txScript) {
		tx := s.begin()
		s.writeTx(tx, puts(endpoint("1", 0, "a"), endpoint("2", 0, "a")))
		s.writeTx(tx, store.Write{Puts: []store.Record{endpoint("1", 1, "b")}, Drops: []store.Record{endpoint("2", 1, "")}})
		_, err := s.WriteTx(s.ctx, tx.Join, t0, puts(endpoint("2", 1, "late")))
		s.refused(err, store.ErrConflict)
		s.writeTx(tx, puts(endpoint("1", store.AnyVersion, "c"), endpoint("2", 0, "anew")))
		s.must(tx.Commit())
		s.same("1", s.read("endpoint", "1"), endpoint("1", 3, "c"))
		s.same("2", s.read("endpoint", "2"), endpoint("2", 1, "anew"))
	}},
	{"a refused write leaves the transaction as it was", func(s *txScript) {
		s.put(t0, endpoint("1", 0, "a"), endpoint("2", 0, "b"))
		tx := s.begin()
		s.writeTx(tx, puts(endpoint("0", 0, "first")))
		for _, w := range []store.Write{
			{Puts: []store.Record{endpoint("1", 1, "x"), endpoint("2", 7, "x")}, Jobs: []job.New{plain}, Audit: []store.AuditRow{{Act: "x"}}},
			{Puts: []store.Record{endpoint("0", 1, "x"), endpoint("2", 0, "x")}},
			{Puts: []store.Record{endpoint("0", 1, "x")}, Drops: []store.Record{endpoint("2", 2, "x")}},
		} {
			_, err := s.WriteTx(s.ctx, tx.Join, t0, w)
			s.refused(err, store.ErrConflict)
		}
		if _, err := s.WriteTx(s.ctx, tx.Join, t0, store.Write{Puts: []store.Record{endpoint("1", 1, "x")}, Jobs: []job.New{{}}}); err == nil {
			s.Fatal("a job without a kind was taken")
		}
		s.writeTx(tx, puts(endpoint("2", 1, "last")))
		s.must(tx.Commit())
		s.same("0", s.read("endpoint", "0"), endpoint("0", 1, "first"))
		s.same("1", s.read("endpoint", "1"), endpoint("1", 1, "a"))
		s.same("2", s.read("endpoint", "2"), endpoint("2", 2, "last"))
		s.nothingThere()
		rows, err := s.Audit(s.ctx, 9)
		s.must(err)
		s.same("audit", len(rows), 0)
	}},
	{"beside an enqueue and a settle of the transaction", func(s *txScript) {
		p := s.process(t0)
		s.addN(t0, 1)
		j := s.claimOne(t0, p)
		tx := s.begin()
		ok, err := s.SettleTx(s.ctx, tx.Join, t0, p, succeeded(j, t0))
		s.must(err)
		s.same("settled", ok, true)
		one := s.addTx(tx, job.New{Kind: "mail", Unique: "u"})[0]
		answers := s.writeTx(tx, store.Write{Puts: []store.Record{endpoint("1", 0, "")}, Jobs: []job.New{{Kind: "mail", Unique: "u"}, plain}})
		s.same("taken", answers[0], store.Enqueued{Seq: one.Seq, Existing: true})
		s.must(tx.Commit())
		s.inState(job.Succeeded, j.Seq)
		s.inState(job.Queued, one.Seq, answers[1].Seq)
		s.same("version", s.read("endpoint", "1").Version, int64(1))
	}},
	{"expiry by the write's now", func(s *txScript) {
		s.put(t0, until("1", 0, at(10)))
		tx := s.begin()
		_, err := s.WriteTx(s.ctx, tx.Join, at(9), puts(endpoint("1", 0, "")))
		s.refused(err, store.ErrConflict)
		_, err = s.WriteTx(s.ctx, tx.Join, at(10), puts(endpoint("1", 0, "anew")))
		s.must(err)
		s.must(tx.Commit())
		s.same("record", s.read("endpoint", "1"), endpoint("1", 1, "anew"))
	}},
	{"wakes after the commit", func(s *txScript) {
		wakes, err := s.Wakes(s.ctx)
		s.must(err)
		tx := s.begin()
		s.writeTx(tx, store.Write{Puts: []store.Record{endpoint("1", 0, "")}, Jobs: []job.New{plain}})
		s.must(tx.Commit())
		s.woken(wakes)
	}},
	{"of transactions that change a version one commits", func(s *txScript) {
		s.put(t0, endpoint("1", 0, ""))
		for v := range int64(10) {
			won := make([]bool, crowd)
			s.together(func(n int) error {
				tx := s.begin()
				_, err := s.WriteTx(s.ctx, tx.Join, t0, store.Write{Puts: []store.Record{endpoint("1", v+1, "")}, Jobs: []job.New{plain}})
				if err == nil {
					err = tx.Commit()
				} else if undo := tx.Rollback(); undo != nil {
					return undo
				}
				if won[n] = err == nil; errors.Is(err, store.ErrConflict) {
					err = nil
				}
				return err
			})
			s.same("won", trues(won), 1)
			s.same("version", s.read("endpoint", "1").Version, v+2)
		}
		s.same("jobs", s.counts(job.DefaultQueue), map[job.State]int64{job.Queued: 10})
	}},
	{"what is no transaction cannot be joined", func(s *txScript) {
		for _, foreign := range []any{nil, "tx", 7} {
			_, err := s.WriteTx(s.ctx, foreign, t0, store.Write{Puts: []store.Record{endpoint("1", 0, "")}, Jobs: []job.New{plain}})
			s.refused(err, store.ErrForeignTx)
			_, err = s.WriteTx(s.ctx, foreign, t0, store.Write{})
			s.refused(err, store.ErrForeignTx)
		}
		s.absent("1")
		s.nothingThere()
	}},
	{"a transaction that has ended cannot be joined", func(s *txScript) {
		tx := s.begin()
		s.must(tx.Commit())
		if _, err := s.WriteTx(s.ctx, tx.Join, t0, puts(endpoint("1", 0, ""))); err == nil {
			s.Fatal("joined")
		}
		s.absent("1")
	}},
}

func trues(all []bool) (n int) {
	for _, one := range all {
		if one {
			n++
		}
	}
	return n
}

var concurrentRecordTxRules = []txRule{
	{"who meets an open transaction's record gets it, or a conflict, when that has ended", func(s *txScript) {
		for _, commit := range []bool{true, false} {
			id := "rolled back"
			if commit {
				id = "committed"
			}
			first := s.begin()
			s.writeTx(first, puts(endpoint(id, 0, "first")))
			second := make(chan error, 1)
			go func() {
				tx := s.begin()
				_, err := s.WriteTx(s.ctx, tx.Join, t0, puts(endpoint(id, 0, "second")))
				if err == nil {
					err = tx.Commit()
				} else {
					err = errors.Join(err, tx.Rollback())
				}
				second <- err
			}()
			var one error
			if commit {
				one = first.Commit()
			} else {
				s.must(first.Rollback())
				one = store.ErrConflict
			}
			other := <-second
			for _, err := range []error{one, other} {
				if err != nil {
					s.refused(err, store.ErrConflict)
				}
			}
			if (one == nil) == (other == nil) {
				s.Fatalf("the first ended with %v, the second with %v", one, other)
			}
			want := "second"
			if one == nil {
				want = "first"
			}
			s.same("record", s.read("endpoint", id), endpoint(id, 1, want))
		}
	}},
	{"others read and write while a transaction is open", func(s *txScript) {
		tx := s.begin()
		s.writeTx(tx, puts(endpoint("1", 0, "")))
		s.put(t0, endpoint("2", 0, ""))
		s.same("list", s.ids(store.RecordFilter{Kind: "endpoint", Limit: 9}), []string{"2"})
		s.maintain(store.Maintenance{Now: at(1), Limit: 9})
		s.must(tx.Commit())
		s.same("list then", s.ids(store.RecordFilter{Kind: "endpoint", Limit: 9}), []string{"1", "2"})
	}},
	{"maintenance does not wait for a record that is being renewed", func(s *txScript) {
		now := s.clock()
		s.put(t0, until("1", 0, at(10)), until("2", 0, at(10)))
		tx := s.begin()
		s.writeTx(tx, puts(until("1", 1, now.Add(time.Hour))))
		s.maintain(store.Maintenance{Now: at(11), Limit: 9})
		err := tx.Commit()
		if err == nil {
			s.same("renewed", s.read("endpoint", "1"), until("1", 2, now.Add(time.Hour)))
		} else {
			s.refused(err, store.ErrConflict) // maintenance was first, where nobody waits
			s.absent("1")
		}
		s.same("dropped", s.there(at(9), "2"), false)
	}},
}
