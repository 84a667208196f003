package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/ebbhq/ebb/store"
)

// A turn is one round trip, but for one that claims plenty by name: that goes in
// two, in one transaction. The first settles, and any number of turns may be at
// it. The second claims, and one turn of the process is at it at a time: so each
// begins where the one before it ended, as marks say. Two at once would begin at
// the same place, and the second to come would walk over all rows that the first
// has just taken, one in use after the other: that was half of what it cost to
// find them. While one claims, the other settles.
const stepsFrom = 1000

// inSteps reports whether the claims are worth a round trip.
func inSteps(claims []store.LaneClaim) bool {
	most := 0
	for i := range claims {
		if claims[i].Target != "" {
			most += claims[i].Limit
		}
	}
	return most >= stepsFrom
}

// send does the turn, of which all is queued that comes before its claims.
func (w *turning) send(ctx context.Context, t *store.Turn) error {
	if w.now.IsZero() && inSteps(t.Lanes) {
		return w.sendInSteps(ctx, t)
	}
	if err := w.take(t); err != nil {
		return err
	}
	if err := w.store.send(ctx, w.batch); err != nil {
		return err
	}
	w.tookLanes()
	return nil
}

// sendInSteps does the turn in two round trips.
func (w *turning) sendInSteps(ctx context.Context, t *store.Turn) error {
	s := w.store
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release() // one that is left inside a transaction is closed
	first := s.opening()
	first.QueuedQueries = append(first.QueuedQueries, w.batch.QueuedQueries...)
	if err := conn.SendBatch(ctx, first).Close(); err != nil {
		return err
	}
	if !w.present {
		_, err := conn.Exec(ctx, "ROLLBACK")
		return err
	}
	leave, err := s.marks.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	w.batch, w.late = &pgx.Batch{}, true
	if err := w.take(t); err != nil {
		return err
	}
	w.batch.Queue("COMMIT")
	if err := conn.SendBatch(ctx, w.batch).Close(); err != nil {
		return err
	}
	w.tookLanes()
	return nil
}
