package memory

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// errTxDone is returned for a transaction that has ended.
var errTxDone = errors.New("memory: the transaction has ended")

// errConflict is returned by Commit where somebody else was faster.
var errConflict = errors.New("memory: the transaction's rows were changed by another; begin anew")

// Tx is a transaction that Enqueue and Settle can join. What it writes is
// seen by nobody before Commit, although sequence numbers are given at once:
// as in a database, a job may commit after a later one.
type Tx struct {
	store *Store
	staged
	settles []stagedSettle
	writes  []write
	ended   bool
}

type stagedSettle struct {
	now     time.Time
	process int64
	store.Settle
}

// Begin opens a transaction.
func (s *Store) Begin() *Tx { return &Tx{store: s} }

// joined returns the transaction if it is one of this store. The lock is held.
func (s *Store) joined(tx any) (*Tx, error) {
	t, ok := tx.(*Tx)
	if !ok || t.store != s {
		return nil, fmt.Errorf("memory: %T: only a *memory.Tx of the same store can be joined: %w", tx, store.ErrForeignTx)
	}
	if t.ended {
		return nil, errTxDone
	}
	return t, nil
}

// EnqueueTx adds jobs when tx, a *Tx, commits.
func (s *Store) EnqueueTx(ctx context.Context, tx any, now time.Time, jobs []job.New) ([]store.Enqueued, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	t, err := s.joined(tx)
	if err != nil {
		return nil, err
	}
	return s.stageTx(t, now, jobs)
}

// stageTx stages jobs in an open transaction.
func (s *Store) stageTx(t *Tx, now time.Time, jobs []job.New) ([]store.Enqueued, error) {
	st, err := s.stage(now, jobs, t.rows)
	if err != nil {
		return nil, err
	}
	for _, r := range st.rows {
		r.pending = true
		s.lineUp(r) // later ones of its key wait for this transaction
	}
	t.rows, t.replaces = append(t.rows, st.rows...), append(t.replaces, st.replaces...)
	return st.answers, nil
}

// SettleTx settles when tx, a *Tx, commits.
func (s *Store) SettleTx(ctx context.Context, tx any, now time.Time, process int64, st store.Settle) (bool, error) {
	if err := store.CheckSettles([]store.Settle{st}); err != nil {
		return false, err
	}
	if err := s.begin(ctx); err != nil {
		return false, err
	}
	defer s.mu.Unlock()
	t, err := s.joined(tx)
	if err != nil {
		return false, err
	}
	if s.leased(process, st.Ref) == nil {
		return false, nil
	}
	t.settles = append(t.settles, stagedSettle{now: s.at(now), process: process, Settle: st})
	return true, nil
}

// Commit makes everything visible at once, or nothing: an error says that a
// lease, a unique key or a record is another's by now.
func (t *Tx) Commit() error {
	s := t.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.ended {
		return errTxDone
	}
	t.ended = true
	s.asOf = time.Time{}
	over, err := s.replay(t.writes)
	if err == nil && t.conflicts() {
		err = errConflict
	}
	if err != nil {
		t.forget()
		return err
	}
	s.carryOut(over, t.writes)
	s.commit(t.staged)
	for _, st := range t.settles {
		if r := s.leased(st.process, st.Ref); r != nil {
			s.asOf = store.Instant(st.now)
			s.settle(r, st.now, st.process, st.Settle)
		}
	}
	return nil
}

// conflicts reports whether another was faster.
func (t *Tx) conflicts() bool {
	s := t.store
	for _, r := range t.rows {
		if _, taken := s.holder(r.job.Unique, nil, r.job.EnqueuedAt); taken != 0 {
			return true
		}
	}
	for _, rep := range t.replaces {
		if s.uniques[rep.Unique] != rep.row || !replaceable(&rep.row.job) {
			return true
		}
	}
	for _, st := range t.settles {
		if s.leased(st.process, st.Ref) == nil {
			return true
		}
	}
	return false
}

// forget lets go of what the transaction kept waiting.
func (t *Tx) forget() {
	for _, r := range t.rows {
		t.store.stepOut(r)
		t.store.promote(keyOf(r))
	}
}

// Rollback forgets everything. After Commit it does nothing.
func (t *Tx) Rollback() error {
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	if !t.ended {
		t.ended = true
		t.store.asOf = time.Time{}
		t.forget()
	}
	return nil
}
