package worker

import (
	"slices"
	"strings"
	"time"

	"github.com/ebbhq/ebb/dispatch"
	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/store"
)

// laneTurn is what a turn carries for lanes.
type laneTurn struct {
	starts []*run   // chosen: they begin if the turn is done as asked
	ahead  []*run   // marked as begun before they are chosen; the last of Begin
	swaps  []*booth // of Swaps
	named  []named  // lanes claimed by name
	sought []sought // queues in which lanes are discovered
	flying int      // starts that had ended when it left
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
	// discoverRest is the least time between discoveries that find nothing
	// while other work keeps the store busy. Machine time.
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
	for _, r := range la.begins {
		l.carry(t, r)
	}
	la.begins = la.begins[:0]
	if l.phase == working {
		l.fill(t, now)
		l.releaseSuspects(t, now)
		l.release(t, now)
		l.beginAhead(t)
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
			return l.admission(l.leases.of(i.ID), now, true)
		})
		la.passing, la.passed = false, 0
		if !ok {
			return
		}
		r := l.leases.of(i.ID)
		l.choose(r)
		if r.job.Begun && !r.entry.carved() {
			l.startLane(r, now, false)
		} else {
			l.carry(t, r)
		}
	}
}

// beginAhead marks buffered work as begun with a turn that goes anyway, as
// much as ended since the last one: it starts as soon as a permit comes back.
func (l *loop) beginAhead(t *turn) {
	if len(t.runs) == 0 {
		return
	}
	for _, n := range l.lanes.order {
		for _, r := range n.runs[:min(n.recent, len(n.runs))] {
			if !r.job.Begun {
				t.lanes.ahead, t.Begin = append(t.lanes.ahead, r), append(t.Begin, r.ref())
			}
		}
		n.recent = 0
	}
}

// carved reports whether a permit of the run depends on a swap.
func (p *entry) carved() bool {
	return slices.ContainsFunc(p.permits[:p.held], func(got permit) bool { return got.carved })
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
		if b.awaited {
			most, b.awaited = max(most, b.idle), false
		}
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
			la.expectProbe(b)
		} else {
			b.lost(rowOf(answer.Gates, b.target), l.config.Seed)
		}
		l.wakeAt(b)
	}
	for i, r := range t.begins {
		if r.entry != nil {
			r.job.Begun = answer.Begun[i]
		}
	}
	for i, r := range t.lanes.ahead {
		if !r.job.Begun { // else it may be running: its job is the handler's to read
			r.job.Begun = answer.Begun[len(t.begins)+i]
		}
	}
	for _, r := range t.lanes.starts {
		l.concludeStart(r, now)
	}
	if len(t.Holds) > 0 || len(t.lanes.sought) > 0 { // lanes are looked at later than was known
		l.dueStale = true
	}
	l.shelve(t)
	la.tidy(now)
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
			l.waitAgain(r, now)
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
	l.lanes.seeking -= len(t.lanes.sought)
	for _, c := range t.lanes.named {
		c.track.asking -= c.limit
		l.lanes.asking -= c.limit
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
		if !r.entry.kept {
			r.entry = nil
		}
		l.unbegun(r, now.Add(clockError/10<<r.refusals))
		return
	}
	l.vacate(r)
	l.leases.drop(r.job.Seq)
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

// tidy forgets tracks and booths of which nothing is left. What was seen of a
// gate is remembered for a while: who asks again need not lose a swap first.
func (la *lanes) tidy(now time.Time) {
	la.order = slices.DeleteFunc(la.order, func(n *track) bool {
		if !n.over() {
			return false
		}
		delete(la.tracks, n.trackKey)
		if la.latest == n {
			la.latest = nil
		}
		return true
	})
	for target, b := range la.booths {
		switch {
		case !b.empty():
			b.restsAt = time.Time{}
		case b.restsAt.IsZero():
			b.restsAt = now
		case now.Sub(b.restsAt) > grantLife:
			delete(la.booths, target)
		}
	}
}
