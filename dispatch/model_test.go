package dispatch_test

import (
	"math"
	"slices"
	"time"

	"github.com/ebbhq/ebb/dispatch"
)

// model is the same floor without any cleverness: one list of what waits,
// gone through for every question.
type model struct {
	slots   int
	limits  map[string]dispatch.Limits
	waiting []dispatch.Item
	running []dispatch.Item
	tickets map[string]uint64
	turn    uint64
	plain   bool // the last turn was the plain lane's
	nextAt  map[string]time.Time
	aside   map[place]time.Time // zero: until woken
	late    map[string]bool     // targets that catch up
	ledger  []begun
}

// begun is one start.
type begun struct {
	dispatch.Item
	at time.Time
}

// place is what is set aside together.
type place struct {
	target, policy string
	retry, overdue bool
}

func placeOf(i dispatch.Item) place {
	return place{i.Target, i.Policy, i.Retry, i.Retry && i.Target != "" && i.DueAt.Before(born)}
}

func newModel(slots int) *model {
	return &model{
		slots: slots, limits: map[string]dispatch.Limits{}, tickets: map[string]uint64{},
		nextAt: map[string]time.Time{}, aside: map[place]time.Time{}, late: map[string]bool{},
	}
}

func (m *model) add(i dispatch.Item) {
	m.remove(i.ID)
	if i.Target != "" && m.tickets[i.Target] == 0 {
		m.turn++
		m.tickets[i.Target] = m.turn
	}
	m.waiting = append(m.waiting, i)
	if placeOf(i).overdue && born.Sub(i.DueAt) > dispatch.CatchUpAfter {
		m.late[i.Target] = true
	}
}

func (m *model) remove(id int64) bool {
	at := slices.IndexFunc(m.waiting, func(i dispatch.Item) bool { return i.ID == id })
	if at < 0 {
		return false
	}
	gone := m.waiting[at]
	m.waiting = slices.Delete(m.waiting, at, at+1)
	if !slices.ContainsFunc(m.waiting, func(i dispatch.Item) bool { return placeOf(i) == placeOf(gone) }) {
		delete(m.aside, placeOf(gone))
	}
	if !slices.ContainsFunc(m.waiting, func(i dispatch.Item) bool { return i.Target == gone.Target }) {
		delete(m.tickets, gone.Target)
	}
	return true
}

func (m *model) ended(id int64) {
	m.running = slices.DeleteFunc(m.running, func(i dispatch.Item) bool { return i.ID == id })
}

func (m *model) wake(target string) {
	for p := range m.aside {
		if p.target == target {
			delete(m.aside, p)
		}
	}
}

// most is how many of the policy may run, and how many retries.
func (m *model) most(name string) (all, retries int) {
	l := m.limits[name]
	all = m.slots
	if l.Concurrency > 0 {
		all = min(all, l.Concurrency)
	}
	return all, max(1, all-int(math.Ceil(l.FirstShare*float64(all)-1e-9)))
}

func (m *model) runs(name string) (all, retries int) {
	for _, i := range m.running {
		if i.Policy == name {
			all++
			if i.Retry {
				retries++
			}
		}
	}
	return all, retries
}

// open: the policy lets it go.
func (m *model) open(i dispatch.Item, now time.Time) bool {
	mostAll, mostRetries := m.most(i.Policy)
	all, retries := m.runs(i.Policy)
	return all < mostAll && (!i.Retry || retries < mostRetries) && !now.Before(m.nextAt[i.Policy])
}

// caughtUp returns until when the target's overdue retries wait.
func (m *model) caughtUp(i dispatch.Item, now time.Time) (until time.Time) {
	batch := m.limits[i.Policy].Batch
	if !placeOf(i).overdue || !m.late[i.Target] || batch == 0 {
		return until
	}
	n := 0
	for _, b := range slices.Backward(m.ledger) {
		if b.Target == i.Target && placeOf(b.Item).overdue && b.at.Add(dispatch.CatchUpEvery).After(now) {
			if n++; n == batch {
				return b.at.Add(dispatch.CatchUpEvery)
			}
		}
	}
	return until
}

// pick is the item whose turn it is.
func (m *model) pick(now time.Time) (dispatch.Item, bool) {
	var best, plain *dispatch.Item
	for n := range m.waiting {
		i := &m.waiting[n]
		if _, aside := m.aside[placeOf(*i)]; aside || !m.open(*i, now) {
			continue
		}
		switch {
		case i.Target == "":
			if plain == nil || before(i, plain) {
				plain = i
			}
		case best == nil || m.tickets[i.Target] < m.tickets[best.Target],
			i.Target == best.Target && before(i, best):
			best = i
		}
	}
	if plain != nil && (best == nil || !m.plain) {
		best = plain
	}
	if best == nil {
		return dispatch.Item{}, false
	}
	return *best, true
}

func before(i, j *dispatch.Item) bool {
	switch {
	case i.Priority != j.Priority:
		return i.Priority < j.Priority
	case !i.DueAt.Equal(j.DueAt):
		return i.DueAt.Before(j.DueAt)
	}
	return i.ID < j.ID
}

func (m *model) next(now time.Time, admit func(dispatch.Item) dispatch.Answer) (dispatch.Item, bool) {
	for p, until := range m.aside {
		if !until.IsZero() && !until.After(now) {
			delete(m.aside, p)
		}
	}
	for len(m.running) < m.slots {
		i, ok := m.pick(now)
		if !ok {
			break
		}
		if until := m.caughtUp(i, now); !until.IsZero() {
			m.aside[placeOf(i)] = until
			continue
		}
		if a := admit(i); !a.Admit {
			m.aside[placeOf(i)] = a.Until
			continue
		}
		m.remove(i.ID)
		m.running = append(m.running, i)
		m.ledger = append(m.ledger, begun{i, now})
		if d := m.limits[i.Policy].Spacing; d > 0 {
			m.nextAt[i.Policy] = now.Add(d)
		}
		if m.plain = i.Target == ""; m.tickets[i.Target] > 0 {
			m.turn++
			m.tickets[i.Target] = m.turn
		}
		return i, true
	}
	return dispatch.Item{}, false
}
