package worker

import (
	"iter"
	"slices"
	"time"

	"github.com/ebbhq/ebb/dispatch"
	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// release gives back, in bulk, what will not get a permit soon. What a permit
// of this process may still come to waits for a grant's life.
func (l *loop) release(t *turn, now time.Time) {
	for _, n := range l.lanes.order {
		if len(n.runs) == 0 {
			continue
		}
		var held [2]bool
		overdue, ours := false, false
		for _, r := range slices.Clone(n.runs) {
			k := kindOf(r.entry.retry)
			if r.entry.stays {
				l.expire(r, now)
				continue
			}
			if !l.hopeless(r, n.rest[k], now) {
				continue
			}
			overdue = overdue || r.job.DueAt.Before(l.lanes.bornAt)
			l.unline(r)
			why := "waits for its policy"
			if n.rest[k].set {
				why = n.rest[k].verdict.String()
			}
			ours = ours || n.rest[k].ours()
			l.giveBack(r, why)
			held[k] = true
		}
		if held[0] {
			t.Holds = append(t.Holds, store.LaneHold{Queue: n.queue, Target: n.target, Until: n.heldUntil(0, false, now)})
		} else if held[1] {
			t.Holds = append(t.Holds, store.LaneHold{Queue: n.queue, Target: n.target, Retries: true, Until: n.heldUntil(1, overdue, now)})
		}
		switch {
		case !held[0] && !held[1]:
		case (n.active > 0 || ours) && !n.shut(0, now): // the next end calls them back, or a slot
			l.lanes.deepen(n)
		case len(n.runs) == 0: // discovery finds them again
			l.lanes.shallow(n)
		}
	}
}

// releaseSuspects gives back those whose gate holds them for longer than they
// may wait here.
func (l *loop) releaseSuspects(t *turn, now time.Time) {
	l.suspects = slices.DeleteFunc(l.suspects, func(r *run) bool {
		if r.entry == nil {
			return false
		}
		n, k := r.entry.track, kindOf(r.entry.retry)
		if !n.shut(k, now.Add(grantLife)) {
			return false
		}
		t.Holds = append(t.Holds, store.LaneHold{Queue: n.queue, Target: n.target, Retries: k == 1, Until: n.heldUntil(k, false, now)})
		l.giveBack(r, n.rest[k].verdict.String())
		return true
	})
}

// hopeless reports whether waiting longer here is of no use to the run.
func (l *loop) hopeless(r *run, rest refusal, now time.Time) bool {
	patient := now.Before(r.entry.arrivedAt.Add(grantLife))
	if !rest.set {
		return !patient
	}
	if b := rest.booth; b != nil && (b.sent != nil || b.ghost != nil) {
		return false // something may come of that
	}
	v := rest.verdict
	soon := !v.Until.IsZero() && !v.Until.After(now.Add(grantLife)) ||
		v.Until.IsZero() && rest.booth.out() > 0
	return !patient || !soon
}

// ours reports whether this process ends the wait: by a slot, or by a permit
// that it holds, if only for another lane.
func (f refusal) ours() bool {
	return !f.set || f.verdict.Until.IsZero() && f.booth.out() > 0
}

// heldUntil is how long a lane's work is not worth looking at.
func (n *track) heldUntil(kind int, overdue bool, now time.Time) time.Time {
	switch {
	case n.shut(kind, now):
		return n.rest[kind].verdict.Until
	case overdue && !n.rest[kind].set:
		return now.Add(catchUpRest)
	}
	return now.Add(store.LaneRest)
}

// shut reports whether a gate holds the kind until a time that is known.
func (n *track) shut(kind int, now time.Time) bool {
	return n.rest[kind].set && n.rest[kind].verdict.Until.After(now)
}

// claimNamed serves lanes by name of which permits are in hand or to be had:
// as many as may start soon, going by what ended lately.
func (l *loop) claimNamed(t *turn, now time.Time) {
	la := l.lanes
	free, flowing, most := l.laneRoom(now), l.flowing(now), store.NoLimit
	if la.busy() {
		most = l.budget(flowing)
	}
	count, from, full := len(la.order), la.turn, false
	la.turn++
	for i := range count {
		n := la.order[(from+i)%count]
		if !n.more || n.asking > 0 && !la.busy() || n.shut(0, now) || l.doubt {
			continue
		}
		if len(t.lanes.named) >= maxNamed || most <= 0 {
			if !full { // the next turn begins here
				la.turn, full = from+i, true
			}
			for _, b := range n.booths {
				b.awaited = true
			}
			continue
		}
		limit, begin, room := l.claimOf(n, free, flowing, now)
		if !flowing || limit > l.part() { // one that flows falls behind the others if it gets less than they
			limit, begin = min(limit, most), min(begin, most)
		}
		if limit <= 0 {
			continue
		}
		most -= limit
		c := store.LaneClaim{
			Queue: n.queue, Kinds: l.kinds, Target: n.target, Firsts: limit, Retries: limit, Limit: limit, Begin: begin,
			Known: la.versionOf(n.target),
		}
		if n.shut(1, now) {
			c.Retries = 0
		}
		free -= min(room, limit)
		t.Lanes = append(t.Lanes, c)
		t.lanes.named = append(t.lanes.named, named{n, limit})
		n.asking, la.asking, n.ended = n.asking+limit, la.asking+limit, 0
		for _, b := range n.booths {
			b.coming += limit
		}
	}
}

// versionOf is which version of the target's gate is known here.
func (la *lanes) versionOf(target string) int64 {
	if b := la.booths[target]; b != nil {
		return b.row.Version
	}
	return 0
}

// claimOf is how many jobs of a lane a turn claims, how many of them begin at
// once, and how many slots are free for it.
func (l *loop) claimOf(n *track, free int, flowing bool, now time.Time) (limit, begin, room int) {
	held, left := n.permits(now)
	idle := store.NoLimit
	for _, b := range n.booths {
		idle = min(idle, b.idle)
	}
	room = min(max(0, free), left)
	if n.pace != nil {
		room = min(room, n.pace.room(now))
	}
	worth, soon := held, idle+n.ended
	if l.lanes.busy() {
		worth, soon = held+left, soon+n.ended
	}
	limit = min(idle+2*n.ended, worth) + room
	switch ours := l.lanes.busy() && worth <= l.part(); {
	case ours && flowing:
		limit = n.ahead(worth)
		return limit, limit, room
	case ours: // what runs now will have ended when the claim comes back
		limit = max(limit, min(fedAhead*worth-n.active, worth+2*n.ended))
	}
	limit -= len(n.runs) + n.asking
	return limit, min(limit, soon), room
}

// admitSuspect asks for the permits of a suspect, which no floor knows.
func (l *loop) admitSuspect(r *run, now time.Time) bool {
	r.entry = &entry{track: l.lanes.trackOf(&r.job, r.policy), arrivedAt: now}
	r.entry.retry = store.Retrying(r.job.History)
	return l.admission(r, now, true).Admit
}

// out counts the permits of this process, those of the turn that is being
// prepared too.
func (b *booth) out() int {
	n := b.firsts + b.retries
	if b.draft != nil {
		n += b.draft.firsts + b.draft.retries
	}
	return n
}

// room is how many more permits the gate seems to have.
func (b *booth) room(now time.Time) int {
	if b.config == nil || b.sent != nil || b.ghost != nil {
		return 0
	}
	state := &b.state
	if b.draft != nil {
		state = &b.draft.state
	}
	return gate.Room(*b.config, *state, now)
}

// mayDiscover reports whether lanes are to be discovered. Where there are plenty, not
// by two turns at once: they would fight for the same looks.
func (la *lanes) mayDiscover() bool {
	return len(la.hungry) > 0 && (la.seeking == 0 || !la.ample)
}

// discoverAt is when, while other work keeps the store busy, lanes are discovered
// again: after one that found nothing, not within the time that a turn takes.
func (la *lanes) discoverAt() time.Time { return la.emptyAt.Add(max(discoverRest, la.took)) }

// discover looks for lanes whose time has come.
func (l *loop) discover(t *turn, now time.Time) {
	la := l.lanes
	if !la.mayDiscover() || !la.lawful || l.doubt {
		return
	}
	// As lanes that are known are claimed from ahead of their slots, so are
	// those that are not: they would never be found while all slots are taken.
	room, flows := l.laneRoom(now), l.flowing(now)
	if flows { // those that are known have asked for it
		room -= la.asking
	}
	limit := min(l.part(), max(0, room)+la.ended)
	if la.busy() { // a part beyond what lanes that are known may have
		limit = min(limit, l.budget(flows)+l.part())
	}
	if limit <= 0 || len(t.runs) > 0 && l.machine().Before(la.discoverAt()) {
		return
	}
	if la.probeDue(now) {
		limit = max(limit, dispatch.ProbeReach)
	}
	for _, queue := range l.config.Queues {
		if la.hungry[queue] {
			delete(la.hungry, queue)
			t.Lanes = append(t.Lanes, store.LaneClaim{Queue: queue, Kinds: l.kinds, Lanes: limit, Firsts: limit, Retries: limit, Limit: limit})
			t.lanes.sought = append(t.lanes.sought, sought{queue, limit})
			la.seeking++
		}
	}
	la.askedAt, la.ended = now, 0
}

// foundLanes sees which lanes may have more than was claimed.
func (l *loop) foundLanes(t *turn, answer *store.Turned) {
	la := l.lanes
	if la == nil || len(t.Lanes) == 0 {
		return
	}
	got, in := la.given(answer.Claimed)
	for _, c := range t.lanes.named {
		// What it gave beyond the limit was discovered.
		in[c.track.queue] -= min(got[c.track.trackKey], c.limit)
		if n := c.track; got[n.trackKey] < c.limit {
			la.shallow(n)
		}
	}
	for _, left := range answer.Left {
		if n := la.tracks[trackKey{left.Queue, left.Target}]; n != nil {
			la.deepen(n)
		}
	}
	for _, s := range t.lanes.sought {
		if la.ample = in[s.queue] >= s.limit; la.ample {
			la.hungry[s.queue] = true
		}
		if in[s.queue] == 0 {
			la.emptyAt = l.machine()
		}
	}
	l.seeGates(answer.Gates) // of targets that were not known before, too
	l.serve(l.now(), true)
}

// seeGates takes in gates as they stand in the store.
func (l *loop) seeGates(gates []store.Gate) {
	for i := range gates {
		if b := l.lanes.booths[gates[i].Target]; b != nil {
			b.see(gates[i], l.config.Seed)
			l.wakeAt(b)
		}
	}
}

// given counts what lanes and their queues gave.
func (la *lanes) given(jobs []job.Job) (got map[trackKey]int, in map[string]int) {
	got, in = make(map[trackKey]int), make(map[string]int)
	for part := range stretches(jobs) {
		j := &part[0]
		if !la.isLane(j) {
			continue
		}
		key := trackKey{j.Queue, j.Target}
		if j.Target == "" {
			key.target = store.QueueTarget(j.Queue)
		}
		got[key] += len(part)
		in[j.Queue] += len(part)
	}
	return got, in
}

// stretches gives the jobs in parts, each of one lane: most come lane by lane.
func stretches(jobs []job.Job) iter.Seq[[]job.Job] {
	return func(yield func([]job.Job) bool) {
		for i, from := 0, 0; i < len(jobs); from = i {
			for i++; i < len(jobs) && jobs[i].Target == jobs[from].Target && jobs[i].Queue == jobs[from].Queue; i++ {
			}
			if !yield(jobs[from:i]) {
				return
			}
		}
	}
}

// deepen and shallow note whether a lane may have more in the store.
func (la *lanes) deepen(n *track) {
	if !n.more {
		n.more = true
		for _, b := range n.booths {
			b.deep++
		}
	}
}

func (la *lanes) shallow(n *track) {
	if n.more {
		n.more = false
		for _, b := range n.booths {
			b.deep--
		}
	}
}
