package sqlite

import (
	"time"

	"github.com/ebbhq/ebb/store"
)

// servedFor is how long after a claim by name that got all it asked for a lane
// counts as one that its process serves.
const servedFor = store.LaneRest / 2

// serves remembers which lanes processes claim by name, and when they last got all
// that they asked for. Such a lane need not be discovered by the same process: the
// claim would take of every lane in use what has to be begun by a statement of its
// own. Its look is put off instead, which others may come before. It is guarded by
// the store's writing.
type serves map[servedLane]time.Time

type servedLane struct {
	process       int64
	queue, target string
}

// note remembers a claim by name. One that got less than it asked for is the last
// for now: what comes after it is discovered.
func (s serves) note(process int64, c *store.LaneClaim, got int, now time.Time) {
	lane := servedLane{process, c.Queue, c.Target}
	if got >= c.Limit && got > 0 && c.Firsts > 0 && c.Retries > 0 {
		s[lane] = now
	} else {
		delete(s, lane)
	}
}

// is reports whether the process serves the lane.
func (s serves) is(lane servedLane, now time.Time) bool {
	at, known := s[lane]
	return known && now.Sub(at) < servedFor
}

// prune forgets what is not served any more.
func (s serves) prune(now time.Time) {
	for lane := range s {
		if !s.is(lane, now) {
			delete(s, lane)
		}
	}
}
