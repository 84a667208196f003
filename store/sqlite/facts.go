package sqlite

import (
	"slices"

	"github.com/ebbhq/ebb/store"
)

// queueFacts is what a transaction knows of a queue: read once, when it is
// first needed.
type queueFacts struct {
	exists      bool
	paused      bool
	strict      bool
	running     int64 // when the transaction began
	limit       store.QueueLimit
	kindsPaused bool // some kind is
}

// queue returns what is known of the queue.
func (t *tx) queue(name string) (*queueFacts, error) {
	if q := t.queues[name]; q != nil {
		return q, nil
	}
	r, err := t.one(t.ctx, "queue_facts", name)
	if err != nil {
		return nil, err
	}
	q := readFacts(r)
	if t.queues == nil {
		t.queues = map[string]*queueFacts{}
	}
	t.queues[name] = q
	return q, nil
}

// readFacts reads a row of queue_facts, which may be absent.
func readFacts(r row) *queueFacts {
	if r == nil {
		return &queueFacts{}
	}
	return &queueFacts{
		exists: true, paused: r.flag(0), strict: r.flag(1), running: r.int(2),
		limit: store.QueueLimit{Concurrency: int(r.int(3)), Rate: r.float(4)}, kindsPaused: r.flag(5),
	}
}

// limited reports whether jobs without a target wait in a lane too.
func (q *queueFacts) limited() bool { return !q.strict && q.limit != store.QueueLimit{} }

// laneOf names the lane that a job waits in; empty = the plain one.
func (q *queueFacts) laneOf(queue, target string) string {
	switch {
	case q.strict:
		return ""
	case target != "":
		return target
	case q.limited():
		return store.QueueTarget(queue)
	}
	return ""
}

// running returns the kinds in order, each once, without those that are
// paused.
func (t *tx) running(q *queueFacts, kinds []string) ([]string, error) {
	kinds = slices.Compact(slices.Sorted(slices.Values(kinds)))
	if !q.kindsPaused {
		return kinds, nil
	}
	paused, err := t.pausedKinds(t.ctx)
	return slices.DeleteFunc(kinds, func(kind string) bool { return slices.Contains(paused, kind) }), err
}
