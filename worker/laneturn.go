package worker

import (
	"slices"
	"strings"
	"time"

	"github.com/ebbhq/ebb/dispatch"
	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// laneTurn is what a turn carries for lanes.
type laneTurn struct {
	starts []*run   // chosen: they begin if the turn is done as asked
	swaps  []*booth // of Swaps
	named  []named  // lanes claimed by name
	sought []sought // queues in which lanes are discovered
}

// named is a claim by name.
type named struct {
	track *track
	limit int
}

// sought is a discovery.
type sought struct {
	queue string
	limit int
}

const (
	// maxNamed is how many lanes a turn claims by name; they take turns.
	maxNamed = 256
	// discoverRest is the time between discoveries that find nothing while
	// other work keeps the store busy. Machine time.
	discoverRest = 5 * time.Millisecond
	// catchUpRest is how long retries rest that a process catches up with:
	// few of them may go, and looking for them would be most of the work.
	catchUpRest = dispatch.CatchUpEvery / 6
)

// serveTurn puts into a turn what lanes need of it: begins, releases, swaps
// and claims.
func (l *loop) serveTurn(t *turn, now time.Time) {
	la := l.lanes
	if la == nil {
		return
	}
	la.odd = !la.odd
	for _, r := range la.begins {
		l.carry(t, r)
	}
	la.begins = la.begins[:0]
	if l.phase == working {
		l.fill(t, now)
		l.release(t, now)
		l.claimNamed(t, now)
		l.discover(t, now)
	}
	l.swapAll(t, now)
}

// carry lets a chosen run begin with the turn.
func (l *loop) carry(t *turn, r *run) {
	t.lanes.starts = append(t.lanes.starts, r)
	if !r.job.Begun {
		t.begins, t.Begin = append(t.begins, r), append(t.Begin, r.ref())
	}
}

// fill chooses who starts in the slots that are free, with permits in hand or
// carved by this turn.
func (l *loop) fill(t *turn, now time.Time) {
	la := l.lanes
	for _, b := range la.booths {
		if b.sent == nil && b.ghost == nil {
			l.wakeAt(b)
		}
	}
	if r := l.nextSuspect(now, true); r != nil {
		l.reserve(r)
		l.suspect = r
		l.carry(t, r)
	}
	la.starved = false
	for {
		if l.laneRoom(now) <= 0 {
			la.starved = len(la.tracks) > 0 && !la.floor.NextAt(now).After(now) && !la.floor.NextAt(now).IsZero()
			return
		}
		i, ok := la.floor.Next(now, func(i dispatch.Item) dispatch.Answer {
			return l.admission(l.leases[i.ID], now, true)
		})
		if !ok {
			return
		}
		r := l.leases[i.ID]
		l.choose(r)
		if r.job.Begun && !r.entry.carved() {
			l.startLane(r, now, false)
		} else {
			l.carry(t, r)
		}
	}
}

// carved reports whether a permit of the run depends on a swap.
func (p *entry) carved() bool {
	return slices.ContainsFunc(p.permits[:p.held], func(got permit) bool { return got.carved })
}

// release gives back, in bulk, what will not get a permit soon. What a permit
// of this process may still come to waits for a grant's life.
func (l *loop) release(t *turn, now time.Time) {
	for _, n := range l.lanes.order {
		if len(n.runs) == 0 {
			continue
		}
		var held [2]bool
		overdue := false
		for _, r := range slices.Clone(n.runs) {
			k := kindOf(r.entry.item.Retry)
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
		case n.active > 0 && !n.shut(0, now): // the next end calls them back
			l.lanes.deepen(n)
		case len(n.runs) == 0: // discovery finds them again
			l.lanes.shallow(n)
		}
	}
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
		v.Until.IsZero() && rest.booth.firsts+rest.booth.retries > 0
	return !patient || !soon
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
	free := l.laneRoom(now)
	count := len(la.order)
	for i := range count {
		n := la.order[(la.turn+i)%count]
		if !n.more || n.asking || n.shut(0, now) || len(t.lanes.named) >= maxNamed || l.doubt {
			continue
		}
		idle, room, worth := store.NoLimit, max(0, free), 1
		for _, b := range n.booths {
			idle = min(idle, b.idle)
			room = min(room, b.room(now))
			worth = max(worth, b.firsts+b.retries)
		}
		limit := min(idle+2*n.ended, worth) + room - len(n.runs)
		if limit <= 0 {
			continue
		}
		c := store.LaneClaim{
			Queue: n.queue, Kinds: l.kinds, Target: n.target, Firsts: limit, Retries: limit, Limit: limit,
			Begin: min(limit, idle+n.ended),
		}
		if n.shut(1, now) {
			c.Retries = 0
		}
		free -= min(room, limit)
		t.Lanes = append(t.Lanes, c)
		t.lanes.named = append(t.lanes.named, named{n, limit})
		n.asking, n.ended = true, 0
		for _, b := range n.booths {
			b.coming += limit
		}
	}
	la.turn++
}

// admitSuspect asks for the permits of a suspect, which no floor knows.
func (l *loop) admitSuspect(r *run, now time.Time) bool {
	r.entry = &entry{track: l.lanes.trackOf(&r.job, r.policy), arrivedAt: now}
	r.entry.item = itemOf(r)
	return l.admission(r, now, true).Admit
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

// discover looks for lanes whose time has come.
func (l *loop) discover(t *turn, now time.Time) {
	la := l.lanes
	if len(la.hungry) == 0 || l.doubt {
		return
	}
	limit := min(l.part(), l.laneRoom(now))
	if limit <= 0 || len(t.runs) > 0 && l.machine().Before(la.emptyAt.Add(discoverRest)) {
		return
	}
	for _, queue := range l.config.Queues {
		if la.hungry[queue] {
			delete(la.hungry, queue)
			t.Lanes = append(t.Lanes, store.LaneClaim{Queue: queue, Kinds: l.kinds, Lanes: limit, Firsts: limit, Retries: limit, Limit: limit})
			t.lanes.sought = append(t.lanes.sought, sought{queue, limit})
		}
	}
	la.askedAt = now
}

// swapAll lets every booth that has something to tell swap its gate, and
// gives back what nobody waits for.
func (l *loop) swapAll(t *turn, now time.Time) {
	la := l.lanes
	for _, b := range la.booths {
		if b.sent != nil || b.ghost != nil || b.config == nil {
			continue
		}
		most := b.waiting[0] + b.waiting[1] + b.coming
		if !now.Before(b.until) || l.phase != working {
			most = 0
		}
		l.sparing(b, most, now)
		if b.due(now) {
			t.lanes.swaps = append(t.lanes.swaps, b)
		} else {
			b.draft = nil
		}
	}
	slices.SortFunc(t.lanes.swaps, func(a, b *booth) int { return strings.Compare(a.target, b.target) })
	for _, b := range t.lanes.swaps {
		t.Swaps = append(t.Swaps, b.swap(l.process, now))
	}
}

// sparing gives idle permits back. A draft that was made before learns of it.
func (l *loop) sparing(b *booth, most int, now time.Time) {
	for b.idle > most {
		if d := b.draft; d != nil {
			d.state, _ = gate.Step(*b.config, d.state, gate.Abandon{Unused: true}, now, 0)
		}
		b.spare(b.idle-1, now, l.config.Seed)
	}
}

// turnedLanes takes in what a turn did for lanes.
func (l *loop) turnedLanes(t *turn, answer *store.Turned) {
	la, now := l.lanes, l.now()
	if la == nil {
		return
	}
	for i, b := range t.lanes.swaps {
		before, d := b.row.State, b.sent
		if answer.Swapped[i] {
			b.done(b.config, now)
			l.tellGate(b, &before, d, now)
			l.expectSweep(b, now)
		} else {
			b.lost(rowOf(answer.Gates, b.target), l.config.Seed)
		}
		l.wakeAt(b)
	}
	begun := 0
	for _, r := range t.begins {
		if r.entry != nil {
			r.job.Begun = answer.Begun[begun]
		}
		begun++
	}
	for _, r := range t.lanes.starts {
		l.concludeStart(r, now)
	}
	l.shelve(t)
	la.tidy()
}

// failedLanes undoes what a turn was to do for lanes. Whether it was done is
// found out before the next one.
func (l *loop) failedLanes(t *turn) {
	la, now := l.lanes, l.now()
	if la == nil {
		return
	}
	for _, b := range t.lanes.swaps {
		b.unsure()
	}
	for _, r := range t.lanes.starts {
		if l.leaveSlot(r, now); r.verdict.to != "" {
			l.pending = append(l.pending, r)
		} else if l.phase != working {
			l.giveBack(r, "stopping")
		} else if r.isSuspect() {
			l.suspects = append(l.suspects, r)
		} else {
			l.lineUp(r, now)
		}
	}
	l.shelve(t)
	for _, s := range t.lanes.sought {
		la.hungry[s.queue] = true
	}
}

// doubtful lists the targets of swaps of which nobody knows whether they were
// done.
func (la *lanes) doubtful() []string {
	var targets []string
	if la != nil {
		for target, b := range la.booths {
			if b.ghost != nil {
				targets = append(targets, target)
			}
		}
	}
	return targets
}

// shelve lets claims be made again.
func (l *loop) shelve(t *turn) {
	for _, c := range t.lanes.named {
		c.track.asking = false
		for _, b := range c.track.booths {
			b.coming -= c.limit
		}
	}
}

// concludeStart starts a chosen run, if the turn did what it needs.
func (l *loop) concludeStart(r *run, now time.Time) {
	p := r.entry
	lost := slices.ContainsFunc(p.permits[:p.held], func(got permit) bool { return got.carved && !got.booth.won })
	switch {
	case r.verdict.to != "": // cancelled meanwhile
		l.leaveSlot(r, now)
		l.pending = append(l.pending, r)
	case l.phase != working:
		l.leaveSlot(r, now)
		l.giveBack(r, "stopping")
	case !r.job.Begun:
		l.leaveSlot(r, now)
		l.refusedBegin(r, now)
	case lost:
		l.unchoose(r, now)
	default:
		for i := range p.permits {
			p.permits[i].carved = false
		}
		r.job.LeasedAt = store.Instant(now)
		l.startLane(r, now, true)
	}
}

// refusedBegin is for a lease that the store did not let begin.
func (l *loop) refusedBegin(r *run, now time.Time) {
	if r.refusals++; r.refusals < maxRefusals {
		r.entry = nil
		l.unbegun(r, now.Add(clockError/10<<r.refusals))
		return
	}
	delete(l.leases, r.job.Seq)
	l.doubt = true
	l.observe(r, Event{What: Refused})
}

func rowOf(gates []store.Gate, target string) store.Gate {
	i, found := slices.BinarySearchFunc(gates, target, func(g store.Gate, target string) int { return strings.Compare(g.Target, target) })
	if !found {
		return store.Gate{Target: target, Room: store.NoLimit}
	}
	return gates[i]
}

// foundLanes sees which lanes may have more than was claimed.
func (l *loop) foundLanes(t *turn, jobs []job.Job, gates []store.Gate) {
	la := l.lanes
	if la == nil || len(t.Lanes) == 0 {
		return
	}
	got := make(map[trackKey]int)
	in := make(map[string]int)
	for i := range jobs {
		if j := &jobs[i]; la.isLane(j) {
			key := trackKey{j.Queue, j.Target}
			if j.Target == "" {
				key.target = store.QueueTarget(j.Queue)
			}
			got[key]++
			in[j.Queue]++
		}
	}
	byName := make(map[trackKey]bool)
	for _, c := range t.lanes.named {
		byName[c.track.trackKey] = true
		in[c.track.queue] -= got[c.track.trackKey]
		if n := c.track; got[n.trackKey] < c.limit {
			la.shallow(n)
		}
	}
	for _, s := range t.lanes.sought {
		full := in[s.queue] >= s.limit
		if full {
			la.hungry[s.queue] = true
		}
		if in[s.queue] == 0 {
			la.emptyAt = l.machine()
		}
		for key, n := range got {
			if found := la.tracks[key]; key.queue == s.queue && !byName[key] && found != nil && (full || n >= rowOf(gates, key.target).Room) {
				la.deepen(found)
			}
		}
	}
	for i := range gates {
		if b := la.booths[gates[i].Target]; b != nil {
			b.see(gates[i], l.config.Seed)
			l.wakeAt(b)
		}
	}
	l.serve(l.now(), true)
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

// tidy forgets lines and booths of which nothing is left.
func (la *lanes) tidy() {
	la.order = slices.DeleteFunc(la.order, func(n *track) bool {
		over := len(n.runs) == 0 && n.active == 0 && !n.more && !n.asking
		if over {
			delete(la.tracks, n.trackKey)
		}
		return over
	})
	for target, b := range la.booths {
		if b.empty() {
			delete(la.booths, target)
		}
	}
}
