package postgres

import (
	"sync"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// marks remember where the last claim by name of a lane ended, as scans do for
// the plain lane: the next one would walk over what it took, and a turn that
// settles and claims again sees all of that as just deleted. A mark is of one
// part, and lasts as long as claims find all that they ask for, a sweep's time
// at most. Whatever this process puts back ends them all.
type marks struct {
	every time.Duration
	mu    sync.Mutex
	lanes map[laneName]mark
}

type laneName struct{ queue, target string }

// mark is a place in a lane's first attempts of one kind and priority.
type mark struct {
	kind     string
	priority int
	at       place
	since    time.Time // of the last claim that looked at everything
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
func (m *marks) move(name laneName, from mark, jobs []job.Job, most int) {
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
	m.lanes[name] = mark{kind: last.Kind, priority: last.Priority, at: place{due: last.DueAt, seq: last.Seq}, since: from.since}
}

// clear forgets all.
func (m *marks) clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.lanes)
}
