package dispatch

import "time"

// Next picks the next start, counts it as running and takes it from what
// waits; false if nothing can start now. admit asks the gate of the item's
// target for exactly this item: what it admits is started. What it refuses is
// set aside, with all of its kind and policy in the lane, until the answer's
// Until or, where that is zero, until Wake.
func (f *Floor) Next(now time.Time, admit func(Item) Answer) (Item, bool) {
	for f.timers.len() > 0 && !f.timers.members[0].until.After(now) {
		f.queue(f.timers.members[0])
	}
	if f.running >= f.slots {
		return Item{}, false
	}
	for {
		e := f.pick(now)
		if e == nil {
			return Item{}, false
		}
		s := e.shelf
		if s.kind == overdue {
			if until := f.catchUpOf(s.lane.target).holds(s.account.limits.Batch, now); !until.IsZero() {
				f.setAside(s, until)
				continue
			}
		}
		if ok, until := f.spares(s.account, s.lane.target, now); !ok {
			f.waitForSlots(s, until)
			continue
		}
		if answer := admit(e.item); !answer.Admit {
			f.setAside(s, answer.Until)
			continue
		}
		return f.start(e, now), true
	}
}

// Seat starts an item that does not wait, as Add and Next would do where nobody
// else may go and nothing waits in its lane: no turn is taken from anybody, and the
// item need not be put in order. If the gate refuses it, it waits, set aside as Next
// would. If Seat reports neither, nothing has changed: Add the item then.
func (f *Floor) Seat(i *Item, now time.Time, admit func() Answer) (started, waits bool) {
	k, a := f.kindOf(i), f.account(i.Policy)
	if f.running >= f.slots || k == overdue || !a.open(k, f.slots, now) {
		return false, false
	}
	if ok, _ := f.spares(a, i.Target, now); !ok {
		return false, false
	}
	if len(f.entries) > 0 && (!f.Resting(now) || f.laneOf(i.Target).waits()) {
		return false, false
	}
	if answer := admit(); !answer.Admit {
		f.Add(*i)
		f.setAside(f.entries[i.ID].shelf, answer.Until)
		return false, true
	}
	f.count(i, a, now)
	f.plainHad = i.Target == ""
	return true, false
}

// Resting reports whether nobody who waits would take a slot now: gates have
// refused all of it, and neither time nor a wake has come since.
func (f *Floor) Resting(now time.Time) bool {
	if len(f.entries) == 0 {
		return true
	}
	if f.plain.waits() || f.timers.len() > 0 && !f.timers.members[0].until.After(now) {
		return false
	}
	for _, a := range f.listed {
		if a.lines[0].len() > 0 || a.lines[1].len() > 0 {
			return false
		}
	}
	return true
}

// count counts a start as running.
func (f *Floor) count(i *Item, a *account, now time.Time) {
	f.running++
	a.running++
	if i.Retry {
		a.retries++
	}
	if d := a.limits.Spacing; d > 0 {
		a.nextAt = now.Add(d)
	}
	f.began(i.ID, i.Target, a, now)
}

// pick is the item whose turn it is by lanes and policies.
func (f *Floor) pick(now time.Time) *entry {
	plain := f.plain.best(f.slots, now)
	if plain != nil && !f.plainHad {
		return plain
	}
	var next *shelf
	for _, a := range f.listed {
		for i := range a.lines {
			if line := &a.lines[i]; line.len() > 0 && a.open(kind(i), f.slots, now) {
				if s := line.members[0]; next == nil || s.lane.ticket < next.lane.ticket {
					next = s
				}
			}
		}
	}
	if next == nil {
		return plain
	}
	return f.choice(next.lane, now)
}

func (f *Floor) start(e *entry, now time.Time) Item {
	i, s := e.item, e.shelf
	f.count(&i, s.account, now)
	if s.kind == overdue {
		f.catchUpOf(i.Target).started(now)
	}
	l := s.lane
	f.plainHad = l == f.plain
	if f.take(e); l != f.plain && l.waiting > 0 {
		f.goLast(l)
	}
	return i
}

// NextAt is when Next can help by the passing of time alone: now if something
// may go, else the earliest end of a spacing, a catch-up or a gate's hold;
// zero if only an Ended, a Wake or an Add can help.
func (f *Floor) NextAt(now time.Time) time.Time {
	if f.running >= f.slots {
		return time.Time{}
	}
	var at time.Time
	earlier := func(t time.Time) {
		if t.Before(now) {
			t = now
		}
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	if f.timers.len() > 0 {
		earlier(f.timers.members[0].until)
	}
	for _, a := range f.listed {
		for i := range a.lines {
			if a.lines[i].len() > 0 && a.room(kind(i), f.slots) {
				earlier(a.nextAt)
			}
		}
	}
	for _, s := range f.plain.shelves {
		if s.state == queued && s.account.room(s.kind, f.slots) {
			earlier(s.account.nextAt)
		}
	}
	return at
}
