package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// noteRest is how soon a turn follows one that saw notes of keys: they wait for
// an enqueue that is open.
const noteRest = 50 * time.Millisecond

// maxKeyed bounds what is remembered of leases that end elsewhere.
const maxKeyed = 1 << 17

// leasedKey remembers that a lease of a job with a key was given out: the turn
// that ends it finds the key's head anew. One that it does not know of, because
// another Store gave it out, leaves a note to a later turn.
func (s *Store) leasedKey(j *job.Job) {
	if j.Key == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.keyed) >= maxKeyed {
		clear(s.keyed)
	}
	s.keyed[j.Seq] = true
}

// hasKey reports whether the job of a lease is known to have a key. It stays
// known: the transaction that asks may be rolled back.
func (s *Store) hasKey(seq int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keyed[seq]
}

// endsKeyed reports whether a lease of a job with a key ends.
func (s *Store) endsKeyed(settles []store.Settle, releases []store.Ref) (some bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.keyed) == 0 {
		return false
	}
	end := func(seq int64) {
		some = some || s.keyed[seq]
		delete(s.keyed, seq)
	}
	for i := range settles {
		if !settles[i].Keep {
			end(settles[i].Seq)
		}
	}
	for _, ref := range releases {
		end(ref.Seq)
	}
	return some
}

// promote works the notes of keys off: those of this turn, and those that were
// left by others.
func (w *turning) promote() {
	w.worked = true
	w.batch.Queue(statement("take_notes"), nil)
	w.query("park_behind", nil, endsInto(&w.behind, job.Parked, job.HeadFailed))
	w.batch.Queue(statement("demote"))
	w.query("promote", []any{nullable(w.now)}, func(r *row) error {
		w.lower(r)
		w.promoted = true
		return nil
	})
}

// promoteAll is promote in a transaction of an operator's. What it parks is
// told by the next turn, if the transaction is committed.
func promoteAll(ctx context.Context, tx pgx.Tx, now time.Time, behind *[]store.EndCount) error {
	b := &pgx.Batch{}
	queuePromote(b, now, behind)
	return tx.SendBatch(ctx, b).Close()
}

// queuePromote adds the statements that work notes off.
func queuePromote(b *pgx.Batch, now time.Time, behind *[]store.EndCount) {
	b.Queue(statement("take_notes"), nil)
	b.Queue(statement("park_behind")).Query(endRows(behind, job.Parked, job.HeadFailed))
	b.Queue(statement("demote"))
	b.Queue(statement("promote"), nullable(now))
}

// promoteIn works the notes of one job off, in a transaction of the user's: no
// others, as whoever enqueues to their keys would wait for its end.
func promoteIn(ctx context.Context, r runner, now time.Time, seq int64) error {
	if err := r.exec(ctx, statement("take_notes"), []int64{seq}); err != nil {
		return err
	}
	for _, name := range []string{"park_behind", "demote"} {
		if err := r.exec(ctx, statement(name)); err != nil {
			return err
		}
	}
	return r.exec(ctx, statement("promote"), nullable(now))
}

// endsInto reads what a statement that fails or parks waiting jobs answers.
func endsInto(list *[]store.EndCount, to job.State, cause job.Cause) func(r *row) error {
	return func(r *row) error {
		*list = append(*list, store.EndCount{
			To: to, Cause: cause, Kind: r.word(), Queue: r.word(), Target: r.text(), Policy: r.word(), Untried: r.flag(), Count: int(r.number()),
		})
		return nil
	}
}

func endRows(list *[]store.EndCount, to job.State, cause job.Cause) func(pgx.Rows) error {
	return func(rows pgx.Rows) error { return eachRow(rows, endsInto(list, to, cause)) }
}
