package worker

import (
	"slices"
	"time"

	"github.com/ebbhq/ebb/dispatch"
	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// laneRoom is how many slots work of lanes may take now. While plain work
// waits too, either side has half of the slots.
func (l *loop) laneRoom(now time.Time) int {
	most := l.config.Concurrency
	if l.limits.claimable(now) {
		most /= 2
		if l.lanes.lead > 0 {
			most = l.config.Concurrency - most
		}
	}
	return min(l.free(), most-l.lanes.running)
}

// plainRoom is how many slots plain work may ask for.
func (l *loop) plainRoom() int {
	free := l.free()
	if !l.lanes.starved {
		return free
	}
	most := l.config.Concurrency / 2
	if l.lanes.lead <= 0 {
		most = l.config.Concurrency - most
	}
	return min(free, most-(l.running+l.reserved-l.lanes.running))
}

// took counts a start of plain work or of a lane, so that the odd slot goes to
// the side that is behind, however many turns a start takes.
func (l *loop) took(lane bool) {
	if lane {
		l.lanes.lead = max(l.lanes.lead-1, -l.config.Concurrency)
	} else {
		l.lanes.lead = min(l.lanes.lead+1, l.config.Concurrency)
	}
}

// admission asks for permits at all booths that the run must pass: all or
// none. With draft they may be carved by the turn that is being prepared.
func (l *loop) admission(r *run, now time.Time, drafting bool) dispatch.Answer {
	la, p := l.lanes, r.entry
	n, k := p.track, kindOf(p.retry)
	if !r.pace.admits(now) || r.pace.spaced(now) || !drafting && l.keptFirst(r.pace, now) {
		la.waited[n.target] = true
		return dispatch.Answer{Until: r.pace.nextChange(now)}
	}
	var drafts [2]*draft
	for i, b := range n.booths {
		if b.draft != nil && len(n.booths) > 1 {
			copied := *b.draft
			drafts[i] = &copied
		}
		got, v := l.askAt(b, r, now, drafting)
		if v.Admit {
			p.permits[i] = got
			continue
		}
		for j := range i { // all or none
			n.booths[j].putBack(p.permits[j])
			n.booths[j].draft = drafts[j]
		}
		b.barred[n.target] = true
		n.rest[k] = refusal{verdict: v, booth: b, set: v.Held != gate.NotHeld}
		return dispatch.Answer{Until: v.Until}
	}
	p.held = len(n.booths)
	n.rest[k].set = false
	return dispatch.Answer{Admit: true}
}

// askAt asks one booth. A verdict that names no hold means that a swap or a
// turn must come first.
func (l *loop) askAt(b *booth, r *run, now time.Time, drafting bool) (permit, gate.Verdict) {
	config, retry := l.lanes.configAt(b, r), r.entry.retry
	if config == nil {
		return permit{}, gate.Verdict{}
	}
	if got, ok := b.takeIdle(config, retry, now); ok {
		return got, gate.Verdict{Admit: true}
	}
	if !drafting || b.sent != nil || b.ghost != nil {
		return permit{}, gate.Verdict{}
	}
	got, v := b.carve(config, retry, now, l.config.Seed)
	for !v.Admit && b.idle > 0 { // what nobody may use of it holds nobody up
		l.sparing(b, b.idle-1, now)
		got, v = b.carve(config, retry, now, l.config.Seed)
	}
	return got, v
}

// serve lets work start that needs no turn first: permits are in hand. Where
// a turn brought it, the results are gathered.
func (l *loop) serve(now time.Time, together bool) {
	la := l.lanes
	if la == nil || l.phase != working || l.process == 0 {
		return
	}
	for target := range la.waited {
		delete(la.waited, target)
		la.floor.Wake(target)
	}
	for _, r := range la.come(now) {
		l.startLane(r, now, false)
	}
	var r *run
	admit := func(i dispatch.Item) dispatch.Answer {
		r = l.leases.of(i.ID)
		answer := l.admission(r, now, false)
		la.passing = la.passing || l.mustCarve(r, answer)
		return answer
	}
	for l.laneRoom(now) > la.owing(l.config.Concurrency) {
		if _, ok := la.floor.Next(now, admit); !ok {
			break
		}
		if la.passing {
			la.passed++
		}
		if l.choose(r); r.job.Begun {
			l.startLane(r, now, together)
		} else {
			la.begins = append(la.begins, r)
		}
	}
	l.dispatch()
}

// seats returns how many of the jobs that come together may start without lining
// up, if their permits are in hand: none where somebody waits for a slot. Where
// slots are fewer than jobs, who has them is the floor's to say, unless it would
// make no difference: then the first of them do, and the others line up.
func (l *loop) seats(jobs []job.Job, now time.Time) int {
	la := l.lanes
	if la == nil || len(la.waited) > 0 || l.phase != working || !la.floor.Resting(now) {
		return 0
	}
	if room := l.laneRoom(now) - la.owing(l.config.Concurrency); room >= len(jobs) || alike(jobs) {
		return room
	}
	return 0
}

// alike reports whether the floor would take the jobs in any order, but for turns
// between targets: they are first attempts of one kind, policy and priority.
func alike(jobs []job.Job) bool {
	for i := range jobs {
		j, first := &jobs[i], &jobs[0]
		if j.Priority != first.Priority || j.Kind != first.Kind || j.Policy != first.Policy || store.Retrying(j.History) {
			return false
		}
	}
	return true
}

// seat starts a run that has just come, if it need not wait for anything. Else it
// lines up.
func (l *loop) seat(r *run, now time.Time) {
	la := l.lanes
	l.enter(r, now)
	r.entry.retry = store.Retrying(r.job.History)
	item := itemOf(r)
	started, waits := la.floor.Seat(&item, now, func() dispatch.Answer {
		answer := l.admission(r, now, false)
		la.passing = la.passing || l.mustCarve(r, answer)
		return answer
	})
	switch {
	case waits:
		l.stand(r)
		return
	case !started:
		l.lineUp(r, now)
		return
	}
	if la.passing {
		la.passed++
	}
	r.entry.track.pace = r.pace
	r.entry.onFloor, r.entry.place = true, item.Place()
	l.reserve(r)
	l.startLane(r, now, true)
}

// mustCarve reports whether the run was refused for want of permits that a turn
// must carve.
func (l *loop) mustCarve(r *run, answer dispatch.Answer) bool {
	return !answer.Admit && !r.entry.track.rest[kindOf(r.entry.retry)].set
}

// owing is how many slots are left to the next turn: one, when so much work
// with permits in hand has passed other work, whose permits only a turn can
// carve, that it had all slots once.
func (la *lanes) owing(slots int) int {
	if la.passing && la.passed >= slots {
		return 1
	}
	return 0
}

// choose takes a run out of its track: the floor gave it the next slot.
func (l *loop) choose(r *run) {
	l.unline(r)
	item := itemOf(r)
	r.entry.onFloor, r.entry.place = true, item.Place()
	l.reserve(r)
}

func (l *loop) reserve(r *run) {
	r.entry.reserved = true
	l.reserved++
	r.pace.reserved++
	l.lanes.running++
	r.entry.track.active++
}

func (l *loop) unreserve(r *run) {
	r.entry.reserved = false
	l.reserved--
	r.pace.reserved--
}

// startLane lets the handler of a chosen run begin, in its slot of the rate if
// there is one.
func (l *loop) startLane(r *run, now time.Time, together bool) {
	p := r.entry
	if r.pace.nextChange(now).After(now) { // plain work of its policy was faster
		l.unchoose(r, now)
		return
	}
	var at time.Time
	for _, got := range p.permits[:p.held] {
		switch {
		case got.slot == nil:
		case !now.Before(got.slot.lateAt):
			l.unchoose(r, now) // it came too late for its slot
			return
		case got.slot.startAt.After(now) && got.slot.startAt.After(at):
			at = got.slot.startAt
		}
	}
	if !at.IsZero() {
		l.lanes.paced = append(l.lanes.paced, r)
		return
	}
	l.unreserve(r)
	l.noteHeld(r, now)
	if p.permits[0].probe && l.config.Observe != nil {
		l.observe(r, Event{What: Probing, Target: p.track.target})
	}
	if l.start(r, now); !together {
		r.batch = -1 // of no claim whose results are gathered
	}
}

// come returns the paced runs whose slots have come.
func (la *lanes) come(now time.Time) []*run {
	if len(la.paced) == 0 {
		return nil
	}
	var ready []*run
	la.paced = slices.DeleteFunc(la.paced, func(r *run) bool {
		for _, got := range r.entry.permits[:r.entry.held] {
			if got.slot != nil && got.slot.startAt.After(now) {
				return false
			}
		}
		ready = append(ready, r)
		return true
	})
	return ready
}

// unchoose gives the permits of a chosen run back and lets it wait again.
func (l *loop) unchoose(r *run, now time.Time) {
	l.leaveSlot(r, now)
	if r.isSuspect() {
		l.suspects = append(l.suspects, r)
		return
	}
	l.waitAgain(r, now)
}

// waitAgain lets a run wait where it did before it was chosen.
func (l *loop) waitAgain(r *run, now time.Time) {
	if r.entry.kept {
		l.unbegun(r, r.beginAt)
		return
	}
	l.lineUp(r, now)
}

// leaveSlot undoes a choice: permits that are ours go back, the slot is free.
func (l *loop) leaveSlot(r *run, now time.Time) {
	p := r.entry
	l.unreserve(r)
	l.lanes.running--
	p.track.active--
	if !p.kept {
		l.vacate(r)
	}
	for _, got := range p.permits[:p.held] {
		b := got.booth
		switch {
		case got.carved && !b.won: // it was never ours
		case got.retry || got.probe || got.slot != nil:
			b.drop(got, l.lanes.configAt(b, r), now, l.config.Seed)
		default:
			b.idle++
		}
		l.wakeAt(b)
	}
	p.held = 0
	if l.suspect == r {
		l.suspect = nil
	}
}

// wakeAt lets those ask again who were refused at the booth.
func (l *loop) wakeAt(b *booth) {
	if len(b.barred) == 0 { // mostly
		return
	}
	for target := range b.barred {
		delete(b.barred, target)
		l.lanes.floor.Wake(target)
	}
}
