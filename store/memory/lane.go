package memory

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// lane is what waits for one target in one queue.
type lane struct {
	queue  *queue
	target string
	parts  map[partKey]*part
}

// partKey tells the parts of a lane apart that are looked at on their own.
type partKey struct {
	kind  string
	retry bool
}

// part is the waiting jobs of a kind, first attempts or retries.
type part struct {
	*shelf
	look time.Time // when discovery looks at it next; of no meaning while it is empty
}

// lane returns the lane of the target, new if need be.
func (q *queue) lane(target string) *lane {
	l := q.lanes[target]
	if l == nil {
		l = &lane{queue: q, target: target, parts: map[partKey]*part{}}
		q.lanes[target] = l
	}
	return l
}

// push brings a row in, and a look with it: when it is due, or at once.
func (l *lane) push(r *row, now time.Time) {
	key := partKey{kind: r.job.Kind, retry: store.Retrying(r.job.History)}
	p := l.parts[key]
	if p == nil {
		p = &part{shelf: newShelf(l.queue.less)}
		l.parts[key] = p
	}
	look := later(r.job.DueAt, now)
	if p.size > 0 {
		look = earliest(p.look, look)
	}
	p.look = look
	p.push(r)
}

// asked are the parts of a lane that a claim may take of.
func (l *lane) asked(kinds []string, c *store.LaneClaim) []*part {
	var parts []*part
	for _, kind := range kinds {
		for _, retry := range []bool{false, true} {
			most := c.Firsts
			if retry {
				most = c.Retries
			}
			if p := l.parts[partKey{kind, retry}]; p != nil && p.size > 0 && most > 0 {
				parts = append(parts, p)
			}
		}
	}
	return parts
}

// serving is a lane while a claim takes of it.
type serving struct {
	*lane
	parts   []*part
	look    time.Time
	firsts  int
	retries int
	room    int
	claimed []job.Job
}

func serve(l *lane, kinds []string, c *store.LaneClaim) *serving {
	v := &serving{lane: l, parts: l.asked(kinds, c), firsts: c.Firsts, retries: c.Retries, room: store.NoLimit}
	for _, p := range v.parts {
		v.look = earliest(v.look, p.look)
	}
	return v
}

// next returns the least row that the claim may still take; nil = none.
func (v *serving) next(now time.Time) *row {
	var first *row
	if v.room <= 0 {
		return nil
	}
	for _, p := range v.parts {
		r := p.due(now)
		if r == nil {
			continue
		}
		left := v.firsts
		if store.Retrying(r.job.History) {
			left = v.retries
		}
		if left > 0 && (first == nil || v.queue.before(r, first)) {
			first = r
		}
	}
	return first
}

// take leases the next row.
func (s *Store) take(v *serving, now time.Time, p *process) bool {
	r := v.next(now)
	if r == nil {
		return false
	}
	if v.room--; store.Retrying(r.job.History) {
		v.retries--
	} else {
		v.firsts--
	}
	s.lease(r, now, p, false)
	v.claimed = append(v.claimed, copied(&r.job))
	return true
}

// claimLane serves one lane by name, or discovers some.
func (s *Store) claimLane(now time.Time, p *process, c store.LaneClaim) (claimed []job.Job, left []store.LaneName) {
	q := s.queues[c.Queue]
	if q == nil || q.paused {
		return nil, nil
	}
	kinds := s.running(c.Kinds)
	if c.Target == "" {
		return s.discover(now, p, q, kinds, c)
	}
	l := q.lanes[c.Target]
	if l == nil {
		return nil, nil
	}
	v := serve(l, kinds, &c)
	for len(v.claimed) < c.Limit && s.take(v, now, p) {
	}
	for _, part := range v.parts {
		if part.due(now) == nil { // it would be looked at in vain
			part.look = later(part.look, part.after(now))
		}
	}
	l.fold()
	begun := 0
	for i := range v.claimed {
		if r := s.rows[v.claimed[i].Seq]; begun < c.Begin && r.job.History.Crashes < store.SuspectCrashes {
			r.job.Begun, v.claimed[i].Begun = true, true
			begun++
		}
	}
	return v.claimed, nil
}

// discover takes of the lanes that have waited longest, an equal part each.
func (s *Store) discover(now time.Time, p *process, q *queue, kinds []string, c store.LaneClaim) (claimed []job.Job, left []store.LaneName) {
	var found []*serving
	for _, l := range q.lanes {
		v := serve(l, kinds, &c)
		v.parts = slices.DeleteFunc(v.parts, func(p *part) bool { return p.look.After(now) })
		if len(v.parts) > 0 {
			found = append(found, v)
		}
	}
	slices.SortFunc(found, func(a, b *serving) int {
		return cmp.Or(a.look.Compare(b.look), strings.Compare(a.target, b.target))
	})
	var open []*serving
	for _, v := range found {
		if len(open) < c.Lanes && s.admits(v, now) {
			open = append(open, v)
		}
	}
	for room := c.Limit; room > 0; {
		before := room
		for _, v := range open {
			if room > 0 && s.take(v, now, p) {
				room--
			}
		}
		if before == room {
			break
		}
	}
	for _, v := range open {
		if v.rest(now) {
			left = append(left, store.LaneName{Queue: c.Queue, Target: v.target})
		}
		claimed = append(claimed, v.claimed...)
	}
	return claimed, left
}

// admits reports whether discovery may take of the lane; one that it may not
// is looked at again when that can have changed.
func (s *Store) admits(v *serving, now time.Time) bool {
	again := time.Time{}
	if g := s.gates[v.target]; g != nil {
		switch {
		case g.OpenAt.After(now):
			again = g.OpenAt
		case g.Room <= 0:
			again = now.Add(store.LaneRest)
		}
		v.room = g.Room
	}
	if again.IsZero() && v.next(now) == nil {
		v.rest(now) // the look was too early
		return false
	}
	for _, p := range v.parts {
		p.look = later(p.look, again)
	}
	return again.IsZero()
}

// rest says when the parts are looked at next, after a discovery, and whether
// it leaves anything that is due.
func (v *serving) rest(now time.Time) (left bool) {
	for _, p := range v.parts {
		switch {
		case p.due(now) == nil:
			p.look = later(p.look, p.after(now))
		case len(v.claimed) > 0:
			p.look = later(p.look, now.Add(store.LaneRest))
			left = true
		}
	}
	v.fold()
	return left
}

// after is when the next job of the part becomes due, none of which is now.
func (p *part) after(now time.Time) time.Time {
	if at := p.nextAt(now); !at.IsZero() {
		return at
	}
	return store.Never // deadlines have passed: nothing left to look for
}

// fold forgets empty parts and, with the last one, the lane.
func (l *lane) fold() {
	for key, p := range l.parts {
		if p.size == 0 {
			delete(l.parts, key)
		}
	}
	if len(l.parts) == 0 {
		delete(l.queue.lanes, l.target)
	}
}

// hold keeps a lane from discovery until an instant.
func (s *Store) hold(h store.LaneHold) {
	q := s.queues[h.Queue]
	if q == nil || q.lanes[h.Target] == nil {
		return
	}
	for key, p := range q.lanes[h.Target].parts {
		if key.retry || !h.Retries {
			p.look = later(p.look, store.Instant(h.Until))
		}
	}
}

// wakeLanes lets discovery look at all lanes of the target from an instant on.
func (s *Store) wakeLanes(target string, from time.Time) {
	for _, q := range s.queues {
		if l := q.lanes[target]; l != nil {
			for _, p := range l.parts {
				p.look = later(from, p.dueAt())
			}
		}
	}
	s.wake()
}
