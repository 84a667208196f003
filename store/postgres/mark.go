package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// marks remember where the last claim by name of a lane ended, as scans do for
// the plain lane: the next one would walk over what it took, and a turn that
// settles and claims again sees all of that as just deleted. A mark is of one
// part, and lasts as long as claims find all that they ask for, a sweep's time
// at most. Whatever this process puts back at once ends them all.
//
// A lane in which a claim found one part alone is claimed from that part, by a
// statement that does little else (claim_further). It looks whether the lane
// has looks of other parts, and if so, the next claims are of the whole lane
// again, for a sweep's time. So a retry, another kind or a higher priority
// waits for one claim more than it would, and never for the end of a backlog.
type marks struct {
	every time.Duration
	turn  chan struct{} // has a place for who claims plenty
	// patience is how long others wait for that place; 0 = until it is free.
	patience time.Duration
	mu       sync.Mutex
	lanes    map[laneName]mark
}

type laneName struct{ queue, target string }

// mark is a place in a lane's first attempts of one kind and priority.
type mark struct {
	kind     string
	priority int
	at       place
	since    time.Time // of the last claim that looked at everything
	took     int       // jobs of the last claim
	mixed    bool      // the lane has other parts too
}

// alone reports whether the mark's part is all that its lane is known to have.
func (m *mark) alone() bool { return m.kind != "" && !m.mixed }

// enter waits until nobody else claims plenty, or for as long as patience says:
// the server ends a transaction that waits too long, and to walk over others'
// rows is better than that. Then leave must be called.
func (m *marks) enter(ctx context.Context) (leave func(), err error) {
	var late <-chan time.Time
	if m.patience > 0 {
		timer := time.NewTimer(m.patience)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case m.turn <- struct{}{}:
		return func() { <-m.turn }, nil
	case <-late:
		return func() {}, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// of returns where a claim of the lane begins; the zero mark = at the start.
func (m *marks) of(name laneName) mark {
	m.mu.Lock()
	defer m.mu.Unlock()
	last, known := m.lanes[name]
	if !known || time.Since(last.since) >= m.every {
		return mark{since: time.Now()}
	}
	return last
}

// move remembers what a claim that began at a mark took, in order.
func (m *marks) move(name laneName, from mark, jobs []job.Job, most int, mixed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(jobs) == 0 || len(jobs) < most {
		delete(m.lanes, name)
		return
	}
	last := &jobs[len(jobs)-1]
	for i := range jobs {
		if j := &jobs[i]; j.Kind != last.Kind || j.Priority != last.Priority || store.Retrying(j.History) {
			delete(m.lanes, name)
			return
		}
	}
	if m.lanes == nil {
		m.lanes = map[laneName]mark{}
	}
	m.lanes[name] = mark{kind: last.Kind, priority: last.Priority, at: place{due: last.DueAt, seq: last.Seq}, since: from.since, took: len(jobs), mixed: from.mixed || mixed}
}

// clear forgets all.
func (m *marks) clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.lanes)
}
