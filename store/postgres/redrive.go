package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// Matching counts what a redrive would move.
func (s *Store) Matching(ctx context.Context, f store.Filter, limit int) (int, error) {
	if err := store.CheckRedrive(f); err != nil {
		return 0, err
	}
	sql, args := filtered("matching", f, limit)
	n := 0
	err := s.pool.QueryRow(ctx, sql, args...).Scan(&n)
	return n, failed("matching", err)
}

// StartRedrive remembers the order; steps carry it out.
func (s *Store) StartRedrive(ctx context.Context, now time.Time, r store.Redrive) (store.Redrive, error) {
	if err := store.CheckRedrive(r.Filter); err != nil {
		return r, err
	}
	filter, err := json.Marshal(r.Filter)
	if err != nil {
		return r, failed("redrive", err)
	}
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		row := tx.QueryRow(ctx, statement("start_redrive"), nullable(store.Instant(now)), r.Rate, r.Actor, filter)
		if err := row.Scan(&r.ID, &r.CreatedAt); err != nil {
			return err
		}
		return record(ctx, tx, now, r.Actor, "dead.redrive", strconv.FormatInt(r.ID, 10), r.Filter.String())
	})
	r.CreatedAt, r.DoneAt, r.Moved, r.Cursor = store.Instant(r.CreatedAt), time.Time{}, 0, 0
	return r, failed("redrive", err)
}

// redriven reads a redrive.
func (r *row) redriven() (d store.Redrive, err error) {
	d.ID, d.CreatedAt, d.DoneAt, d.Moved, d.Cursor = r.number(), r.instant(), r.instant(), r.number(), r.number()
	d.Rate, d.Actor = r.float(), r.text()
	return d, json.Unmarshal(r.json(), &d.Filter)
}

// StepRedrive moves up to n jobs in one transaction.
func (s *Store) StepRedrive(ctx context.Context, now time.Time, id int64, n int) (store.Redrive, error) {
	var d store.Redrive
	var before int64
	var behind []store.EndCount
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, statement("redrive"), id)
		if err != nil {
			return err
		}
		err = eachRow(rows, func(r *row) (err error) {
			d, err = r.redriven()
			return err
		})
		switch {
		case err != nil:
			return err
		case d.ID == 0:
			return fmt.Errorf("store: redrive %d: %w", id, store.ErrNotFound)
		case !d.DoneAt.IsZero():
			return nil
		}
		before = d.Moved
		return stepRedrive(ctx, tx, now, &d, n, &behind)
	})
	if err == nil {
		s.untold.Add(behind)
	}
	if err == nil && d.Moved > before {
		s.wakes.now()
	}
	return d, failed("redrive", err)
}

// stepRedrive looks at the n next jobs above the cursor and moves those that
// can be.
func stepRedrive(ctx context.Context, tx pgx.Tx, now time.Time, d *store.Redrive, n int, behind *[]store.EndCount) error {
	at := nullable(store.Instant(now))
	next, err := above(ctx, tx, d, n)
	if err != nil {
		return err
	}
	if d.Filter.State == job.Failed {
		err = keepHolders(ctx, tx, next)
	}
	if err != nil {
		return err
	}
	var seqs []int64
	for _, c := range next {
		d.Cursor = c.seq
		if !c.refused {
			seqs = append(seqs, c.seq)
		}
	}
	name := "revive_dead"
	if d.Filter.State == job.Parked {
		name = "revive_parked"
	}
	tag, err := tx.Exec(ctx, statement(name), at, seqs)
	if err != nil {
		return err
	}
	d.Moved += tag.RowsAffected()
	if err := promoteAll(ctx, tx, store.Instant(now), behind); err != nil {
		return err
	}
	left, err := above(ctx, tx, d, 1)
	if err != nil {
		return err
	}
	var done *time.Time
	row := tx.QueryRow(ctx, statement("step_redrive"), d.ID, d.Moved, d.Cursor, len(left) == 0, at)
	if err := row.Scan(&done); err != nil {
		return err
	}
	if done != nil {
		d.DoneAt = store.Instant(*done)
	}
	return nil
}

// candidate is a job that a redrive may move.
type candidate struct {
	seq     int64
	unique  string
	refused bool // its unique key is another's
}

// above returns the n next matching jobs.
func above(ctx context.Context, tx pgx.Tx, d *store.Redrive, n int) ([]*candidate, error) {
	sql, args := filteredAbove("above", d.Filter, d.Cursor, n)
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	var next []*candidate
	err = eachRow(rows, func(r *row) error {
		next = append(next, &candidate{seq: r.number(), unique: r.text()})
		return nil
	})
	return next, err
}

// keepHolders refuses candidates whose unique key was taken since: by a living
// job, or by one before them.
func keepHolders(ctx context.Context, tx pgx.Tx, next []*candidate) error {
	var keys []string
	var seqs []int64
	by := map[int64]*candidate{}
	for _, c := range next {
		if c.unique != "" {
			keys, seqs, c.refused = append(keys, c.unique), append(seqs, c.seq), true
			by[c.seq] = c
		}
	}
	if len(keys) == 0 {
		return nil
	}
	return pgxRunner{tx}.each(ctx, statement("take_keys"), []any{keys, seqs}, func(scan scan) error {
		var key string
		var seq int64
		if err := scan(&key, &seq); err != nil {
			return err
		}
		if by[seq] == nil {
			return errors.New("the database answered for a key that was not asked about")
		}
		by[seq].refused = false
		return nil
	})
}

// Redrives lists the unfinished, oldest first, then the newest done.
func (s *Store) Redrives(ctx context.Context, limit int) ([]store.Redrive, error) {
	rows, err := s.pool.Query(ctx, statement("redrives"), limit)
	if err != nil {
		return nil, failed("redrives", err)
	}
	var list []store.Redrive
	err = eachRow(rows, func(r *row) error {
		d, err := r.redriven()
		list = append(list, d)
		return err
	})
	return list, failed("redrives", err)
}
