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

// Who changes where a queue's jobs wait needs a moment in which nobody else
// writes jobs. It waits for it briefly and again, because whoever comes after
// it waits too.
const (
	lockWait  = "SET LOCAL lock_timeout = 200"
	lockTries = 50
	lockRest  = 100 * time.Millisecond
)

// rearrange changes a queue's row and moves its jobs to where they belong then.
func (s *Store) rearrange(ctx context.Context, queue string, now time.Time, change func(tx pgx.Tx) error) error {
	for try := 1; ; try++ {
		err := s.inTx(ctx, func(tx pgx.Tx) error {
			b := &pgx.Batch{}
			b.Queue(lockWait)
			b.Queue(statement("lock_claims"))
			if err := tx.SendBatch(ctx, b).Close(); err != nil {
				return err
			}
			if err := change(tx); err != nil {
				return err
			}
			b = &pgx.Batch{}
			b.Queue(statement("may_scan"))
			b.Queue(statement("forget_looks"), queue)
			b.Queue(statement("rearrange"), queue, nullable(store.Instant(now)))
			return tx.SendBatch(ctx, b).Close()
		})
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != "55P03" { // lock_not_available
			return err
		}
		if try == lockTries {
			return fmt.Errorf("a transaction that writes jobs has been open all the time; try once more: %w", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lockRest):
		}
	}
}

// StrictQueue declares a queue's order. Making a queue strict that has jobs, or
// not strict, waits for whoever writes jobs.
func (s *Store) StrictQueue(ctx context.Context, queue string, strict bool) error {
	var is bool
	err := s.pool.QueryRow(ctx, statement("strict"), queue).Scan(&is)
	known := !errors.Is(err, pgx.ErrNoRows)
	if known && (err != nil || is == strict) {
		return failed("strict queue", err)
	}
	err = s.rearrange(ctx, queue, time.Time{}, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, statement("strict_queue"), queue, strict)
		return err
	})
	if err != nil {
		return failed("strict queue", err)
	}
	s.mu.Lock()
	s.strict[queue] = strict
	s.mu.Unlock()
	s.scans.lower(map[string]place{queue: {}})
	s.wakes.now()
	return nil
}

// LimitQueue bounds a queue over all processes; it waits for whoever writes
// jobs.
func (s *Store) LimitQueue(ctx context.Context, now time.Time, actor, queue string, l store.QueueLimit) error {
	at := now
	err := s.rearrange(ctx, queue, at, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, statement("limit_queue"), queue, l.Concurrency, l.Rate); err != nil {
			return err
		}
		return record(ctx, tx, now, actor, "queue.limit", queue, fmt.Sprintf("concurrency %d, rate %g", l.Concurrency, l.Rate))
	})
	if err != nil {
		return failed("limit queue", err)
	}
	s.scans.lower(map[string]place{queue: {}})
	s.wakes.now()
	return nil
}

// PauseKind holds a kind back or lets it go.
func (s *Store) PauseKind(ctx context.Context, now time.Time, actor, kind string, paused bool) error {
	act, name := "kind.resume", "resume_kind"
	if paused {
		act, name = "kind.pause", "pause_kind"
	}
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, statement(name), kind); err != nil {
			return err
		}
		return record(ctx, tx, now, actor, act, kind, "")
	})
	if err == nil && !paused {
		s.scans.lowerAll(place{}) // claims have walked past its jobs
		s.wakes.now()
	}
	return failed(act, err)
}

// PausedKinds lists them by name.
func (s *Store) PausedKinds(ctx context.Context) ([]string, error) {
	rows, err := s.pool.Query(ctx, statement("paused_kinds"))
	if err != nil {
		return nil, failed("paused kinds", err)
	}
	kinds, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return kinds, failed("paused kinds", err)
}

// EndWaiting ends queued jobs of a target that will not start.
func (s *Store) EndWaiting(ctx context.Context, now time.Time, e store.Ending) ([]store.EndCount, error) {
	if err := store.CheckEnding(e); err != nil {
		return nil, err
	}
	name := "end_failed"
	if e.To == job.Parked {
		name = "end_parked"
	}
	seqs := e.Seqs
	if seqs == nil {
		seqs = []int64{}
	}
	at := store.Instant(now)
	var ended, behind []store.EndCount
	b := &pgx.Batch{}
	b.Queue(statement(name), nullable(at), e.Limit, e.Target, nullable(store.Instant(e.DueBy)), e.Policy, e.Any, e.Retries, seqs,
		string(e.Cause)).Query(endRows(&ended, e.To, e.Cause))
	queuePromote(b, at, &behind)
	if err := s.send(ctx, b); err != nil {
		return nil, failed("end waiting", err)
	}
	s.untold.Add(behind)
	return store.SumEnds(ended), nil
}

// HeldBefore lists queued jobs of the target that gates have held.
func (s *Store) HeldBefore(ctx context.Context, target string, after int64, limit int) ([]job.Job, error) {
	jobs, err := s.jobs(ctx, statement("held_before"), target, after, limit)
	return jobs, failed("held before", err)
}
