package postgres

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// marks remember where the last claim by name of a lane ended, as scans do for
// the plain lane: the next one would walk over what it took, and a turn that
// settles and claims again sees all of that as just deleted. A mark is of one
// part. Whatever this process puts back at once ends them all.
//
// A lane in which a claim found one part alone is claimed from that part, by a
// statement that does little else (claim_further). It looks whether the lane
// has looks of other parts, and if so, the next claims are of the whole lane
// again, until the next look behind. So a retry, another kind or a higher
// priority waits for one claim more than it would, and never for the end of a
// backlog.
//
// What lies behind a mark is looked for beside the turns, every so often (look.go):
// a transaction may commit a job late, another process may give one back. No turn
// waits for the walk over all that a backlog was, not at its end either: a lane
// that gives less than was asked for keeps its mark, and is left to discovery,
// which begins at the start.
type marks struct {
	every time.Duration
	turn  chan struct{} // has a place for who claims plenty
	// patience is how long others wait for that place; 0 = until it is free.
	patience time.Duration
	mu       sync.Mutex
	lanes    map[laneName]mark
	ends     int64         // how many marks were ended, ever
	looking  bool          // a look behind them is under way
	lookedAt time.Time     // when the last one ended, or the first mark was made
	cost     time.Duration // of that look
}

// served is how long after its last claim a lane counts as one that is claimed by
// name.
const served = 500 * time.Millisecond

type laneName struct{ queue, target string }

// laneOf is the lane of a job that has one.
func laneOf(j *job.Job) laneName {
	if j.Target == "" {
		return laneName{j.Queue, store.QueueTarget(j.Queue)}
	}
	return laneName{j.Queue, j.Target}
}

// mark is a place in a lane's first attempts of one kind and priority, or of no
// kind: one that was ended.
type mark struct {
	kind     string
	priority int
	at       place
	took     int       // jobs of the last claim that found some
	fullAt   time.Time // when a claim found all that it asked for; zero = not the last one
	mixed    bool      // the lane has other parts too
	used     bool      // since the last look behind
	// after tells marks apart between which one was ended: a claim that was under
	// way meanwhile does not bring it back.
	after int64
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
	if known && !last.used {
		last.used = true
		m.lanes[name] = last
	}
	return last
}

// move remembers what a claim that began at a mark took, in order, of most that
// it asked for, at the database's now.
func (m *marks) move(name laneName, from mark, jobs []job.Job, most int, mixed bool, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lanes[name].after != from.after {
		return
	}
	if len(jobs) < max(most, 1) && !from.alone() {
		delete(m.lanes, name)
		return
	}
	next := from
	if len(jobs) > 0 {
		last := &jobs[len(jobs)-1]
		next.kind, next.priority, next.at, next.took = last.Kind, last.Priority, place{due: last.DueAt, seq: last.Seq}, len(jobs)
	}
	for i := range jobs {
		if j := &jobs[i]; j.Kind != next.kind || j.Priority != next.priority || store.Retrying(j.History) {
			delete(m.lanes, name)
			return
		}
	}
	if late := (place{due: now.Add(-behind), seq: math.MaxInt64}); len(jobs) < most && late.compare(next.at) < 0 {
		next.at = late
	}
	if len(m.lanes) == 0 {
		m.lanes, m.lookedAt = map[laneName]mark{}, time.Now()
	}
	next.mixed, next.used, next.fullAt = from.mixed || mixed, true, time.Time{}
	if len(jobs) >= most {
		next.fullAt = time.Now()
	}
	m.lanes[name] = next
}

// end ends the mark of a lane: its next claim begins at the start.
func (m *marks) end(name laneName) {
	if _, known := m.lanes[name]; known {
		m.ends++
		m.lanes[name] = mark{after: m.ends, used: true}
	}
}

// discovered ends marks that a discovered job stands behind: more of them may.
func (m *marks) discovered(jobs []job.Job) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range jobs {
		at, name := place{due: jobs[i].DueAt, seq: jobs[i].Seq}, laneOf(&jobs[i])
		if last := m.lanes[name]; last.kind != "" && at.compare(last.at) <= 0 {
			m.end(name)
		}
	}
}

// served lists the targets of a queue's lanes that need not be discovered: claims
// by name take all that they ask for, and come often.
func (m *marks) served(queue string) (targets []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, last := range m.lanes {
		if name.queue == queue && last.alone() && time.Since(last.fullAt) < served {
			targets = append(targets, name.target)
		}
	}
	return targets
}

// behind begins a look behind the marks, if it is time for one: looks may take one
// part in sweepShare of the time. Marks that nobody used since the last one are
// forgotten, and whether a lane has other parts is asked anew.
func (m *marks) behind() (looks map[laneName]mark, due bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.looking || len(m.lanes) == 0 || time.Since(m.lookedAt) < max(m.every, sweepShare*m.cost) {
		return nil, false
	}
	looks = map[laneName]mark{}
	for name, last := range m.lanes {
		if !last.used {
			delete(m.lanes, name)
			continue
		}
		last.used, last.mixed = false, false
		m.lanes[name] = last
		if last.kind != "" {
			looks[name] = last
		}
	}
	m.looking = len(looks) > 0
	return looks, m.looking
}

// looked takes in what a look behind the marks found.
func (m *marks) looked(found []laneName, took time.Duration, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil { // it may have ended early
		took = max(took, m.cost)
	}
	m.looking, m.lookedAt, m.cost = false, time.Now(), took
	for _, name := range found {
		m.end(name)
	}
}

// clear ends all.
func (m *marks) clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range m.lanes {
		m.end(name)
	}
}
