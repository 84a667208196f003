package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

type commandTag = pgconn.CommandTag

// errMoved says that a job changed its table while it was looked for.
var errMoved = errors.New("the job moves faster than it can be found; try once more")

// record leaves an audit row.
func record(ctx context.Context, tx pgx.Tx, now time.Time, actor, act, what, detail string) error {
	_, err := tx.Exec(ctx, statement("record"), nullable(store.Instant(now)), actor, act, what, detail)
	return err
}

// search calls f, which looks at one table after the other and reports whether
// it found the job, until it has or the job is in none. Between two looks a
// job may move to a table that was looked at before.
func (s *Store) search(ctx context.Context, seq int64, f func(tx pgx.Tx) (bool, error)) error {
	for range 10 {
		found, exists := false, false
		err := s.inTx(ctx, func(tx pgx.Tx) (err error) {
			if found, err = f(tx); found || err != nil {
				return err
			}
			return tx.QueryRow(ctx, statement("exists"), seq).Scan(&exists)
		})
		switch {
		case err != nil || found:
			return err
		case !exists:
			return store.ErrNotFound
		}
	}
	return errMoved
}

// Cancel ends a waiting job and orders a running one to stop.
func (s *Store) Cancel(ctx context.Context, now time.Time, actor string, seq int64) (job.State, error) {
	at := nullable(store.Instant(now))
	left := job.Cancelled
	var behind []store.EndCount
	err := s.search(ctx, seq, func(tx pgx.Tx) (bool, error) {
		var running bool
		err := tx.QueryRow(ctx, statement("order_cancel"), seq).Scan(&running)
		switch {
		case err == nil && running:
			left = job.Running
		case err == nil:
			_, err = tx.Exec(ctx, statement("end_ordered"), at)
		case errors.Is(err, pgx.ErrNoRows):
			tag, err := tx.Exec(ctx, statement("cancel_parked"), at, seq)
			if err != nil {
				return false, err
			}
			if tag.RowsAffected() == 0 {
				left, err = refuse(ctx, tx, "cancel", seq)
				return false, err
			}
		}
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return false, err
		}
		if left != job.Running {
			if err := promoteAll(ctx, tx, store.Instant(now), &behind); err != nil {
				return false, err
			}
		}
		return true, record(ctx, tx, now, actor, "job.cancel", job.FormatID(seq), "")
	})
	if err == nil {
		s.untold.Add(behind)
	}
	return left, failed("cancel", err)
}

// refuse returns the state of a job that has ended, and the error that says
// so; neither if it has not.
func refuse(ctx context.Context, tx pgx.Tx, what string, seq int64) (job.State, error) {
	var state job.State
	err := tx.QueryRow(ctx, statement("state"), seq).Scan(&state)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return "", nil
	case err != nil:
		return "", err
	case state == job.Queued || state == job.Parked, state == job.Running && what == "cancel", state == job.Failed && what == "retry":
		return "", nil // it moved just now: look again
	}
	return state, fmt.Errorf("store: %s: %s is %s: %w", what, job.FormatID(seq), state, store.ErrState)
}

// Retry queues a job again, or makes a waiting one due now.
func (s *Store) Retry(ctx context.Context, now time.Time, actor string, seq int64) error {
	at := nullable(store.Instant(now))
	var behind []store.EndCount
	err := s.search(ctx, seq, func(tx pgx.Tx) (bool, error) {
		tag, err := tx.Exec(ctx, statement("due_now"), seq, at)
		if err != nil {
			return false, err
		}
		found := tag.RowsAffected() > 0
		if !found {
			if found, err = revive(ctx, tx, at, seq); err != nil {
				return false, err
			}
		}
		if !found {
			_, err := refuse(ctx, tx, "retry", seq)
			return false, err
		}
		if err := promoteAll(ctx, tx, store.Instant(now), &behind); err != nil {
			return false, err
		}
		return true, record(ctx, tx, now, actor, "job.retry", job.FormatID(seq), "")
	})
	if err == nil {
		s.untold.Add(behind)
		s.wakes.now()
	}
	return failed("retry", err)
}

// revive queues a failed or parked job again. A failed one needs its unique
// key back.
func revive(ctx context.Context, tx pgx.Tx, at any, seq int64) (bool, error) {
	tag, err := tx.Exec(ctx, statement("revive_parked"), at, []int64{seq})
	if err != nil || tag.RowsAffected() > 0 {
		return err == nil, err
	}
	var unique *string
	switch err := tx.QueryRow(ctx, statement("dead_key"), seq).Scan(&unique); {
	case errors.Is(err, pgx.ErrNoRows):
		return false, nil
	case err != nil:
		return false, err
	}
	if unique != nil {
		taken, err := tx.Exec(ctx, statement("take_keys"), []string{*unique}, []int64{seq})
		if err != nil {
			return false, err
		}
		if taken.RowsAffected() == 0 {
			return false, fmt.Errorf("store: retry: %s: its unique key %q is taken by a living job: %w", job.FormatID(seq), *unique, store.ErrState)
		}
	}
	tag, err = tx.Exec(ctx, statement("revive_dead"), at, []int64{seq})
	return tag.RowsAffected() > 0, err
}

// PauseQueue holds a queue back or lets it go.
func (s *Store) PauseQueue(ctx context.Context, now time.Time, actor, queue string, paused bool) error {
	act := "queue.resume"
	if paused {
		act = "queue.pause"
	}
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, statement("pause_queue"), queue, paused); err != nil {
			return err
		}
		return record(ctx, tx, now, actor, act, queue, "")
	})
	if err == nil && !paused {
		s.wakes.now()
	}
	return failed(act, err)
}

// Audit lists the acts of operators, newest first.
func (s *Store) Audit(ctx context.Context, limit int) ([]store.AuditRow, error) {
	rows, err := s.pool.Query(ctx, statement("audit"), limit)
	if err != nil {
		return nil, failed("audit", err)
	}
	var list []store.AuditRow
	err = eachRow(rows, func(r *row) error {
		list = append(list, store.AuditRow{At: r.instant(), Actor: r.text(), Act: r.word(), What: r.text(), Detail: r.text()})
		return nil
	})
	return list, failed("audit", err)
}
