package worker

import (
	"slices"
	"time"

	"github.com/ebbhq/ebb/policy"
)

// pace keeps one policy's limits within this process: concurrency, spacing
// and the slots that its waiting jobs keep.
type pace struct {
	policy   *policy.Policy
	running  int
	reserved int       // asked for by turns under way
	nextAt   time.Time // no start before; by spacing
	kept     int       // leases that wait in their slots
	refused  bool      // plain work went back for want of a slot
	timeouts runList   // running, by start: the oldest is the first to time out
}

// room returns how many more jobs of the policy may be claimed and started
// at once.
func (p *pace) room(now time.Time) int {
	if p.spaced(now) {
		return 0
	}
	n := p.policy.Concurrency - p.running - p.reserved - p.kept
	if p.policy.Spacing > 0 {
		n = min(n, 1)
	}
	return max(0, min(n, p.policy.Batch))
}

// admits reports whether a claimed job may start now.
func (p *pace) admits(now time.Time) bool {
	if p.policy.Spacing > 0 && now.Before(p.nextAt) {
		return false
	}
	return p.running+p.kept < p.policy.Concurrency
}

// spaced reports whether the next start must wait for the spacing.
func (p *pace) spaced(now time.Time) bool {
	return p.policy.Spacing > 0 && (p.reserved > 0 || now.Before(p.nextAt))
}

func (p *pace) started(now time.Time) {
	p.running++
	if p.policy.Spacing > 0 {
		p.nextAt = now.Add(p.policy.Spacing)
	}
}

// nextChange returns when room may grow by time alone; zero if it will not.
func (p *pace) nextChange(now time.Time) time.Time {
	if p.policy.Spacing > 0 && now.Before(p.nextAt) {
		return p.nextAt
	}
	return time.Time{}
}

// lane is what one claim asks for: the kinds of one policy in one queue, so
// that a policy without room holds up nobody else.
type lane struct {
	queue string
	pace  *pace
	kinds []string
	// hungry means that something may be claimable.
	hungry bool
	// askedAt is the time of the last claim.
	askedAt time.Time
}

// limits is what a process may claim and start at once.
type limits struct {
	paces map[string]*pace // by policy
	// kinds maps each kind to the policy whose room bounds its claims. Until
	// one was seen, that is the default; a wrong guess costs a claim that goes
	// back. If a kind's jobs are of several policies, it is the one that last
	// had no room: nothing else keeps claims from going back and forth.
	kinds  map[string]*pace
	known  map[string]bool // kinds of which a job was seen
	queues []string
	lanes  []*lane
	turn   int // which lane comes first
}

func newLimits(policies map[string]*policy.Policy, queues, kinds []string) *limits {
	l := &limits{paces: make(map[string]*pace), kinds: make(map[string]*pace), known: make(map[string]bool), queues: queues}
	for name, p := range policies {
		l.paces[name] = &pace{policy: p}
	}
	for _, kind := range kinds {
		l.kinds[kind] = l.paces[policy.DefaultName]
	}
	l.build()
	return l
}

// learn notes the policy of a kind's job: the first one seen, and any that
// had no room.
func (l *limits) learn(kind string, p *pace, full bool) {
	first := !l.known[kind]
	l.known[kind] = true
	if (first || full) && l.kinds[kind] != p {
		l.kinds[kind] = p
		l.build()
	}
}

// build makes the lanes anew, all hungry.
func (l *limits) build() {
	groups := make(map[*pace][]string)
	for kind, p := range l.kinds {
		groups[p] = append(groups[p], kind)
	}
	l.lanes = l.lanes[:0:0]
	for _, queue := range l.queues {
		for p, kinds := range groups {
			slices.Sort(kinds)
			l.lanes = append(l.lanes, &lane{queue: queue, pace: p, kinds: kinds, hungry: true})
		}
	}
	slices.SortFunc(l.lanes, func(a, b *lane) int {
		return slices.Compare([]string{a.queue, a.kinds[0]}, []string{b.queue, b.kinds[0]})
	})
}

// wake makes the lanes of a queue hungry; all, if it is empty.
func (l *limits) wake(queue string) {
	for _, lane := range l.lanes {
		if queue == "" || lane.queue == queue {
			lane.hungry = true
		}
	}
}

// share divides the free slots among the hungry lanes, which take turns at
// being first, and reserves what it gives.
func (l *limits) share(free int, now time.Time) []asked {
	var hungry []*lane
	for i := range l.lanes {
		lane := l.lanes[(l.turn+i)%len(l.lanes)]
		if lane.hungry && lane.pace.room(now) > 0 {
			hungry = append(hungry, lane)
		}
	}
	l.turn++
	var asks []asked
	for i, lane := range hungry {
		left := len(hungry) - i
		n := min((free+left-1)/left, lane.pace.room(now))
		if n <= 0 {
			continue
		}
		free -= n
		lane.pace.reserved += n
		lane.hungry, lane.askedAt = false, now
		asks = append(asks, asked{lane, n})
	}
	return asks
}

// asked is one claim of a turn.
type asked struct {
	lane  *lane
	limit int
}

// claimable reports whether a turn would ask for anything.
func (l *limits) claimable(now time.Time) bool {
	return slices.ContainsFunc(l.lanes, func(lane *lane) bool { return lane.hungry && lane.pace.room(now) > 0 })
}

// askedSince returns the earliest last claim of the lanes that found nothing
// more; zero if all are hungry.
func (l *limits) askedSince() time.Time {
	var at time.Time
	for _, lane := range l.lanes {
		if !lane.hungry {
			at = earlier(at, lane.askedAt)
		}
	}
	return at
}

// nextChange returns when some policy's room may grow by time alone.
func (l *limits) nextChange(now time.Time) time.Time {
	var at time.Time
	for _, p := range l.paces {
		at = earlier(at, p.nextChange(now))
	}
	return at
}

// earlier returns the earlier of two instants; zero means none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// runList is a list of runs in the order they were added, with removal from
// the middle.
type runList struct{ first, last *run }

type link struct {
	list       *runList
	prev, next *run
}

func (l *runList) add(r *run) {
	r.link = link{list: l, prev: l.last}
	if l.last == nil {
		l.first = r
	} else {
		l.last.link.next = r
	}
	l.last = r
}

// unwatch takes the run out of its list, if it is in one.
func (r *run) unwatch() {
	w := r.link
	if w.list == nil {
		return
	}
	if w.prev == nil {
		w.list.first = w.next
	} else {
		w.prev.link.next = w.next
	}
	if w.next == nil {
		w.list.last = w.prev
	} else {
		w.next.link.prev = w.prev
	}
	r.link = link{}
}
