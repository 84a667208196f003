package postgres

import (
	"context"
	"sync/atomic"
	"time"
)

// A job of a lane brings a look with it (ebb_look). While somebody works they are
// few: who discovers a lane takes them all and leaves one. While nobody does,
// there comes to be one for each enqueue, and of millions to take them all would
// take longer than a turn may. So a discovery takes mostLooks of them, each lane's
// share, and where a lane has more, they are gathered beside the turns: what a
// part has of them becomes one, a few thousand in a transaction. Discoveries skip
// those that are being gathered, and find the rest.
const (
	mostLooks    = 5_000
	gatherAtOnce = 5_000
)

// gathers is when looks are gathered.
type gathers struct {
	most  int32       // how many looks a discovery takes away
	under atomic.Bool // they are being gathered
}

// gatherBeside gathers looks on a connection of its own, unless that is under
// way. If it fails, the next discovery that finds too many begins again.
func (s *Store) gatherBeside() {
	if !s.gathers.under.CompareAndSwap(false, true) {
		return
	}
	s.wakes.beside(func(ctx context.Context) {
		defer s.wakes.local() // what stood behind them is found now
		defer s.gathers.under.Store(false)
		for at := (lanePart{}); ; {
			read, err := s.gather(ctx, &at, gatherAtOnce)
			if err != nil || read < gatherAtOnce {
				return
			}
		}
	})
}

// lanePart is a part of a lane, as ebb_look_lane has them in order.
type lanePart struct {
	target   string
	queue    int32
	kind     string
	retrying bool
	priority int16
}

// gather makes one look of those of each part, of so many from a part on, and
// returns how many it read. The part becomes the last one's.
func (s *Store) gather(ctx context.Context, at *lanePart, most int) (read int, err error) {
	w := s.turning(0, time.Time{}) // a batch of one statement, no turn
	w.query("gather_looks", []any{most, at.target, at.queue, at.kind, at.retrying, at.priority}, func(r *row) error {
		read = int(r.number())
		*at = lanePart{target: r.text(), queue: int32(r.number()), kind: r.text(), retrying: r.flag(), priority: int16(r.number())}
		return nil
	})
	return read, s.send(ctx, w.batch)
}
