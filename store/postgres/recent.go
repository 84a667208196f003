package postgres

import (
	"cmp"
	"context"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store"
)

// Recent lists what ended lately.
func (s *Store) Recent(ctx context.Context, since time.Time, limit int) ([]store.Ended, error) {
	rows, err := s.pool.Query(ctx, statement("recent"), store.Due(since, 0), max(limit, 0))
	if err != nil {
		return nil, failed("recent", err)
	}
	list := []store.Ended{}
	err = eachRow(rows, func(r *row) error {
		list = append(list, store.Ended{
			Seq: r.number(), State: job.State(r.word()), At: r.instant(), ReadyAt: r.instant(), Queue: r.word(),
			Policy: cmp.Or(r.text(), policy.DefaultName), Starts: int(r.number()),
		})
		return nil
	})
	return list, failed("recent", err)
}
