package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// Maintain takes one step: it expires deadlines, ends retention and adds up
// counters, and drops records that have ended.
func (s *Store) Maintain(ctx context.Context, m store.Maintenance) (store.Maintained, error) {
	now, left := nullable(store.Instant(m.Now)), int64(m.Limit)
	var done store.Maintained
	var behind []store.EndCount
	first := &pgx.Batch{}
	first.Queue(statement("expire"), now, left).Query(endRows(&done.Expired, job.Failed, retry.CauseExpired))
	queuePromote(first, store.Instant(m.Now), &behind)
	first.Queue(statement("drop_reserved"), now, m.Limit)
	first.Queue(statement("wake_stranded"), now)
	if err := s.send(ctx, first); err != nil {
		return store.Maintained{}, failed("maintain: expire", err)
	}
	s.untold.Add(behind)
	done.Expired = store.SumEnds(done.Expired)
	left -= int64(store.EndTotal(done.Expired))
	err := s.sweepOut(ctx, m, left, &done)
	return done, err
}

// sweepOut ends retention and adds up counters. What has expired before is
// told even if this fails.
func (s *Store) sweepOut(ctx context.Context, m store.Maintenance, left int64, done *store.Maintained) error {
	now := nullable(store.Instant(m.Now))
	for _, kept := range []struct {
		statement string
		time      time.Duration
	}{{"drop_done", m.SucceededKept}, {"drop_dead", m.FailedKept}} {
		if kept.time <= 0 || left <= 0 {
			continue
		}
		var n int64
		micros := int64((kept.time + time.Microsecond - 1) / time.Microsecond)
		var behind []store.EndCount
		b := &pgx.Batch{}
		b.Queue(statement(kept.statement), now, left, micros).QueryRow(func(r pgx.Row) error { return r.Scan(&n) })
		queuePromote(b, store.Instant(m.Now), &behind)
		if err := s.send(ctx, b); err != nil {
			return failed("maintain: "+kept.statement, err)
		}
		s.untold.Add(behind)
		left -= n
	}
	if err := s.expireRecords(ctx, m.Now, &left); err != nil {
		return failed("maintain: expire records", err)
	}
	if err := s.fold(ctx); err != nil {
		return failed("maintain: fold", err)
	}
	done.More = left <= 0
	return nil
}

// fold adds the differences up where there are many.
func (s *Store) fold(ctx context.Context) error {
	var tally, group bool
	if err := s.pool.QueryRow(ctx, statement("worth_folding")).Scan(&tally, &group); err != nil {
		return err
	}
	b := &pgx.Batch{}
	if tally {
		b.Queue(statement("fold_tally"))
	}
	if group {
		b.Queue(statement("fold_group"))
	}
	if b.Len() == 0 {
		return nil
	}
	return s.send(ctx, b)
}
