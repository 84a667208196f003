package worker

import "time"

// wakeLanes means that lanes may be there to be discovered.
func (l *loop) wakeLanes() {
	for _, queue := range l.config.Queues {
		l.lanes.hungry[queue] = true
	}
}

// nextLane returns when, by time alone, work of lanes may start, give up its
// place or must be told of, and when the house or a schedule is due.
func (l *loop) nextLane(now time.Time) time.Time {
	la := l.lanes
	if la == nil {
		return time.Time{}
	}
	// What has come by now is acted on before the loop sleeps, or waits for
	// something else: a slot, a turn that comes back, the store.
	var at time.Time
	soonest := func(t time.Time) {
		if t.After(now) {
			at = earlier(at, t)
		}
	}
	soonest(la.floor.NextAt(now))
	soonest(l.periodicAt)
	if l.eldest {
		soonest(l.sweepAt)
	}
	for _, r := range la.paced {
		for _, got := range r.entry.permits[:r.entry.held] {
			if got.slot != nil {
				soonest(got.slot.startAt)
			}
		}
	}
	soonest(l.nextImpatient(now))
	for _, b := range la.booths {
		if b.idle > 0 {
			soonest(b.until)
		}
		if len(b.events) > 0 {
			soonest(b.renewAt())
		}
	}
	return at
}

// nextImpatient returns when the first of what waits here has waited for long
// enough. It may be too early, by what has left since: this is asked whenever the
// loop sleeps, and what waits may be thousands.
func (l *loop) nextImpatient(now time.Time) time.Time {
	la := l.lanes
	if la.lined == 0 {
		return time.Time{}
	}
	if at := la.oldestAt.Add(grantLife); at.After(now) && !la.staying {
		return at
	}
	var at time.Time
	la.oldestAt, la.staying = now, false
	for _, n := range la.order {
		for _, r := range n.runs {
			until := r.entry.arrivedAt.Add(grantLife)
			if r.entry.stays {
				la.staying, until = true, l.expiresAt(r, now)
			} else {
				la.oldestAt = earlier(la.oldestAt, r.entry.arrivedAt)
			}
			if until.After(now) {
				at = earlier(at, until)
			}
		}
	}
	return at
}

// nextDiscovery is the machine time of a discovery that was put off.
func (l *loop) nextDiscovery(now time.Time) time.Time {
	if len(l.lanes.hungry) == 0 {
		return time.Time{}
	}
	if at := l.lanes.discoverAt(); at.After(now) {
		return at
	}
	return time.Time{}
}

// seeks reports whether lanes are being discovered, or are to be.
func (l *loop) seeks() bool {
	la := l.lanes
	return la != nil && (la.seeking > 0 || len(la.hungry) > 0 && l.laneRoom(l.now()) > 0)
}

// asksLanes reports whether lanes have something to ask the store now.
func (l *loop) asksLanes() bool {
	la := l.lanes
	if la == nil {
		return false
	}
	now := l.now()
	if l.seeks() || l.lawDue || l.lawAsking || l.gatesAsking || l.sweeping || l.firing || l.periodicStale {
		return true
	}
	if l.eldest && !l.sweepAt.IsZero() && !now.Before(l.sweepAt) || !l.periodicAt.IsZero() && !now.Before(l.periodicAt) {
		return true
	}
	for _, b := range la.booths {
		if b.sent != nil || b.due(now) {
			return true
		}
	}
	return false
}

// waiting counts the leases that wait for nothing but time or others.
func (la *lanes) waiting() int {
	if la == nil {
		return 0
	}
	count := len(la.paced)
	for _, n := range la.order {
		count += len(n.runs)
	}
	return count
}

// clear reports whether no permit is held and nothing is left to tell.
func (la *lanes) clear() bool {
	if la == nil {
		return true
	}
	for _, b := range la.booths {
		if b.firsts+b.retries > 0 || len(b.events) > 0 || b.sent != nil || b.ghost != nil {
			return false
		}
	}
	return true
}

// drainLanes gives back what has not started; the next turns give back the
// permits.
func (l *loop) drainLanes() {
	la := l.lanes
	if la == nil {
		return
	}
	now := l.now()
	for _, r := range append(la.begins, la.paced...) {
		l.leaveSlot(r, now)
		l.giveBack(r, "stopping")
	}
	la.begins, la.paced = nil, nil
	for _, n := range la.order {
		for len(n.runs) > 0 {
			r := n.runs[0]
			l.unline(r)
			l.giveBack(r, "stopping")
		}
		la.shallow(n)
	}
	la.hungry = make(map[string]bool)
}

// loseLanes forgets everything: the leases and the permits are others' now.
func (l *loop) loseLanes() {
	for r := range l.leases.all() {
		if r.entry != nil && r.entry.reserved {
			l.unreserve(r)
		}
	}
	l.lanes = l.newLanes(l.now())
	l.sweepAt, l.periodicAt = time.Time{}, time.Time{}
}

// unwait takes a lease that has not begun out of where it waits; false if a
// turn under way has it.
func (l *loop) unwait(r *run) bool {
	la := l.lanes
	if l.unline(r) {
		return true
	}
	for _, list := range []*[]*run{&la.begins, &la.paced} {
		for i, s := range *list {
			if s == r {
				*list = append((*list)[:i], (*list)[i+1:]...)
				l.leaveSlot(r, l.now())
				return true
			}
		}
	}
	return false
}

// keepsHouse says whether this process is the eldest.
func (l *loop) keepsHouse(eldest bool) {
	l.eldest = eldest
}
