package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ebbhq/ebb/store"
)

// Record returns the record.
func (s *Store) Record(ctx context.Context, kind, id string) (store.Record, error) {
	if err := store.CheckRecord(kind, id); err != nil {
		return store.Record{}, err
	}
	list, err := s.recordsOf(ctx, statement("record_one"), kind, id)
	if err != nil {
		return store.Record{}, failed("record", err)
	}
	if len(list) == 0 {
		return store.Record{}, store.NoRecord(kind, id)
	}
	return list[0], nil
}

// orderly keeps the next statement of the transaction from gathering the rows
// first and sorting them then, as it would while a table has no statistics.
const orderly = "SELECT set_config('enable_bitmapscan', 'off', true)"

func (s *Store) recordsOf(ctx context.Context, sql string, args ...any) (list []store.Record, err error) {
	b := &pgx.Batch{}
	b.Queue(orderly)
	b.Queue(sql, args...).Query(func(rows pgx.Rows) error {
		return eachRow(rows, func(r *row) error {
			found := store.Record{Kind: r.word(), ID: r.text(), Ref: r.word(), Version: r.number(), ExpiresAt: r.instant()}
			if body := r.bytes(); len(body) > 0 {
				found.Body = body
			}
			list = append(list, found)
			return nil
		})
	})
	err = s.send(ctx, b)
	return list, err
}

// Records lists the records of a kind.
func (s *Store) Records(ctx context.Context, f store.RecordFilter) ([]store.Record, error) {
	if err := f.Check(); err != nil || f.Limit <= 0 {
		return nil, err
	}
	sql, args := recordList(f)
	list, err := s.recordsOf(ctx, sql, args...)
	return list, failed("records", err)
}

// recordList is the statement of a list: only what the filter names is asked,
// so that each question has a plan of its own.
func recordList(f store.RecordFilter) (sql string, args []any) {
	name, beyond := "records_up", "id > ?"
	if f.Down {
		name, beyond = "records_down", "id < ?"
	}
	w := &where{args: []any{f.Limit}}
	w.and("kind = ?", f.Kind)
	if f.Ref != "" {
		w.and("ref = ?", f.Ref)
	}
	if f.After != "" {
		w.and(beyond, f.After)
	}
	return w.build(name, "")
}

// Write changes records, enqueues and notes, all or nothing.
func (s *Store) Write(ctx context.Context, now time.Time, w store.Write) ([]store.Enqueued, error) {
	changes, err := w.Changes()
	if err != nil {
		return nil, err
	}
	jobs, err := prepare(now, w.Jobs)
	if err != nil {
		return nil, err
	}
	// Now, and not while a transaction holds one of the pool's connections:
	// many would wait for another and none let go of its own.
	if err := s.ensureQueues(ctx, jobs); err != nil {
		return nil, failed("write", err)
	}
	var answers []store.Enqueued
	var refused error
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		answers, refused = s.carryOut(ctx, tx, pgxRunner{tx}, now, changes, &w)
		return refused
	})
	if refused != nil {
		return nil, refused
	}
	if err != nil {
		return nil, failed("write", err)
	}
	return answers, nil
}

// WriteTx is Write when tx commits: a pgx.Tx, or a *sql.Tx of pgx's stdlib.
func (s *Store) WriteTx(ctx context.Context, tx any, now time.Time, w store.Write) ([]store.Enqueued, error) {
	changes, err := w.Changes()
	if err != nil {
		return nil, err
	}
	r, err := joined(ctx, tx)
	if err != nil {
		return nil, err
	}
	if _, err := prepare(now, w.Jobs); err != nil {
		return nil, err
	}
	if err := r.exec(ctx, "SAVEPOINT ebb_write"); err != nil {
		return nil, failed("write", err)
	}
	answers, err := s.carryOut(ctx, tx, r, now, changes, &w)
	if err != nil {
		if undo := r.exec(ctx, "ROLLBACK TO SAVEPOINT ebb_write"); undo != nil {
			return nil, errors.Join(err, failed("write: undo", undo))
		}
		answers = nil
	}
	return answers, errors.Join(err, failed("write", r.exec(ctx, "RELEASE SAVEPOINT ebb_write")))
}

// carryOut does the write in the transaction, which r runs.
func (s *Store) carryOut(ctx context.Context, tx any, r runner, now time.Time, changes []store.Change, w *store.Write) ([]store.Enqueued, error) {
	for i := range changes {
		if err := change(ctx, r, now, &changes[i]); errors.Is(err, store.ErrConflict) {
			return nil, err
		} else if err != nil {
			return nil, failed("write", foreign(err))
		}
	}
	var answers []store.Enqueued
	if len(w.Jobs) > 0 {
		var err error
		if answers, err = s.EnqueueTx(ctx, tx, now, w.Jobs); err != nil {
			return nil, err
		}
	}
	if err := putReceipt(ctx, r, changes, w, answers); err != nil {
		return nil, failed("write", foreign(err))
	}
	at := nullable(store.Instant(now))
	for _, a := range w.Audit {
		if err := r.exec(ctx, statement("record"), at, a.Actor, a.Act, a.What, a.Detail); err != nil {
			return nil, failed("write", foreign(err))
		}
	}
	return answers, nil
}

// change puts or drops one record. Each statement compares the version under
// the row's lock: one that changes nothing found another.
func change(ctx context.Context, r runner, now time.Time, c *store.Change) error {
	var name string
	args := []any{nullable(store.Instant(now)), c.Kind, c.ID}
	switch {
	case c.Drop:
		name, args = "record_drop", append(args, c.Version)
	case c.Version > 0:
		name, args = "record_replace", append(args, c.Ref, nullable(c.ExpiresAt), notNull(c.Body), c.Version)
	default:
		name, args = "record_put", append(args, c.Ref, nullable(c.ExpiresAt), notNull(c.Body), c.Version == store.AnyVersion)
	}
	version := func(name string, args []any) (found int64, err error) {
		err = r.each(ctx, statement(name), args, func(scan scan) error { return scan(&found) })
		return found, err
	}
	changed, err := version(name, args)
	if err != nil || changed > 0 || c.Version == store.AnyVersion {
		return err
	}
	found, err := version("record_version", args[:3])
	if err != nil {
		return err
	}
	return c.Conflict(found)
}

// putReceipt gives the receipt's record its body, now that the jobs have
// their numbers.
func putReceipt(ctx context.Context, r runner, changes []store.Change, w *store.Write, answers []store.Enqueued) error {
	for i := range changes {
		if c := &changes[i]; c.Receipt {
			return r.exec(ctx, statement("record_body"), c.Kind, c.ID, notNull(w.Receipt(answers)))
		}
	}
	return nil
}

// notNull is how a body is sent.
func notNull(body []byte) []byte {
	if body == nil {
		return []byte{}
	}
	return body
}

// expireRecords drops records that have ended, and counts them off.
func (s *Store) expireRecords(ctx context.Context, now time.Time, left *int64) error {
	if *left <= 0 {
		return nil
	}
	tag, err := s.pool.Exec(ctx, statement("records_expire"), nullable(store.Instant(now)), *left)
	*left -= tag.RowsAffected()
	return err
}
