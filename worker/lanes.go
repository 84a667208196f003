package worker

import (
	"slices"
	"time"

	"github.com/ebbhq/ebb/dispatch"
	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store"
)

// lanes is the work that must pass a gate: what of it is buffered here and the
// booths of its targets. Who starts next is the floor's decision; the gates
// say whether. Jobs without a target, in queues without limits, never come
// here.
type lanes struct {
	floor  *dispatch.Floor
	bornAt time.Time
	booths map[string]*booth
	tracks map[trackKey]*track
	order  []*track // the same, to take turns at claims
	turn   int
	gates  map[*policy.Policy]*gate.Config
	laws   map[string]law

	hungry  map[string]bool // queues in which lanes may wait to be discovered
	emptyAt time.Time       // machine time; when a discovery last found nothing
	askedAt time.Time       // when a discovery was last asked for
	begins  []*run          // chosen, with permits in hand, to be begun by the next turn
	paced   []*run          // begun, and wait for their slots
	running int             // in slots: at work, about to be, or paced
	starved bool            // there was work, and no slot for it
	odd     bool            // whose turn it is at an odd slot
	waited  map[string]bool // targets whose work waits for its policy, not for a gate
}

// trackKey names a lane.
type trackKey struct{ queue, target string }

// track is the buffered work of one lane: leases that wait for a permit.
type track struct {
	trackKey
	booths []*booth // that its work must pass: the target's, the queue's
	runs   []*run
	more   bool // the store may have more that is due
	asking bool // a turn under way claims by name
	ended  int  // starts that ended since the last claim by name
	active int  // runs that were chosen and have not ended
	rest   [2]refusal
}

// refusal is why first attempts or retries of a line wait.
type refusal struct {
	verdict gate.Verdict
	booth   *booth // who refused; nil where it is not a gate
	set     bool
}

// entry is what a run of a lane carries.
type entry struct {
	item      dispatch.Item
	track     *track
	permits   [2]permit
	held      int  // permits in hand, those of the swap under way too
	onFloor   bool // the floor counts it as running
	reserved  bool // a slot is kept for it
	stays     bool // a strict queue's: it waits here, whatever holds it
	arrivedAt time.Time
	heldFor   time.Duration
	heldBy    string
}

func (l *loop) newLanes(now time.Time) *lanes {
	la := &lanes{
		floor: dispatch.New(l.config.Concurrency, now), bornAt: now,
		booths: make(map[string]*booth), tracks: make(map[trackKey]*track),
		gates: make(map[*policy.Policy]*gate.Config), laws: make(map[string]law),
		hungry: make(map[string]bool), waited: make(map[string]bool),
	}
	for name, p := range l.policies {
		la.floor.SetPolicy(name, dispatch.LimitsOf(p))
	}
	for _, q := range l.config.Queues {
		la.hungry[q] = true
	}
	return la
}

// gateOf returns the gate that a policy asks for.
func (la *lanes) gateOf(p *policy.Policy) *gate.Config {
	c := la.gates[p]
	if c == nil {
		made := gate.Of(p)
		made.Keep = grantLife
		c = &made
		la.gates[p] = c
	}
	return c
}

// configAt is what the run asks of a booth; nil if that is not known yet.
func (la *lanes) configAt(b *booth, r *run) *gate.Config {
	if b.policy == "" {
		return b.config
	}
	return la.gateOf(r.policy)
}

// booth returns the booth of a target, new if need be.
func (la *lanes) booth(target string) *booth {
	b := la.booths[target]
	if b == nil {
		b = newBooth(target)
		la.booths[target] = b
	}
	return b
}

// isLane reports whether the job must pass a gate.
func (la *lanes) isLane(j *job.Job) bool {
	return j.Target != "" || la.laws[j.Queue].limited()
}

// trackOf returns the line that a job stands in.
func (la *lanes) trackOf(j *job.Job, p *policy.Policy) *track {
	law := la.laws[j.Queue]
	key := trackKey{j.Queue, j.Target}
	if j.Target == "" {
		key.target = store.QueueTarget(j.Queue)
	}
	n := la.tracks[key]
	if n == nil {
		n = &track{trackKey: key}
		la.tracks[key] = n
		la.order = append(la.order, n)
	}
	if len(n.runs) == 0 && n.active == 0 && !n.more && !n.asking { // its queue may be another since
		n.booths = n.booths[:0]
		if j.Target != "" {
			n.booths = append(n.booths, la.booth(j.Target))
		}
		if law.limited() {
			b := la.booth(store.QueueTarget(j.Queue))
			if law.config != nil {
				b.config = law.config
			}
			n.booths = append(n.booths, b)
		}
	}
	if j.Target != "" {
		b := n.booths[0]
		b.config, b.policy = la.gateOf(p), p.Name
	}
	return n
}

// lineUp lets a lease wait for its permits.
func (l *loop) lineUp(r *run, now time.Time) {
	la := l.lanes
	if r.entry == nil {
		n := la.trackOf(&r.job, r.policy)
		r.entry = &entry{track: n, stays: la.laws[r.job.Queue].strict, arrivedAt: now}
	}
	p := r.entry
	p.item = itemOf(r)
	p.track.runs = append(p.track.runs, r)
	for _, b := range p.track.booths {
		b.waiting[kindOf(p.item.Retry)]++
	}
	la.floor.Add(p.item)
}

func itemOf(r *run) dispatch.Item {
	return dispatch.Item{
		ID: r.job.Seq, Target: r.entry.track.target, Policy: r.policy.Name, Retry: store.Retrying(r.job.History),
		Priority: r.job.Priority, DueAt: r.job.DueAt,
	}
}

// unline takes a run out of its line; false if it is not in one.
func (l *loop) unline(r *run) bool {
	n := r.entry.track
	i := slices.Index(n.runs, r)
	if i < 0 {
		return false
	}
	n.runs = slices.Delete(n.runs, i, i+1)
	for _, b := range n.booths {
		b.waiting[kindOf(r.entry.item.Retry)]--
	}
	l.lanes.floor.Remove(r.entry.item.ID)
	return true
}

// arriveLane takes in a lease that must pass a gate.
func (l *loop) arriveLane(r *run, now time.Time) {
	switch {
	case r.job.DueAt.After(now.Add(clockError)): // kept, and the answer was lost
		l.unbegun(r, r.job.DueAt)
	case !r.isSuspect():
		l.lineUp(r, now)
	case len(l.suspects) >= l.config.Concurrency:
		l.giveBack(r, "too many wait to run alone")
	default:
		l.suspects = append(l.suspects, r)
		l.observe(r, Event{What: Held, Text: "crashed twice or more: runs alone"})
	}
}

// laneRoom is how many slots work of lanes may take now. While plain work
// waits too, either side has half of the slots.
func (l *loop) laneRoom(now time.Time) int {
	most := l.config.Concurrency
	if l.limits.claimable(now) {
		most /= 2
		if l.lanes.odd {
			most = l.config.Concurrency - most
		}
	}
	return min(l.free(), most-l.lanes.running)
}

// plainRoom is how many slots plain work may ask for.
func (l *loop) plainRoom() int {
	free := l.free()
	if l.lanes == nil || !l.lanes.starved {
		return free
	}
	most := l.config.Concurrency / 2
	if !l.lanes.odd {
		most = l.config.Concurrency - most
	}
	return min(free, most-(l.running+l.reserved-l.lanes.running))
}

// admission asks for permits at all booths that the run must pass: all or
// none. With draft they may be carved by the turn that is being prepared.
func (l *loop) admission(r *run, now time.Time, drafting bool) dispatch.Answer {
	la, p := l.lanes, r.entry
	n, k := p.track, kindOf(p.item.Retry)
	if !r.pace.admits(now) || r.pace.spaced(now) {
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
	config, retry := l.lanes.configAt(b, r), r.entry.item.Retry
	if config == nil {
		return permit{}, gate.Verdict{}
	}
	if got, ok := b.takeIdle(config, retry, now); ok {
		return got, gate.Verdict{Admit: true}
	}
	if !drafting || b.sent != nil || b.ghost != nil {
		return permit{}, gate.Verdict{}
	}
	return b.carve(config, retry, now, l.config.Seed)
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
	for l.laneRoom(now) > 0 {
		i, ok := la.floor.Next(now, func(i dispatch.Item) dispatch.Answer {
			return l.admission(l.leases[i.ID], now, false)
		})
		if !ok {
			break
		}
		r := l.leases[i.ID]
		if l.choose(r); r.job.Begun {
			l.startLane(r, now, together)
		} else {
			la.begins = append(la.begins, r)
		}
	}
	l.dispatch()
}

// choose takes a run out of its track: the floor gave it the next slot.
func (l *loop) choose(r *run) {
	l.unline(r)
	r.entry.onFloor = true
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
	var at time.Time
	for _, got := range p.permits[:p.held] {
		switch {
		case got.startAt.IsZero():
		case !now.Before(got.lateAt):
			l.unchoose(r, now) // it came too late for its slot
			return
		case got.startAt.After(now) && got.startAt.After(at):
			at = got.startAt
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
			if got.startAt.After(now) {
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
	l.lineUp(r, now)
}

// leaveSlot undoes a choice: permits that are ours go back, the slot is free.
func (l *loop) leaveSlot(r *run, now time.Time) {
	p := r.entry
	l.unreserve(r)
	l.lanes.running--
	p.track.active--
	if p.onFloor {
		l.lanes.floor.Ended(p.item)
		p.onFloor = false
	}
	for _, got := range p.permits[:p.held] {
		b := got.booth
		switch {
		case got.carved && !b.won: // it was never ours
		case got.retry || got.probe || !got.startAt.IsZero():
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
	for target := range b.barred {
		delete(b.barred, target)
		l.lanes.floor.Wake(target)
	}
}
