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
	store   *Store
	rows    []*row
	settles []stagedSettle
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
	rows, answers, err := s.stage(now, jobs, t.rows)
	t.rows = append(t.rows, rows...)
	return answers, err
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
// lease or a unique key is another's by now.
func (t *Tx) Commit() error {
	s := t.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.ended {
		return errTxDone
	}
	t.ended = true
	for _, r := range t.rows {
		if _, taken := s.holder(r.job.Unique, nil); taken {
			return errConflict
		}
	}
	for _, st := range t.settles {
		if s.leased(st.process, st.Ref) == nil {
			return errConflict
		}
	}
	for _, r := range t.rows {
		s.add(r)
	}
	for _, st := range t.settles {
		if r := s.leased(st.process, st.Ref); r != nil {
			s.settle(r, st.now, st.process, st.Settle)
		}
	}
	return nil
}

// Rollback forgets everything. After Commit it does nothing.
func (t *Tx) Rollback() error {
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	t.ended = true
	return nil
}
