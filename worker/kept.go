package worker

import (
	"slices"
	"time"

	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store"
)

// Under slot: keep a start that is to be tried again ends, and its lease does
// not: the job waits here, in its slot and, in a strict queue, in its place.

// keeps reports whether the next try of a run that ended waits in its slot.
func (l *loop) keeps(r *run) bool {
	again := r.verdict.to == job.Queued && !r.verdict.completed
	return again && r.policy.Slot == policy.SlotKeep && l.phase == working
}

// stay lets the lease of a start that ended wait for the next one.
func (l *loop) stay(r *run, due time.Time) {
	j, a := r.job, r.settle.Attempt
	j.Epoch++
	j.Begun, j.DueAt = false, due
	j.History = r.settle.History
	j.History.FirstStartAt, j.History.DeadlineAt = store.Instant(j.History.FirstStartAt), j.DeadlineAt
	j.LastClass, j.LastError, j.Fingerprint, j.Version = a.Class, a.Error, r.settle.Fingerprint, a.Version
	j.Progress = r.reportedLast()
	l.await(&j, r.entry)
}

// hold keeps the slot of a start that ended until the store has its settle:
// nobody is claimed for it.
func (l *loop) hold(r *run) {
	r.holds = true
	l.holding++
	r.pace.kept++
}

// unhold ends that: the run is kept now, or over.
func (l *loop) unhold(r *run) {
	if r.holds {
		r.holds = false
		l.holding--
		r.pace.kept--
	}
}

// await takes in an unbegun lease that may begin when it is due. Its place on
// the floor of lanes, if it has one, is that of its last start.
func (l *loop) await(j *job.Job, last *entry) {
	r := l.newRun(j, l.routeOf(j))
	l.leases.put(r)
	if last != nil {
		r.entry = &entry{track: last.track, onFloor: last.onFloor, place: last.place, stays: true}
	}
	l.unbegun(r, j.DueAt)
}

// unbegun lets a lease wait in its slot until it may begin. One that is told
// not to goes its way.
func (l *loop) unbegun(r *run, at time.Time) {
	if l.suspect == r {
		l.suspect = nil
	}
	switch {
	case r.verdict.to != "": // cancelled meanwhile
		l.pending = append(l.pending, r)
	case l.phase != working:
		l.giveBack(r, "stopping")
	default:
		r.beginAt = at
		r.pace.kept++
		l.kept = append(l.kept, r)
	}
}

// isSuspect reports whether the run must be alone.
func (r *run) isSuspect() bool { return r.job.History.Crashes >= store.SuspectCrashes }

// resume begins what has waited in its slot until it was due.
func (l *loop) resume(t *turn, now time.Time) {
	slices.SortStableFunc(l.kept, func(a, b *run) int { return a.beginAt.Compare(b.beginAt) })
	l.kept = slices.DeleteFunc(l.kept, func(r *run) bool {
		late := !r.job.DeadlineAt.IsZero() && r.job.DeadlineAt.Before(now)
		if now.Before(r.beginAt) && !late || r.pace.spaced(now) || r.isSuspect() && l.suspect != nil {
			return false
		}
		r.pace.kept--
		if !late && l.lanes.isLane(&r.job) {
			return l.resumeLane(t, r, now)
		}
		if late { // whoever keeps the deadlines ends it
			l.giveBack(r, "its deadline has passed")
			l.limits.wake(r.job.Queue)
		} else {
			l.begin(t, r)
		}
		return true
	})
}

// resumeLane lets a lease begin in the slot that it kept, if its gate admits
// it: the permit went back when its last start ended. False if it waits on.
func (l *loop) resumeLane(t *turn, r *run, now time.Time) bool {
	if r.isSuspect() {
		l.vacate(r)
		r.entry = nil
		l.arriveLane(r, now, false)
		return true
	}
	p := r.entry
	if p == nil {
		p = &entry{stays: true}
		r.entry = p
	}
	p.kept, p.arrivedAt = true, now
	p.track = l.lanes.trackOf(&r.job, r.policy)
	p.retry = store.Retrying(r.job.History)
	if why := l.yields(r, now); why != "" {
		l.giveBack(r, why)
		return true
	}
	switch {
	case l.admission(r, now, true).Admit:
		l.reserve(r)
		l.carry(t, r)
		return true
	case l.expire(r, now):
		return true
	}
	r.pace.kept++
	return false
}

// yields says why a lease gives up the slot in which it waited out its delay;
// empty if it keeps it. What holds its target is not its delay: work that has
// not failed goes before it then. Nothing may overtake a strict queue's job.
func (l *loop) yields(r *run, now time.Time) string {
	if r.job.Target == "" || !r.policy.Gate || l.lanes.laws[r.job.Queue].strict {
		return ""
	}
	switch b := r.entry.track.booths[0]; {
	case b.state.PauseUntil.Time().After(now):
		return "its target asked for a pause"
	case r.policy.Breaker.On() && b.state.Phase != gate.Closed:
		return "its target keeps failing"
	}
	return ""
}

// keptFirst reports whether a lease that kept its slot is due, under a policy
// whose starts are spaced: the next turn lets it begin before any other.
func (l *loop) keptFirst(p *pace, now time.Time) bool {
	return p.policy.Spacing > 0 && p.kept > 0 &&
		slices.ContainsFunc(l.kept, func(r *run) bool { return r.pace == p && !r.beginAt.After(now) })
}

// vacate frees the place on the floor of lanes of a run that leaves.
func (l *loop) vacate(r *run) {
	if p := r.entry; p != nil && p.onFloor && r.process == l.process {
		l.lanes.floor.Ended(p.place, l.now())
		p.onFloor = false
	}
}

// begin asks the store to mark a lease as begun, and reserves its slot.
func (l *loop) begin(t *turn, r *run) {
	t.begins, t.Begin = append(t.begins, r), append(t.Begin, r.ref())
	if r.isSuspect() {
		l.suspect = r
	}
	l.reserved++
	r.pace.reserved++
	t.reserved++
}

// A begin that is refused is mostly too early by the store's clock, which we
// know by clockError only. It is asked again, twice as late each time; then
// the lease is given up, and looked for in case it is ours all the same.
const maxRefusals = 12

// began starts a lease that is marked as begun now.
func (l *loop) began(r *run, ok bool) {
	now := l.now()
	r.job.Begun = ok
	switch {
	case ok && r.verdict.to == "" && l.phase == working:
		r.job.LeasedAt = store.Instant(now)
		l.start(r, now)
	case ok || r.refusals < maxRefusals:
		l.unbegun(r, now.Add(clockError/10<<r.refusals))
		r.refusals++
	default:
		if l.suspect == r {
			l.suspect = nil
		}
		l.leases.drop(r.job.Seq)
		l.doubt = true
		l.observe(r, Event{What: Refused})
	}
}

// unkeep takes a run out of those that wait; false if it is not among them.
func (l *loop) unkeep(r *run) bool {
	i := slices.Index(l.kept, r)
	if i < 0 {
		return false
	}
	r.pace.kept--
	l.kept = slices.Delete(l.kept, i, i+1)
	l.vacate(r)
	return true
}

// nextKept returns when the next one may begin, by time alone.
func (l *loop) nextKept(now time.Time) time.Time {
	var at time.Time
	for _, r := range l.kept {
		if r.beginAt.After(now) {
			at = earlier(at, r.beginAt)
		} else if p := r.entry; p != nil && p.kept {
			if rest := p.track.rest[kindOf(p.retry)]; rest.set && rest.verdict.Until.After(now) {
				at = earlier(at, rest.verdict.Until)
			}
			if over := l.expiresAt(r, now); over.After(now) {
				at = earlier(at, over)
			}
		}
	}
	return at
}
