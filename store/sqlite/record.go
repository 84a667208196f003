package sqlite

import (
	"context"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// Record returns the record.
func (s *Store) Record(ctx context.Context, kind, id string) (store.Record, error) {
	if err := store.CheckRecord(kind, id); err != nil {
		return store.Record{}, err
	}
	var found store.Record
	err := s.read(ctx, "record", false, func(c *conn) error {
		r, err := c.one(ctx, "record", kind, id, clock())
		if err != nil {
			return err
		}
		if r == nil {
			return store.NoRecord(kind, id)
		}
		found = readRecord(r)
		return nil
	})
	return found, err
}

// clock is the database's own time, as it is stored.
func clock() any { return micros(store.Instant(time.Now())) }

func readRecord(r row) store.Record {
	found := store.Record{Kind: r.text(0), ID: r.text(1), Ref: r.text(2), Version: r.int(3), ExpiresAt: r.at(4)}
	if body := r.bytes(5); len(body) > 0 {
		found.Body = body
	}
	return found
}

// Records lists the records of a kind.
func (s *Store) Records(ctx context.Context, f store.RecordFilter) ([]store.Record, error) {
	if err := f.Check(); err != nil || f.Limit <= 0 {
		return nil, err
	}
	name, args := "records_up", []any{f.Kind, orNull(f.After), clock(), int64(f.Limit)}
	if f.Down {
		name = "records_down"
	}
	if f.Ref != "" {
		name, args = name+"_ref", append(args, f.Ref)
	}
	var list []store.Record
	err := s.read(ctx, "records", false, func(c *conn) error {
		return c.query(ctx, name, args, func(r row) error {
			list = append(list, readRecord(r))
			return nil
		})
	})
	return list, err
}

// writing is a write that passed its checks.
type writing struct {
	changes []store.Change
	jobs    []job.New
	audit   []store.AuditRow
	receipt func([]store.Enqueued) []byte
}

func checkedWrite(now time.Time, w *store.Write) (*writing, error) {
	changes, err := w.Changes()
	if err != nil {
		return nil, err
	}
	jobs, err := prepare(now, w.Jobs)
	return &writing{changes, jobs, w.Audit, w.Receipt}, err
}

// Write changes records, enqueues and notes, all or nothing.
func (s *Store) Write(ctx context.Context, now time.Time, w store.Write) ([]store.Enqueued, error) {
	now = at(now)
	work, err := checkedWrite(now, &w)
	if err != nil {
		return nil, err
	}
	var answers []store.Enqueued
	err = s.write(ctx, "write", now, func(t *tx) (err error) {
		answers, err = t.carryOut(work)
		return err
	})
	if err != nil {
		return nil, err
	}
	return answers, nil
}

// WriteTx is Write inside transaction, a *sql.Tx of DB.
func (s *Store) WriteTx(ctx context.Context, transaction any, now time.Time, w store.Write) ([]store.Enqueued, error) {
	now = at(now)
	work, err := checkedWrite(now, &w)
	if err != nil {
		return nil, err
	}
	var answers []store.Enqueued
	err = s.join(ctx, "write", transaction, now, func(t *tx) (err error) {
		t.timeless = true
		answers, err = t.carryOut(work)
		return err
	})
	if err != nil {
		return nil, err
	}
	return answers, nil
}

func (t *tx) carryOut(w *writing) ([]store.Enqueued, error) {
	for i := range w.changes {
		if err := t.change(&w.changes[i]); err != nil {
			return nil, err
		}
	}
	var answers []store.Enqueued
	if len(w.jobs) > 0 {
		var err error
		if answers, err = t.enqueue(w.jobs); err != nil {
			return nil, err
		}
	}
	if err := t.putReceipt(w, answers); err != nil {
		return nil, err
	}
	for _, a := range w.audit {
		if err := t.audit(a.Actor, a.Act, a.What, a.Detail); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

// change puts or drops one record. The write lock is held, so nobody moves
// its version after it was compared.
func (t *tx) change(c *store.Change) error {
	version := int64(0)
	found, err := t.one(t.ctx, "record_version", c.Kind, c.ID, micros(t.instant()))
	if err != nil {
		return err
	}
	if found != nil {
		version = found.int(0)
	}
	if err := c.Check(version); err != nil {
		return err
	}
	if c.Drop {
		_, err = t.run("record_drop", c.Kind, c.ID)
	} else {
		_, err = t.run("record_put", c.Kind, c.ID, orNull(c.Ref), version+1, micros(c.ExpiresAt), orEmpty(c.Body))
	}
	return err
}

// putReceipt gives the receipt's record its body, now that the jobs have
// their numbers.
func (t *tx) putReceipt(w *writing, answers []store.Enqueued) error {
	for i := range w.changes {
		if c := &w.changes[i]; c.Receipt {
			_, err := t.run("record_body", c.Kind, c.ID, orEmpty(w.receipt(answers)))
			return err
		}
	}
	return nil
}

// expireRecords drops records that have ended, and counts them off.
func (t *tx) expireRecords(left *int) error {
	if *left <= 0 {
		return nil
	}
	n, err := t.run("records_expire", micros(t.instant()), int64(*left))
	*left -= int(n)
	return err
}
