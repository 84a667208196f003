package sqlite

import (
	"context"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// Recent lists what ended lately.
func (s *Store) Recent(ctx context.Context, since time.Time, limit int) ([]store.Ended, error) {
	list := []store.Ended{}
	err := s.read(ctx, "recent", false, func(c *conn) error {
		return c.query(ctx, "recent", []any{micros(store.Due(since, 0)), int64(max(limit, 0))}, func(r row) error {
			list = append(list, store.Ended{
				Seq: r.int(0), State: job.State(r.text(1)), At: r.at(2), ReadyAt: r.at(3), Queue: r.text(4), Policy: r.text(5), Starts: int(r.int(6)),
			})
			return nil
		})
	})
	return list, err
}
