package postgres

import (
	"context"
	"math"
	"slices"
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
// a transaction may commit a job late, another process may give one back. Such a
// job has a look, which says since when it is due (ebb_look.since): where no look
// of the part says so, nobody walks over all that was claimed. What has no look is
// what somebody else had locked when a claim passed it, and then gave up: for that
// there is a walk in any case, rarely, and when a lane is not claimed any more. No
// turn waits for one, not at the end of a backlog either: a lane that gives less
// than was asked for keeps its mark, and is left to discovery, which begins there
// too until the walk was taken.
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
	walkedAt time.Time     // when the last one that walked behind all ended
	walkCost time.Duration // of that
}

const (
	// servedFor is how long after its last claim a lane counts as one that is
	// claimed by name.
	servedFor = 500 * time.Millisecond
	// walkEvery is the time between walks behind all marks, at least. It is longer
	// than the server's rest between vacuums, which leave less to walk over.
	walkEvery = 2 * time.Minute
	// mostMarks is how many marks a discovery is told: of the other lanes it
	// begins at the start.
	mostMarks = 1000
)

// glance is a look behind a mark: at what its part's looks say or, in any case, by
// a walk.
type glance struct {
	mark
	anyway bool
}

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

// served reports whether the lane need not be discovered: claims by name take all
// that they ask for, and come often.
func (m *mark) served() bool { return m.alone() && time.Since(m.fullAt) < servedFor }

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
	from.mixed = from.mixed || mixed
	if late := (place{due: now.Add(-behind), seq: math.MaxInt64}); m.moveTo(name, from, jobs, most) && len(jobs) < most {
		if next := m.lanes[name]; late.compare(next.at) < 0 {
			next.at = late
			m.lanes[name] = next
		}
	}
}

// moveTo puts a lane's mark behind the jobs that were taken, if they are of one
// part.
func (m *marks) moveTo(name laneName, from mark, jobs []job.Job, most int) bool {
	next := from
	if len(jobs) > 0 {
		last := &jobs[len(jobs)-1]
		next.kind, next.priority, next.at, next.took = last.Kind, last.Priority, place{due: last.DueAt, seq: last.Seq}, len(jobs)
	}
	for i := range jobs {
		if j := &jobs[i]; j.Kind != next.kind || j.Priority != next.priority || store.Retrying(j.History) {
			delete(m.lanes, name)
			return false
		}
	}
	if len(m.lanes) == 0 {
		m.lanes, m.lookedAt, m.walkedAt = map[laneName]mark{}, time.Now(), time.Now()
	}
	next.used, next.fullAt = true, time.Time{}
	if len(jobs) >= most {
		next.fullAt = time.Now()
	}
	m.lanes[name] = next
	return true
}

// end ends the mark of a lane: its next claim begins at the start.
func (m *marks) end(name laneName) {
	if _, known := m.lanes[name]; known {
		m.ends++
		m.lanes[name] = mark{after: m.ends, used: true}
	}
}

// discovered ends marks that a discovered job stands behind: more of them may. A
// lane that has no mark gets one where the discovery has come to, if that left due
// work: whoever has what it found goes on from there, by name, and the looks that
// it did not take away, of which there may be many, need not be followed at once.
// ends is what in returned when the discovery began: if any was ended since, what
// came back may stand before what it found.
func (m *marks) discovered(jobs []job.Job, left []store.LaneName, ends int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	more := make(map[laneName]bool, len(left))
	for _, lane := range left {
		more[laneName{lane.Queue, lane.Target}] = true
	}
	unended := m.ends == ends
	for len(jobs) > 0 {
		name, n := laneOf(&jobs[0]), 1
		for n < len(jobs) && laneOf(&jobs[n]) == name {
			n++
		}
		found, last := jobs[:n], m.lanes[name]
		jobs = jobs[n:]
		stands := func(j job.Job) bool { return place{due: j.DueAt, seq: j.Seq}.compare(last.at) <= 0 }
		switch {
		case last.kind == "" && unended && more[name]:
			m.moveTo(name, mark{after: last.after}, found, len(found))
		case last.kind != "" && slices.ContainsFunc(found, stands):
			m.end(name)
		}
	}
}

// in returns the marks of a queue's lanes, mostMarks of them at most, and how many
// were ended so far.
func (m *marks) in(queue string) (marked map[laneName]mark, ends int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	marked = map[laneName]mark{}
	for name, last := range m.lanes {
		if name.queue == queue && last.kind != "" && len(marked) < mostMarks {
			marked[name] = last
		}
	}
	return marked, m.ends
}

// behind begins a look behind the marks, if it is time for one: looks may take one
// part in sweepShare of the time. Marks that nobody used since the last one are
// forgotten once somebody has walked behind them, and whether a lane has other
// parts is asked anew.
func (m *marks) behind() (looks map[laneName]glance, due bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.looking || len(m.lanes) == 0 || time.Since(m.lookedAt) < max(m.every, sweepShare*m.cost) {
		return nil, false
	}
	all := time.Since(m.walkedAt) >= max(walkEvery, sweepShare*m.walkCost)
	looks = map[laneName]glance{}
	for name, last := range m.lanes {
		if !last.used && last.kind == "" {
			delete(m.lanes, name)
			continue
		}
		if last.kind != "" {
			looks[name] = glance{last, all || !last.used}
		}
		last.used, last.mixed = false, false
		m.lanes[name] = last
	}
	m.looking = len(looks) > 0
	if m.looking && all {
		m.walkedAt = time.Time{} // until it has ended
	}
	return looks, m.looking
}

// looked takes in which of the lanes that were looked at had something behind
// their marks.
func (m *marks) looked(looks map[laneName]glance, found []laneName, took time.Duration, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil { // it may have ended early
		took = max(took, m.cost)
	}
	m.looking, m.lookedAt, m.cost = false, time.Now(), took
	if m.walkedAt.IsZero() {
		m.walkedAt, m.walkCost = time.Now(), took
	}
	for _, name := range found {
		m.end(name)
	}
	if err != nil {
		return
	}
	for name, g := range looks { // those that nobody uses
		if last := m.lanes[name]; !g.used && !last.used && last.kind != "" {
			delete(m.lanes, name)
		}
	}
}

// clear ends all, and those that discoveries under way would make.
func (m *marks) clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ends++
	for name := range m.lanes {
		m.end(name)
	}
}
