package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ebbhq/ebb/store"
)

// Maintain takes one step: it expires deadlines, ends retention and adds up
// counters, and drops records that have ended.
func (s *Store) Maintain(ctx context.Context, m store.Maintenance) (bool, error) {
	now, left := nullable(store.Instant(m.Now)), int64(m.Limit)
	first := &pgx.Batch{}
	first.Queue(statement("expire"), now, left).Exec(func(tag commandTag) error {
		left -= tag.RowsAffected()
		return nil
	})
	queuePromote(first, store.Instant(m.Now))
	first.Queue(statement("drop_reserved"), now, m.Limit)
	first.Queue(statement("wake_stranded"), now)
	if err := s.send(ctx, first); err != nil {
		return false, failed("maintain: expire", err)
	}
	for _, kept := range []struct {
		statement string
		time      time.Duration
	}{{"drop_done", m.SucceededKept}, {"drop_dead", m.FailedKept}} {
		if kept.time <= 0 || left <= 0 {
			continue
		}
		var n int64
		micros := int64((kept.time + time.Microsecond - 1) / time.Microsecond)
		b := &pgx.Batch{}
		b.Queue(statement(kept.statement), now, left, micros).QueryRow(func(r pgx.Row) error { return r.Scan(&n) })
		queuePromote(b, store.Instant(m.Now))
		if err := s.send(ctx, b); err != nil {
			return false, failed("maintain: "+kept.statement, err)
		}
		left -= n
	}
	if err := s.expireRecords(ctx, m.Now, &left); err != nil {
		return false, failed("maintain: expire records", err)
	}
	if err := s.fold(ctx); err != nil {
		return false, failed("maintain: fold", err)
	}
	return left <= 0, nil
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
