package dispatch

import "time"

// kind tells apart what may be held for different reasons.
type kind uint8

const (
	first   kind = iota
	retry        // due since this process was born, or without a target
	overdue      // a retry that was due before
)

// line is the index of the kind in account.lines.
func (k kind) line() int { return min(1, int(k)) }

// entry is an item at its place.
type entry struct {
	item  Item
	shelf *shelf
	at    int // in the shelf's heap
}

func (e *entry) before(o *entry) bool { return e.item.before(&o.item) }
func (e *entry) move(to int)          { e.at = to }

// lane is the work of one target that waits.
type lane struct {
	target  string
	ticket  uint64 // the turn at which it last had its turn, or came
	waiting int
	shelves []*shelf // few: one a policy and kind
}

// waits reports whether something does; of a lane that is not there, nothing.
func (l *lane) waits() bool { return l != nil && l.waiting > 0 }

// shelf is the work of one kind and policy in a lane, in its order.
type shelf struct {
	lane    *lane
	account *account
	kind    kind
	items   heap[*entry]

	state  state
	until  time.Time // when timed
	timed  bool      // it is in the timers
	listed bool      // among those that wait for calls to end
	at     int       // in the timers, or when queued in the account's line
}

type state uint8

const (
	empty  state = iota
	queued       // waits for a turn and its policy
	aside        // refused: until a time, or until a wake
)

func (s *shelf) ahead(o *shelf) bool  { return s.lane.ticket < o.lane.ticket }
func (s *shelf) sooner(o *shelf) bool { return s.until.Before(o.until) }
func (s *shelf) move(to int)          { s.at = to }

func (s *shelf) head() *entry { return s.items.members[0] }

// best is the least item of the lane whose policy lets it go now.
func (l *lane) best(slots int, now time.Time) *entry {
	var least *entry
	for _, s := range l.shelves {
		if s.state == queued && s.account.open(s.kind, slots, now) && (least == nil || s.head().before(least)) {
			least = s.head()
		}
	}
	return least
}

// shelf finds the place for such items, or makes it.
func (f *Floor) shelf(target string, a *account, k kind) *shelf {
	l := f.laneOf(target)
	if l == nil {
		l = pop(&f.spareLanes)
		f.turn++
		l.target, l.ticket = target, f.turn
		f.lanes[target] = l
	}
	for _, s := range l.shelves {
		if s.account == a && s.kind == k {
			return s
		}
	}
	s := pop(&f.spareShelves)
	s.lane, s.account, s.kind = l, a, k
	if s.items.less == nil {
		s.items = heap[*entry]{less: (*entry).before, moved: (*entry).move}
	}
	l.shelves = append(l.shelves, s)
	return s
}

// queue lets a shelf wait for its turn.
func (f *Floor) queue(s *shelf) {
	f.unqueue(s)
	s.state = queued
	if s.lane != f.plain {
		s.account.lines[s.kind.line()].push(s)
	}
}

// setAside takes a shelf out of the turns until the time or, if that is zero,
// until a wake.
func (f *Floor) setAside(s *shelf, until time.Time) {
	f.unqueue(s)
	s.state = aside
	if !until.IsZero() {
		s.until, s.timed = until, true
		f.timers.push(s)
	}
}

// unqueue takes a shelf out of wherever it waits.
func (f *Floor) unqueue(s *shelf) {
	switch {
	case s.timed:
		f.timers.remove(s.at)
		s.timed = false
	case s.state == queued && s.lane != f.plain:
		s.account.lines[s.kind.line()].remove(s.at)
	}
	s.state = empty
}

// take removes an entry from what waits.
func (f *Floor) take(e *entry) {
	s, l := e.shelf, e.shelf.lane
	delete(f.entries, e.item.ID)
	s.items.remove(e.at)
	*e = entry{}
	f.spareEntries = append(f.spareEntries, e)
	if s.items.len() == 0 {
		f.unqueue(s)
	}
	if l.waiting--; l.waiting == 0 && l != f.plain {
		delete(f.lanes, l.target)
		f.spareShelves = append(f.spareShelves, l.shelves...)
		clear(l.shelves)
		*l = lane{shelves: l.shelves[:0]}
		f.spareLanes = append(f.spareLanes, l)
	}
}

// goLast gives the lane its next place among the turns. All its shelves leave
// their lines before the ticket changes: a heap bears one change at a time.
func (f *Floor) goLast(l *lane) {
	for _, s := range l.shelves {
		if s.state == queued {
			s.account.lines[s.kind.line()].remove(s.at)
		}
	}
	f.turn++
	l.ticket = f.turn
	for _, s := range l.shelves {
		if s.state == queued {
			s.account.lines[s.kind.line()].push(s)
		}
	}
}

// pop takes a spare one, or makes it.
func pop[T any](spare *[]*T) *T {
	last := len(*spare) - 1
	if last < 0 {
		return new(T)
	}
	got := (*spare)[last]
	(*spare)[last] = nil
	*spare = (*spare)[:last]
	return got
}
