package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// Register adds a process and releases what was parked under another config.
func (s *Store) Register(ctx context.Context, now time.Time, p store.Process) (store.Process, error) {
	at := nullable(store.Instant(now))
	p.Beat = 0
	released := int64(0)
	var behind []store.EndCount
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		row := tx.QueryRow(ctx, statement("register"), at, int64(p.PID), p.Host, p.Kinds, p.Queues, p.Config, p.Version, p.Identity)
		if err := row.Scan(&p.ID, &p.BornAt); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, statement("revive_config"), at, p.Kinds, p.Config)
		released = tag.RowsAffected()
		if err != nil || released == 0 {
			return err
		}
		return promoteAll(ctx, tx, store.Instant(now), &behind)
	})
	if err != nil {
		return p, failed("register", err)
	}
	s.untold.Add(behind)
	p.BornAt = store.Instant(p.BornAt)
	p.SeenAt = p.BornAt
	if released > 0 {
		s.wakes.now()
	}
	return p, nil
}

// Beat moves the counter and returns the waiting orders.
func (s *Store) Beat(ctx context.Context, now time.Time, process int64) ([]store.Ref, error) {
	b := &pgx.Batch{}
	var orders []store.Ref
	lost := false
	b.Queue(statement("beat"), process, nullable(store.Instant(now))).Exec(func(tag commandTag) error {
		lost = tag.RowsAffected() == 0
		return nil
	})
	b.Queue(statement("orders"), process).Query(func(rows pgx.Rows) error {
		return eachRow(rows, func(r *row) error {
			orders = append(orders, store.Ref{Seq: r.number(), Epoch: r.number()})
			return nil
		})
	})
	if err := s.send(ctx, b); err != nil {
		return nil, failed("beat", err)
	}
	if lost {
		return nil, store.ErrLostProcess
	}
	return orders, nil
}

// Leave removes a process unless it still holds a lease or a permit.
func (s *Store) Leave(ctx context.Context, process int64) error {
	b := &pgx.Batch{}
	b.Queue(statement("lock_process"), process)
	b.Queue(statement("leave"), process, holderPattern(process))
	return failed("leave", s.send(ctx, b))
}

// Processes lists all registered, oldest first.
func (s *Store) Processes(ctx context.Context) ([]store.Process, error) {
	rows, err := s.pool.Query(ctx, statement("processes"))
	if err != nil {
		return nil, failed("processes", err)
	}
	defer rows.Close()
	var list []store.Process
	for rows.Next() {
		var p store.Process
		err := rows.Scan(&p.ID, &p.Beat, &p.SeenAt, &p.BornAt, &p.PID, &p.Host, &p.Kinds, &p.Queues, &p.Config, &p.Version, &p.Identity)
		if err != nil {
			return nil, failed("processes", err)
		}
		p.SeenAt, p.BornAt = store.Instant(p.SeenAt), store.Instant(p.BornAt)
		list = append(list, p)
	}
	return list, failed("processes", rows.Err())
}

// Reap ends a process whose counter still stands at beat. The statement that
// finds its leases reads ebb_job from end to end.
func (s *Store) Reap(ctx context.Context, now time.Time, process, beat int64, decide func(job.Job) store.Settle) (int, bool, error) {
	w := s.turning(process, now)
	ended, reaped := 0, false
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, statement("lock_process"), process); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, statement("remove_process"), process, beat)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		held, err := s.leases(ctx, tx, process)
		if err != nil {
			return err
		}
		var settles []store.Settle
		var release []store.Ref
		keyed := false
		for _, j := range held {
			keyed = keyed || j.Key != ""
			ref := store.Ref{Seq: j.Seq, Epoch: j.Epoch}
			if !j.Begun {
				release = append(release, ref)
				continue
			}
			st := decide(j)
			st.Ref, st.Keep = ref, false
			settles = append(settles, st)
		}
		if err := store.CheckSettles(settles); err != nil {
			return err
		}
		ended, reaped = len(held), true
		if err := w.settleIn(ctx, tx, settles, release, keyed); err != nil {
			return err
		}
		return w.abandon(ctx, tx)
	})
	if err != nil {
		return 0, false, failed("reap", err)
	}
	w.after()
	return ended, reaped, nil
}

// leases returns and locks what the process holds.
func (s *Store) leases(ctx context.Context, tx pgx.Tx, process int64) ([]job.Job, error) {
	if _, err := tx.Exec(ctx, statement("may_scan")); err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, statement("leases"), process)
	if err != nil {
		return nil, err
	}
	var held []job.Job
	err = eachRow(rows, func(r *row) error {
		j := job.Job{State: job.Running, Process: process}
		if err := r.moved(&j); err != nil {
			return err
		}
		j.Begun, j.LeasedAt = r.flag(), r.instant()
		held = append(held, j)
		return nil
	})
	return held, err
}
