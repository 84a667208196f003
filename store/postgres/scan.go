package postgres

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ebbhq/ebb/job"
)

// Claims remember, for each queue and priority, where the last one ended, and
// begin there. Otherwise each would walk over what was claimed before it: rows
// that are running, and index entries of rows that are gone but that vacuum
// may not remove while somebody's old snapshot could see them. After minutes
// these are millions.
//
// What lies behind that place is not forgotten: a transaction may commit a job
// late, a lease may be given back. So a claim that finds less than it asked
// for looks behind as well, in the same statement, and under a backlog one
// claim in every Sweep begins at the start. While such looks are known to be
// dear, both wait: a claim that finds too little owes a look to the next, so
// that a job that comes into an idle queue does not wait for it, and wakes its
// worker for that; and all looks may take one part in sweepShare of the time.
// A look that would keep a turn waiting is taken beside it (look.go), in one
// part in besideShare of the time: what it reads, others have to read again.
//
// A claim with a now of its own always looks at everything: its clock says
// nothing about what others have committed.
const (
	sweepShare  = 20
	besideShare = 40
	// cheap is a look that may be taken at any time. A dearer one would be
	// noticed by a job that starts in an idle queue: it waits for its share.
	cheap = 250 * time.Microsecond
	// dear is a look that no turn waits for.
	dear = 50 * time.Millisecond
	// behind is how far before the clock a claim that found everything begins
	// the next time: transactions as short as this commit in any order.
	behind = 100 * time.Millisecond
)

const levels = job.MaxPriority + 1

// place is a position in the order of one priority.
type place struct {
	due time.Time // zero = before everything
	seq int64
}

func (p place) compare(q place) int { return cmp.Or(p.due.Compare(q.due), cmp.Compare(p.seq, q.seq)) }

// scans is where the claims of this process have come to.
type scans struct {
	every time.Duration
	mu    sync.Mutex
	lanes map[string]*lane
	heads heads
}

// lane is one queue as seen by a worker that knows some kinds.
type lane struct {
	queue   string
	at      [levels]place
	lowered int           // how often lower moved it back
	sweptAt time.Time     // when a claim last looked at everything
	cost    time.Duration // of that look
	looking bool          // a look beside the turns is under way
	owed    bool          // the last claim found too little and did not look
	awaited bool          // something behind the places becomes claimable
	backlog bool          // the last claim found all that it asked for
}

// scan is the way of one claim.
type scanned struct {
	lane    *lane // nil = remembers nothing
	whole   bool  // from the start
	behind  bool  // looks behind when it finds too little
	beside  bool  // the look that is due is to be taken beside the turn
	lowered int
	ranges  ranges
}

// ranges are the stretches of the index that a claim walks, as parameters.
type ranges struct {
	priorities       []int16
	lowAt, highAt    instants
	lowSeq, highSeqs []int64
}

// add adds the stretch of a priority from after low up to high; the zero place
// is open on either side.
func (r *ranges) add(priority int, low, high place) {
	from, to, last := micros(low.due), micros(high.due), high.seq
	if low.due.IsZero() {
		from = never
	}
	if high.due.IsZero() {
		to, last = always, math.MaxInt64
	}
	r.priorities = append(r.priorities, int16(priority))
	r.lowAt, r.lowSeq = append(r.lowAt, from), append(r.lowSeq, low.seq)
	r.highAt, r.highSeqs = append(r.highAt, to), append(r.highSeqs, last)
}

// begin plans a claim on the database's clock.
func (s *scans) begin(queue string, kinds []string) *scanned {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := queue + "\x00" + strings.Join(kinds, "\x00")
	l := s.lanes[key]
	if l == nil {
		if s.lanes == nil {
			s.lanes = map[string]*lane{}
		}
		l = &lane{queue: queue}
		s.lanes[key] = l
	}
	c := &scanned{lane: l, lowered: l.lowered}
	may := l.cost <= cheap || l.owed || l.backlog
	switch {
	case l.cost > dear:
		c.beside = may && !l.looking && l.mayLook() <= 0
		l.looking = l.looking || c.beside
	default:
		c.whole = may && time.Since(l.sweptAt) >= max(s.every, l.rest())
		c.behind = !c.whole && (l.awaited || may && l.mayLook() <= 0)
	}
	for p := range levels {
		low := l.at[p]
		if c.whole {
			low = place{}
		}
		c.ranges.add(p, low, place{})
	}
	for p := range levels {
		if c.behind && !l.at[p].due.IsZero() {
			c.ranges.add(p, place{}, l.at[p])
		}
	}
	if c.whole {
		l.sweptAt = time.Now() // who claims meanwhile need not do the same
	}
	return c
}

// rest is how long no look is taken after the last one.
func (l *lane) rest() time.Duration {
	switch {
	case l.cost <= cheap:
		return 0
	case l.cost <= dear:
		return sweepShare * l.cost
	default:
		return besideShare * l.cost
	}
}

// swept remembers a look at everything. One that is no longer dear says that
// what was dead is gone: lists may walk from the start again.
func (s *scans) swept(l *lane, took time.Duration) {
	if l.cost > dear && took <= dear {
		s.heads.cost = 0
	}
	l.sweptAt, l.cost, l.awaited = time.Now(), took, false
}

// mayLook returns how long it is until a look may be taken.
func (l *lane) mayLook() time.Duration { return l.rest() - time.Since(l.sweptAt) }

// everything plans a claim that remembers nothing.
func everything() *scanned {
	c := &scanned{}
	for p := range levels {
		c.ranges.add(p, place{}, place{})
	}
	return c
}

// end remembers what the claim found: jobs in their order, all that it asked
// for or less, at the database's now, within the time it took. If something may
// lie behind it, end returns after how long another claim should look.
func (s *scans) end(c *scanned, jobs []job.Job, full bool, now time.Time, took time.Duration) (again time.Duration) {
	if c.lane == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l := c.lane
	l.backlog, l.owed = full, !full && !c.whole && !c.behind && !c.beside
	if l.owed {
		again = max(l.mayLook(), cheap)
	}
	if c.whole || c.behind && !full {
		s.swept(l, took)
	}
	if l.lowered != c.lowered {
		return again
	}
	searched := levels // priorities of which nothing due is left
	if full && len(jobs) > 0 {
		searched = jobs[len(jobs)-1].Priority
	}
	for p := range searched {
		l.at[p] = place{due: now.Add(-behind), seq: math.MaxInt64}
	}
	if searched < levels {
		last := jobs[len(jobs)-1]
		at := place{due: last.DueAt, seq: last.Seq}
		if c.whole || at.compare(l.at[searched]) > 0 {
			l.at[searched] = at
		}
	}
	return again
}

// forget begins anew: a claim failed, and may or may not have happened. Where
// that is dear, a look beside the next turn does.
func (s *scans) forget(c *scanned) {
	if c.lane == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l := c.lane
	l.sweptAt, l.owed = time.Time{}, true
	if l.cost <= dear {
		l.at = [levels]place{}
	}
	l.lowered++
}

// lower moves the queues' places back to before the given ones: something was
// put there.
func (s *scans) lower(places map[string]place) {
	if len(places) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.lanes {
		if p, ok := places[l.queue]; ok {
			l.lower(p)
		}
	}
	for queue, p := range places {
		if h := s.heads.of[queue]; h != nil {
			h.lower(p.due)
		}
	}
}

// lowerAll is lower where the queue is not known.
func (s *scans) lowerAll(p place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.lanes {
		l.lower(p)
	}
	for _, h := range s.heads.of {
		h.lower(p.due)
	}
}

func (l *lane) lower(p place) {
	l.lowered++
	for i := range l.at {
		if before := (place{due: p.due, seq: -1}); before.compare(l.at[i]) < 0 {
			l.at[i] = before
		}
	}
}

// await says that something behind the places becomes claimable: a claim that
// finds too little looks for it. Where that is dear, it is owed a look.
func (s *scans) await() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.lanes {
		l.awaited, l.owed = true, true
	}
}

// dueFrom returns, for each priority, from when on the queues may have something
// due, as far as this process knows.
func (s *scans) dueFrom(queues []string) instants {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := slices.Repeat(instants{always}, levels)
	for _, queue := range queues {
		known := false
		for _, l := range s.lanes {
			if l.queue == queue {
				known = true
				l.lowest(from, l.cost <= dear && (l.owed || l.mayLook() <= 0))
			}
		}
		if !known {
			return slices.Repeat(instants{never}, levels)
		}
	}
	return from
}

// lowest lowers the instants to where the claims of the lane have come to, or
// to the start.
func (l *lane) lowest(from instants, whole bool) {
	for p, at := range l.at {
		if whole || at.due.IsZero() {
			from[p] = never
		} else {
			from[p] = min(from[p], micros(at.due))
		}
	}
}
