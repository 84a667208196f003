// Package dispatch answers "who goes next?" for one process: of the due work
// that waits for a start, which item takes the next free slot. It is pure
// data: no clock, no goroutine, no randomness; the same calls give the same
// answers. Worker and simulator both use it.
//
// # Turns
//
// Work waits in lanes, one a target; work without a target is the plain lane.
// Lanes take turns: the one that has waited longest for its turn goes next,
// a new one last. The plain lane gets every second turn, so that many targets
// cannot starve it. Within a lane the least by (priority, due, id) goes.
//
// # What may not go lets others pass
//
// A lane keeps first attempts and retries of each policy apart. Where one
// kind may not go, the lane's other kinds may:
//
//   - a policy has no room: its concurrency in this process is reached, its
//     spacing has not passed, or, for retries, only the slots kept for first
//     attempts are left;
//   - the target's gate refuses it (the caller's admit): it is set aside until
//     the time that the gate names, or until Wake;
//   - the target catches up;
//   - calls that have run long hold their share of the policy's slots, and the
//     target is not known to answer.
//
// # Probes
//
// Where the next start of a target is a probe, which decides whether all other
// work of the target may go, work that has not failed before goes first, and
// not the first in line but the last of the first ProbeReach.
//
// # Catching up
//
// A process that was down finds retries that were due long ago. A target with
// a retry that was overdue by more than CatchUpAfter when the process was
// born catches up: of its retries due before then, at most Batch start in any
// CatchUpEvery. First attempts and later retries are not held by it.
//
// # Cost
//
// A step takes O(log n) in lanes and items, and time in proportion to the
// number of policies, which are few. Nothing depends on the order of a map.
package dispatch

import (
	"math"
	"time"

	"github.com/ebbhq/ebb/policy"
)

const (
	// CatchUpAfter is by how much a retry must be overdue at birth for its
	// target to catch up gently.
	CatchUpAfter = 30 * time.Second
	// CatchUpEvery is the span in which at most Limits.Batch of a target's
	// overdue retries start.
	CatchUpEvery = 30 * time.Second
)

// Item is one due job that waits for a start.
type Item struct {
	ID       int64  // the job's sequence number, unique among what waits
	Target   string // whom it calls; "" = nobody: the plain lane
	Policy   string // whose limits bound it
	Retry    bool   // not the job's first attempt
	Repeat   bool   // it has failed before, if only before a redrive
	Priority int    // the least goes first
	DueAt    time.Time
}

// Place is what a start has of the floor until it ends.
type Place struct {
	ID     int64
	Policy string
	Retry  bool
}

// Place is what the item has of the floor when it runs.
func (i *Item) Place() Place { return Place{ID: i.ID, Policy: i.Policy, Retry: i.Retry} }

// before is the order within a lane.
func (i *Item) before(j *Item) bool {
	if i.Priority != j.Priority {
		return i.Priority < j.Priority
	}
	if c := i.DueAt.Compare(j.DueAt); c != 0 {
		return c < 0
	}
	return i.ID < j.ID
}

// Limits are those of a policy within this process. The zero Limits hold
// nothing back.
type Limits struct {
	Concurrency int           // starts at once; 0 = no limit
	FirstShare  float64       // share of Concurrency that is kept for first attempts; 0 = none
	Spacing     time.Duration // between two starts; 0 = none
	Batch       int           // most overdue retries of a target that start in any CatchUpEvery; 0 = no limit
	SlowShare   float64       // most of Concurrency that calls which have run long may hold; 0 = no limit
}

// LimitsOf returns what the policy promises of one process.
func LimitsOf(p *policy.Policy) Limits {
	return Limits{Concurrency: p.Concurrency, FirstShare: p.FirstShare, Spacing: p.Spacing, Batch: p.Batch, SlowShare: p.SlowShare}
}

// Answer is a gate's answer to "may this item start now?".
type Answer struct {
	Admit bool
	// Until is when asking again can help by time alone; zero if only a Wake
	// can tell. It is read only of a refusal.
	Until time.Time
}

// Floor is what waits and what runs in one process. It is not safe for use by
// several goroutines at once.
type Floor struct {
	slots   int
	bornAt  time.Time
	running int

	accounts   map[string]*account
	listed     []*account // the same, in the order of their first use
	latest     *account   // the one last asked for, as the next mostly is
	latestName string
	entries    map[int64]*entry
	lanes      map[string]*lane // those with a target and something that waits
	plain      *lane
	timers     heap[*shelf] // set aside until a time
	catchUps   map[string]*catchUp
	slow       slowness
	probing    func(target string) bool // nil = none is

	turn     uint64 // counts the turns given out
	plainHad bool   // the last turn was the plain lane's

	spareEntries []*entry
	spareShelves []*shelf
	spareLanes   []*lane
}

// New returns the empty floor of a process with so many slots. What was due
// before bornAt is what it may have to catch up with.
func New(slots int, bornAt time.Time) *Floor {
	return &Floor{
		slots: slots, bornAt: bornAt,
		accounts: map[string]*account{},
		entries:  map[int64]*entry{},
		lanes:    map[string]*lane{},
		plain:    &lane{},
		timers:   heap[*shelf]{less: (*shelf).sooner, moved: (*shelf).move},
		catchUps: map[string]*catchUp{},
		slow:     slowness{pulses: map[string]*pulse{}, calls: map[int64]*call{}},
	}
}

// SetPolicy states or changes the limits of a policy. Work of a policy that
// was never stated has none.
func (f *Floor) SetPolicy(name string, l Limits) { f.account(name).limits = l }

// Free is the number of slots in which nothing runs.
func (f *Floor) Free() int { return max(0, f.slots-f.running) }

// Waiting returns how many first attempts and retries of a target wait; of
// the target "", how many have none.
func (f *Floor) Waiting(target string) (firsts, retries int) {
	l := f.laneOf(target)
	if l == nil {
		return 0, 0
	}
	for _, s := range l.shelves {
		if s.kind == first {
			firsts += s.items.len()
		} else {
			retries += s.items.len()
		}
	}
	return firsts, retries
}

// Add puts an item among what waits, in place of one with the same ID.
func (f *Floor) Add(i Item) {
	f.Remove(i.ID)
	s := f.shelf(i.Target, f.account(i.Policy), f.kindOf(&i))
	e := pop(&f.spareEntries)
	e.item, e.shelf = i, s
	f.entries[i.ID] = e
	if s.items.push(e); s.items.len() == 1 {
		f.queue(s)
	}
	s.lane.waiting++
	if s.kind == overdue && f.bornAt.Sub(i.DueAt) > CatchUpAfter {
		f.catchUpOf(i.Target).active = true
	}
}

// Remove takes an item away that waits, and reports whether it did.
func (f *Floor) Remove(id int64) bool {
	e := f.entries[id]
	if e == nil {
		return false
	}
	f.take(e)
	return true
}

// Ended tells that a start which Next gave has ended.
func (f *Floor) Ended(p Place, now time.Time) {
	f.running--
	a := f.account(p.Policy)
	a.running--
	if p.Retry {
		a.retries--
	}
	f.over(p.ID, now)
}

// Wake tells that the target's gate may admit what it refused.
func (f *Floor) Wake(target string) {
	if l := f.laneOf(target); l != nil {
		for _, s := range l.shelves {
			if s.state == aside {
				f.queue(s)
			}
		}
	}
}

func (f *Floor) laneOf(target string) *lane {
	if target == "" {
		return f.plain
	}
	return f.lanes[target]
}

func (f *Floor) account(name string) *account {
	if f.latest != nil && f.latestName == name {
		return f.latest
	}
	a := f.accounts[name]
	if a == nil {
		a = &account{}
		for i := range a.lines {
			a.lines[i] = heap[*shelf]{less: (*shelf).ahead, moved: (*shelf).move}
		}
		f.accounts[name] = a
		f.listed = append(f.listed, a)
	}
	f.latest, f.latestName = a, name
	return a
}

// kindOf: only work with a target catches up.
func (f *Floor) kindOf(i *Item) kind {
	switch {
	case !i.Retry:
		return first
	case i.Target != "" && i.DueAt.Before(f.bornAt):
		return overdue
	}
	return retry
}

// account is what a policy may do in this process, and does.
type account struct {
	limits  Limits
	running int
	retries int       // of those
	long    int       // have run long, or go to slow targets
	nextAt  time.Time // no start before it, by the spacing
	// lines are the shelves with a target that wait for nothing but a turn and
	// this policy: those of first attempts and those of retries.
	lines [2]heap[*shelf]
}

// most is how many slots the policy may have.
func (a *account) most(slots int) int {
	if a.limits.Concurrency > 0 {
		return min(slots, a.limits.Concurrency)
	}
	return slots
}

// room reports whether a slot of the policy is free for the kind, be it not
// yet for the spacing.
func (a *account) room(k kind, slots int) bool {
	most := a.most(slots)
	if a.running >= most {
		return false
	}
	if k == first {
		return true
	}
	// The noise of binary fractions keeps no slot. One is left to retries
	// whatever the share: they would wait for ever.
	kept := int(math.Ceil(a.limits.FirstShare*float64(most) - 1e-9))
	return a.retries < max(1, most-kept)
}

// open reports whether the policy lets a start of the kind go now.
func (a *account) open(k kind, slots int, now time.Time) bool {
	return !now.Before(a.nextAt) && a.room(k, slots)
}
