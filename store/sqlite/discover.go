package sqlite

import (
	"errors"
	"time"

	"github.com/ebbhq/ebb/store"
)

// discovery is one search for lanes whose time has come.
type discovery struct {
	*laning
	asked *store.LaneClaim
	kinds []string
	seen  map[string]bool
	open  []*serving // lanes with something to give, in their order
}

// discover takes of the lanes that have waited longest, an equal part each.
func (l *laning) discover(q *queueFacts, c *store.LaneClaim) error {
	kinds, err := l.running(q, c.Kinds)
	if err != nil || c.Lanes <= 0 || c.Limit <= 0 || len(kinds) == 0 {
		return err
	}
	d := &discovery{laning: l, asked: c, kinds: kinds, seen: map[string]bool{}}
	if l.remembers {
		l.store.serves.prune(l.now)
	}
	for more := true; more; {
		if more, err = d.find(); err != nil {
			return err
		}
	}
	if err := d.share(); err != nil {
		return err
	}
	if err := l.handOut(c.Queue, d.open); err != nil {
		return err
	}
	left, err := l.rest(c.Queue, d.open, true)
	l.left = append(l.left, left...)
	return err
}

// shut is a lane that may not be looked at, and until when.
type shut struct {
	target string
	until  time.Time
}

// find looks at the next lanes that could be served; false = there are no
// more, or enough.
func (d *discovery) find() (more bool, err error) {
	next, closed, err := d.candidates()
	if err != nil {
		return false, err
	}
	for _, s := range closed {
		args := []any{s.target, d.asked.Queue, micros(d.instant()), jsonTexts(d.kinds), flag(d.asked.Firsts > 0), flag(d.asked.Retries > 0), micros(s.until)}
		if _, err := d.run("lane_shut", args...); err != nil {
			return false, err
		}
	}
	if len(next) == 0 {
		return false, nil
	}
	if err := d.openLanes(d.asked.Queue, next, micros(d.instant())); err != nil {
		return false, err
	}
	share := max(1, (d.asked.Limit+len(next)-1)/len(next))
	var idle []*serving
	for _, v := range next {
		if err := d.readLane(v, min(share, v.most)); err != nil {
			return false, err
		}
		if len(v.picks) == 0 { // its look was too early
			idle = append(idle, v)
			continue
		}
		d.open = append(d.open, v)
	}
	_, err = d.rest(d.asked.Queue, idle, true)
	return len(d.open) < d.asked.Lanes, err
}

// candidates lists the lanes whose time has come, as many as are wanted, and
// those before them that are shut, have no room or are served by name.
func (d *discovery) candidates() (next []*serving, closed []shut, err error) {
	c := d.asked
	rows, err := d.conn.open(d.ctx, "found", 0, []any{
		c.Queue, micros(d.instant()), jsonTexts(d.kinds), flag(c.Firsts > 0), flag(c.Retries > 0),
	})
	if err != nil {
		return nil, nil, err
	}
	for len(d.open)+len(next) < c.Lanes {
		r, err := rows.next()
		if err != nil || r == nil {
			return next, closed, errors.Join(err, rows.close())
		}
		target := r.text(0)
		if d.seen[target] {
			continue
		}
		d.seen[target] = true
		if d.remembers && d.store.serves.is(servedLane{d.process, c.Queue, target}, d.now) {
			closed = append(closed, shut{target, d.instant().Add(store.LaneRest)})
			continue
		}
		most := c.Limit
		if gated := r[2] != nil; gated {
			openAt, room := r.at(1), int(r.int(2))
			switch {
			case openAt.After(d.instant()):
				closed = append(closed, shut{target, openAt})
				continue
			case room <= 0:
				closed = append(closed, shut{target, d.instant().Add(store.LaneRest)})
				continue
			}
			most = min(most, room)
		}
		next = append(next, &serving{target: target, kinds: d.kinds, firsts: c.Firsts, retries: c.Retries, most: most})
	}
	return next, closed, rows.close()
}

// share gives the lanes equal parts of the limit: what one does not need is
// the others'.
func (d *discovery) share() error {
	for {
		left := d.deal()
		var short []*serving // could give more than was read
		for _, v := range d.open {
			if v.took == len(v.picks) && !v.whole {
				short = append(short, v)
			}
		}
		if left == 0 || len(short) == 0 {
			return nil
		}
		for _, v := range short {
			if err := d.readLane(v, len(v.picks)+(left+len(short)-1)/len(short)); err != nil {
				return err
			}
		}
	}
}

// deal gives out the first picks of all lanes, then the second ones, and so
// on; it returns what is left of the limit.
func (d *discovery) deal() int {
	left := d.asked.Limit
	took := make([]int, len(d.open))
	for gave := true; gave && left > 0; {
		gave = false
		for i, v := range d.open {
			if took[i] < len(v.picks) && left > 0 {
				took[i]++
				left--
				gave = true
			}
		}
	}
	for i, v := range d.open {
		v.take(took[i])
	}
	return left
}
