package worker

import (
	"slices"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// pressing reports whether a turn is worth a round trip of its own now. Starts
// of lanes that succeeded are not: while one is under way, or as long as work
// for the slots is in hand, they gather and go together. Whatever would let
// somebody begin, or be told of a failure, is. Where lanes flow, one turn leaves
// as another comes back: what may be found besides waits for that, and does not
// break up what goes together.
func (l *loop) pressing(now time.Time) bool {
	la := l.lanes
	if l.phase != working || la == nil || len(l.kept) > 0 || len(l.suspects) > 0 || len(la.begins) > 0 {
		return true
	}
	flows := l.flowing(now)
	if !flows && l.claims(now) {
		return true
	}
	for l.calm = min(l.calm, len(l.pending)); l.calm < len(l.pending); l.calm++ {
		if !l.pending[l.calm].calm() {
			return true
		}
	}
	return l.wanting(now, flows)
}

// wanting reports whether slots are free for work of lanes to which a turn of
// its own would help: lanes to discover, permits to carve, or, where lanes flow,
// plenty of either. Less than that waits there: two turns that each bring half of
// it cost twice as much, and of many lanes some always want something.
func (l *loop) wanting(now time.Time, flows bool) bool {
	la := l.lanes
	if l.laneRoom(now) <= 0 {
		return false
	}
	if flows {
		return l.plenty(now) || l.barred(now)
	}
	if la.mayDiscover() {
		return true
	}
	for _, n := range la.order {
		if len(n.runs) > 0 && (n.pace == nil || n.pace.room(now) > 0) && n.carves() {
			return true
		}
	}
	return false
}

// barred reports whether half of a turn's part or more waits here for nothing but
// permits that a turn would carve: that is worth one of its own.
func (l *loop) barred(now time.Time) bool {
	la, enough := l.lanes, (l.part()+1)/2
	if la == nil || la.lined < enough || l.laneRoom(now) < enough {
		return false
	}
	waiting := 0
	for _, n := range la.order {
		if len(n.runs) > 0 && n.carves() {
			_, left := n.permits(now)
			waiting += min(len(n.runs), left)
		}
	}
	return waiting >= enough
}

// bulk is how many jobs of lanes are worth a turn of their own beside another.
func (l *loop) bulk() int { return max(l.part(), leastBulk) }

// flowing reports whether starts end faster than turns, in lanes in which so
// many may run that three turns at once are worth it, each with as much of a lane
// as may run at once: the store is at work on two while the answer of the third
// is taken in.
func (l *loop) flowing(now time.Time) bool {
	part, bulk := l.part(), l.bulk()
	if !l.lanes.busy() || len(l.lanes.order)*part < bulk || l.stock() < bulk {
		return false
	}
	sum := 0
	for _, n := range l.lanes.order {
		if n.more && !n.shut(0, now) {
			if sum += min(n.worth(now), part); sum >= bulk {
				return true
			}
		}
	}
	return false
}

// permits returns how many the process holds for the lane's work, and how many
// more its gates seem to have left.
func (n *track) permits(now time.Time) (held, left int) {
	held, left = 1, store.NoLimit
	for _, b := range n.booths {
		held, left = max(held, b.firsts+b.retries), min(left, b.room(now))
	}
	return held, left
}

// worth is how many starts of the lane those allow at once.
func (n *track) worth(now time.Time) int {
	held, left := n.permits(now)
	return held + left
}

// ahead is how much of a lane one of three turns claims: what may run at once,
// and no more than two such parts beyond what runs.
func (n *track) ahead(worth int) int {
	return min(worth, 3*worth-n.active-len(n.runs)-n.asking)
}

// budget is how much a turn claims of all lanes together where starts end faster
// than turns: many limits may let far more run at once than there are slots. Where
// lanes flow, each of three turns has as much as there are slots, so that with any
// number of lanes turns are as big as with few, and lanes take turns at them.
func (l *loop) budget(flows bool) int {
	la := l.lanes
	held := la.running + la.lined + la.asking
	if flows {
		most := max(l.config.Concurrency, l.bulk())
		return min(most, 3*most+most/2-held) // a few that wait keep no turn from being whole
	}
	return min(l.stock(), 2*l.stock()-held-la.seeking*l.part())
}

// stock is half of what may be held of all lanes together where they do not flow.
func (l *loop) stock() int { return max(heldSlots*l.config.Concurrency, leastHeld) }

// plenty reports whether lanes that flow, and in which next to nothing is left
// to run here, have enough for a second turn.
func (l *loop) plenty(now time.Time) bool {
	la := l.lanes
	enough := max(l.bulk(), 4*(la.running+la.lined))
	if l.budget(true) < enough {
		return false
	}
	claims := 0
	for _, n := range la.order {
		if worth := n.worth(now); n.more && !n.shut(0, now) && worth <= l.part() {
			if claims += max(0, n.ahead(worth)); claims >= enough {
				return true
			}
		}
	}
	return false
}

// carves reports whether what waits in the line needs a turn to get its
// permits, and nothing else.
func (n *track) carves() bool {
	return !n.rest[kindOf(n.runs[0].entry.retry)].set &&
		!slices.ContainsFunc(n.booths, func(b *booth) bool { return b.sent != nil || b.ghost != nil })
}

// calm reports whether nobody waits for the result: it is a lane's, in no
// strict queue and of no key, and it succeeded.
func (r *run) calm() bool {
	return r.entry != nil && !r.entry.stays && r.verdict.to == job.Succeeded && r.job.Key == ""
}

// Results of lanes gather where manyEnds or more come back during one turn, and
// none waits for others longer than gatherLanes, machine time. There no more of
// a lane is in hand or asked for than may run at once and ended twice since the
// last claim, fedAhead times what may run at once at most; and of all lanes about
// twice heldSlots times the slots, or twice leastHeld where slots are few: that
// is what they work off while a turn is under way and the next one gathers.
const (
	manyEnds    = 4
	gatherLanes = 10 * time.Millisecond
	leastBulk   = 1000
	fedAhead    = 24
	heldSlots   = 3
	leastHeld   = 240
)

// busy reports whether starts end faster than turns.
func (la *lanes) busy() bool { return la.flown >= manyEnds }

// gathering reports whether results wait for more of them: there is something
// in hand for all who end while a turn is under way, going by the last one, and
// the first result has not waited for long.
func (l *loop) gathering(machine time.Time) bool {
	la := l.lanes
	return la != nil && l.phase == working && len(l.pending) > 0 && la.busy() && la.lined > la.flown &&
		machine.Before(l.pendingAt.Add(gatherLanes)) && !l.pressing(l.now())
}

// fly and landed count what ends while a turn is under way.
func (la *lanes) fly() int {
	if la == nil {
		return 0
	}
	return la.ends
}

func (la *lanes) landed(t *turn, now time.Time) {
	if la != nil {
		la.flown, la.landedAt = la.ends-min(t.lanes.flying, la.landedAt), la.ends
		la.landedOn, la.took = now, now.Sub(t.leftAt)
	}
}

// notice counts what has ended since the last turn came back, if that took no
// longer than the turn: the first ones of a backlog need not wait for another to
// be known as faster than turns.
func (la *lanes) notice(now time.Time) {
	if la != nil && !la.busy() && now.Sub(la.landedOn) <= la.took {
		la.flown = max(la.flown, la.ends-la.landedAt)
	}
}
