package sqlite

import (
	"cmp"
	"errors"
	"slices"

	"github.com/ebbhq/ebb/store"
)

// serving is a lane while a claim takes of it.
type serving struct {
	target  string
	kinds   []string
	firsts  int // the most that it may give
	retries int
	most    int
	begin   int
	parts   []*part
	picks   []*part // whose next row goes next, as far as was read
	whole   bool    // picks has all that the lane may give
	took    int     // of the picks
}

// part is the waiting jobs of a kind, first attempts or retries.
type part struct {
	id    int64
	kind  string
	retry bool
	rows  []waiter // what may start now, as far as it was read
	taken int      // of the rows
	given int      // of the taken, while they are put in order
}

// waiter is where a job stands in its part.
type waiter struct{ priority, due, seq int64 }

// before is the order of a lane.
func (a waiter) before(b waiter) bool {
	return cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(a.due, b.due), cmp.Compare(a.seq, b.seq)) < 0
}

// laning is the lane claims of a turn.
type laning struct {
	*tx
	process   int64
	remembers bool // the turn is of the store's own time
	handed    []*handed
	targets   map[string]bool // of which a job was claimed
	left      []store.LaneName
}

// all does the lane claims, in their order. Neighbours that name lanes of
// one queue, each once, are served together.
func (l *laning) all(claims []store.LaneClaim) error {
	for len(claims) > 0 {
		n := 1
		for n < len(claims) && together(claims[:n], &claims[n]) {
			n++
		}
		run := claims[:n]
		claims = claims[n:]
		q, err := l.queue(run[0].Queue)
		if err != nil {
			return err
		}
		switch {
		case !q.exists || q.paused:
		case run[0].Target == "":
			err = l.discover(q, &run[0])
		default:
			err = l.serve(q, run)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// together reports whether the next claim may be served with the others.
func together(run []store.LaneClaim, next *store.LaneClaim) bool {
	return run[0].Target != "" && next.Target != "" && next.Queue == run[0].Queue &&
		!slices.ContainsFunc(run, func(c store.LaneClaim) bool { return c.Target == next.Target })
}

// serve takes of lanes by their names.
func (l *laning) serve(q *queueFacts, claims []store.LaneClaim) error {
	lanes := make([]*serving, len(claims))
	for i := range claims {
		c := &claims[i]
		kinds, err := l.running(q, c.Kinds)
		if err != nil {
			return err
		}
		lanes[i] = &serving{target: c.Target, kinds: kinds, firsts: c.Firsts, retries: c.Retries, most: c.Limit, begin: c.Begin}
	}
	queue := claims[0].Queue
	if err := l.openLanes(queue, lanes, nil); err != nil {
		return err
	}
	for i, v := range lanes {
		if err := l.readLane(v, v.most); err != nil {
			return err
		}
		if v.take(len(v.picks)); l.remembers {
			l.store.serves.note(l.process, &claims[i], v.took, l.now)
		}
	}
	if err := l.handOut(queue, lanes); err != nil {
		return err
	}
	_, err := l.rest(queue, lanes, false)
	return err
}

// openLanes reads which parts the lanes have of those that they may give of, and
// whose look has come, if that is asked for.
func (t *tx) openLanes(queue string, lanes []*serving, look any) error {
	targets := make([]string, len(lanes))
	for i, v := range lanes {
		targets[i] = v.target
	}
	return t.query(t.ctx, "parts", []any{jsonTexts(targets), queue, look}, func(r row) error {
		v, p := lanes[r.int(0)], &part{kind: r.text(1), retry: r.flag(2), id: r.int(3)}
		if v.quota(p) > 0 && slices.Contains(v.kinds, p.kind) {
			v.parts = append(v.parts, p)
		}
		return nil
	})
}

// quota is the most that the lane may give of the part.
func (v *serving) quota(p *part) int {
	if p.retry {
		return v.retries
	}
	return v.firsts
}

// readLane reads what the lane may give, up to most jobs, and of each part one
// more: so it is known whether any is left behind.
func (t *tx) readLane(v *serving, most int) error {
	for _, p := range v.parts {
		if err := t.readPart(p, min(most, v.quota(p))+1); err != nil {
			return err
		}
	}
	v.merge(most)
	return nil
}

// readPart reads where up to n jobs of a part stand, onto the desk. What they
// are is read of those that are taken, of all lanes together.
func (t *tx) readPart(p *part, n int) error {
	rows, err := t.open(t.ctx, "part", 0, []any{p.id, micros(t.instant())})
	if err != nil {
		return err
	}
	d := &t.desk
	first := len(d.rows)
	for len(d.rows)-first < n {
		r, err := rows.next()
		if err != nil {
			return errors.Join(err, rows.close())
		}
		if r == nil {
			break
		}
		d.rows = append(d.rows, waiter{r.int(0), r.int(1), r.int(2)})
	}
	p.rows = d.rows[first:len(d.rows):len(d.rows)]
	return rows.close()
}

// merge brings the parts into one order.
func (v *serving) merge(most int) {
	firsts, retries := v.firsts, v.retries
	next := make([]int, len(v.parts))
	v.picks, v.whole = v.picks[:0], true
	for {
		first := -1
		for i, p := range v.parts {
			left := firsts
			if p.retry {
				left = retries
			}
			if next[i] < len(p.rows) && left > 0 && (first < 0 || p.rows[next[i]].before(v.parts[first].rows[next[first]])) {
				first = i
			}
		}
		if first < 0 || len(v.picks) == v.most {
			return
		}
		if len(v.picks) == most {
			v.whole = false
			return
		}
		p := v.parts[first]
		if next[first]++; p.retry {
			retries--
		} else {
			firsts--
		}
		v.picks = append(v.picks, p)
	}
}

// take gives the first n picks away.
func (v *serving) take(n int) {
	v.took = n
	for _, p := range v.parts {
		p.taken = 0
	}
	for _, p := range v.picks[:n] {
		p.taken++
	}
}

// rest says when discovery looks at the parts next. One that has nothing left
// to start waits for its next job; one that has some rests, if the lane was
// discovered and gave anything: that lane is left with due work.
func (t *tx) rest(queue string, lanes []*serving, discovered bool) (left []store.LaneName, err error) {
	for _, v := range lanes {
		rests := false
		for _, p := range v.parts {
			switch {
			case p.taken == len(p.rows):
				err = t.spent(p)
			case discovered && v.took > 0:
				rests = true
				_, err = t.run("look_after", p.id, micros(t.instant().Add(store.LaneRest)))
			}
			if err != nil {
				return nil, err
			}
		}
		if rests {
			left = append(left, store.LaneName{Queue: queue, Target: v.target})
		}
	}
	return left, nil
}

// spent forgets a part that is empty; else nothing of it can start yet.
func (t *tx) spent(p *part) error {
	n, err := t.run("lane_fold", p.id)
	if err != nil || n > 0 {
		return err
	}
	_, err = t.run("look_next", p.id, micros(t.instant()), micros(store.Never))
	return err
}

// hold keeps lanes from discovery.
func (t *tx) hold(holds []store.LaneHold) error {
	for _, h := range holds {
		until := store.Instant(h.Until)
		if until.IsZero() {
			continue
		}
		if _, err := t.run("lane_hold", h.Target, h.Queue, flag(h.Retries), micros(until)); err != nil {
			return err
		}
	}
	return nil
}
