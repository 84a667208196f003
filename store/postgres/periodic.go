package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// PutPeriodic adds or replaces a schedule.
func (s *Store) PutPeriodic(ctx context.Context, now time.Time, actor string, p store.Periodic) error {
	content, err := json.Marshal(p.Job)
	if err != nil {
		return failed("put periodic", err)
	}
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, statement("put_periodic"), p.Name, p.Cron, p.Zone, string(p.Missed), content,
			nullable(store.Instant(p.NextAt)), nullable(store.Instant(p.LastAt)))
		if err != nil {
			return err
		}
		return record(ctx, tx, now, actor, "periodic.put", p.Name, p.Cron)
	})
	return failed("put periodic", err)
}

// DropPeriodic forgets a schedule.
func (s *Store) DropPeriodic(ctx context.Context, now time.Time, actor, name string) error {
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, statement("drop_periodic"), name)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return fmt.Errorf("store: periodic %q: %w", name, store.ErrNotFound)
		}
		return record(ctx, tx, now, actor, "periodic.drop", name, "")
	})
	return failed("drop periodic", err)
}

// Periodics lists all by name.
func (s *Store) Periodics(ctx context.Context) ([]store.Periodic, error) {
	rows, err := s.pool.Query(ctx, statement("periodics"))
	if err != nil {
		return nil, failed("periodics", err)
	}
	list := []store.Periodic{}
	err = eachRow(rows, func(r *row) error {
		p := store.Periodic{Name: r.text(), Cron: r.text(), Zone: r.text(), Missed: job.Missed(r.text())}
		if err := json.Unmarshal(r.json(), &p.Job); err != nil {
			return err
		}
		p.NextAt, p.LastAt = r.instant(), r.instant()
		list = append(list, p)
		return nil
	})
	return list, failed("periodics", err)
}

// Fire enqueues the jobs of a schedule and moves it on, once.
func (s *Store) Fire(ctx context.Context, now time.Time, name string, from, to time.Time, jobs []job.New) (bool, error) {
	b, err := prepare(now, jobs)
	if err != nil {
		return false, err
	}
	// Queues are made outside of the transaction, and not for nothing.
	moved := false
	if err := s.pool.QueryRow(ctx, statement("fires"), name, nullable(store.Instant(from))).Scan(&moved); err != nil || !moved {
		return false, failed("fire", err)
	}
	if err := s.ensureQueues(ctx, b); err != nil {
		return false, failed("fire", err)
	}
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, statement("move_periodic"), name, nullable(store.Instant(from)), nullable(store.Instant(to)), len(jobs) > 0)
		if moved = tag.RowsAffected() > 0; err != nil || !moved || len(jobs) == 0 {
			return err
		}
		_, err = enqueueIn(ctx, pgxRunner{tx}, b)
		return err
	})
	if err != nil {
		return false, failed("fire", err)
	}
	if moved && len(jobs) > 0 {
		s.lower(b)
		s.wakes.now()
	}
	return moved, nil
}
