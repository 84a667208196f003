package worker

import (
	"cmp"
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
	floor     *dispatch.Floor
	bornAt    time.Time
	booths    map[string]*booth
	tracks    map[trackKey]*track
	order     []*track // the same, to take turns at claims
	turn      int
	latest    *track // that was asked for, for work of the policy latestFor
	latestFor *policy.Policy
	gates     map[*policy.Policy]*gate.Config
	laws      map[string]law
	lawful    bool // they were read

	hungry   map[string]bool      // queues in which lanes may wait to be discovered
	seeking  int                  // discoveries under way
	ample    bool                 // the last one that came back found as much as it may; so it is taken of the first
	ended    int                  // starts that ended since the last one
	ends     int                  // starts that ended, ever
	flown    int                  // those of them that ended while the last turn was under way, or since the one before it came back
	landedAt int                  // ends when the last turn came back
	landedOn time.Time            // machine time; when that was
	took     time.Duration        // by that turn
	lined    int                  // runs that wait in tracks
	asking   int                  // asked for by name in turns under way
	oldestAt time.Time            // when the first of them came, or before it
	staying  bool                 // among them some of strict queues may be
	emptyAt  time.Time            // machine time; when a discovery last found nothing
	askedAt  time.Time            // when a discovery was last asked for
	begins   []*run               // chosen, with permits in hand, to be begun by the next turn
	paced    []*run               // begun, and wait for their slots
	running  int                  // in slots: at work, about to be, or paced
	starved  bool                 // there was work, and no slot for it
	lead     int                  // starts of plain work beyond those of lanes, by a slot's worth each at most
	passing  bool                 // work waits since the last turn for permits that a turn must carve
	passed   int                  // starts that passed it
	waited   map[string]bool      // targets whose work waits for its policy, not for a gate
	probeAt  map[string]time.Time // when this process saw that targets may be probed
}

// trackKey names a lane.
type trackKey struct{ queue, target string }

// track is the buffered work of one lane: leases that wait for a permit.
type track struct {
	trackKey
	booths []*booth // that its work must pass: the target's, the queue's
	runs   []*run
	more   bool  // the store may have more that is due
	asking int   // asked for by name in turns under way
	ended  int   // starts that ended since the last claim by name
	recent int   // starts that ended since the last turn
	active int   // runs that were chosen and have not ended
	pace   *pace // of the policy of what came last
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
	retry     bool // it has started before
	track     *track
	permits   [2]permit
	held      int            // permits in hand, those of the swap under way too
	onFloor   bool           // the floor counts it as running
	place     dispatch.Place // as which it does
	kept      bool           // it waits, or waited, in a slot of its own and not on the floor
	reserved  bool           // a slot is kept for it
	stays     bool           // a strict queue's: it waits here, whatever holds it
	arrivedAt time.Time
	heldFor   time.Duration // by what counts towards max_hold
	pausedFor time.Duration // by a pause that the target asked for
	heldBy    string
}

func (l *loop) newLanes(now time.Time) *lanes {
	la := &lanes{
		floor: dispatch.New(l.config.Concurrency, now), bornAt: now,
		booths: make(map[string]*booth), tracks: make(map[trackKey]*track),
		gates: make(map[*policy.Policy]*gate.Config), laws: make(map[string]law),
		hungry: make(map[string]bool), ample: true, waited: make(map[string]bool),
		probeAt: make(map[string]time.Time),
	}
	la.floor.SetProbing(la.probing)
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
	key := trackKey{j.Queue, j.Target}
	if j.Target == "" {
		key.target = store.QueueTarget(j.Queue)
	}
	if n := la.latest; n != nil && n.trackKey == key && la.latestFor == p && !n.over() {
		return n
	}
	n := la.tracks[key]
	if n == nil {
		n = &track{trackKey: key}
		la.tracks[key] = n
		la.order = append(la.order, n)
	}
	if n.over() { // its queue may be another since
		law := la.laws[j.Queue]
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
	la.latest, la.latestFor = n, p
	return n
}

// over reports whether nothing of the lane is here or expected.
func (n *track) over() bool {
	return len(n.runs) == 0 && n.active == 0 && !n.more && n.asking == 0
}

// lineUp lets a lease wait for its permits.
func (l *loop) lineUp(r *run, now time.Time) {
	if r.entry == nil {
		l.enter(r, now)
	}
	r.entry.retry = store.Retrying(r.job.History)
	l.stand(r)
	l.lanes.floor.Add(itemOf(r))
}

// stand puts a run of the floor into its line.
func (l *loop) stand(r *run) {
	la, p := l.lanes, r.entry
	p.track.runs, p.track.pace = append(p.track.runs, r), r.pace
	if la.lined == 0 || p.arrivedAt.Before(la.oldestAt) {
		la.oldestAt = p.arrivedAt
	}
	la.lined++
	la.staying = la.staying || p.stays
	for _, b := range p.track.booths {
		b.waiting[kindOf(p.retry)]++
	}
}

// enter gives a run what it carries as one of a lane.
func (l *loop) enter(r *run, now time.Time) {
	n := l.lanes.trackOf(&r.job, r.policy)
	r.entry = l.newEntry()
	r.entry.track, r.entry.stays, r.entry.arrivedAt = n, l.lanes.laws[r.job.Queue].strict, now
}

// newEntry makes an entry, as runs are made.
func (l *loop) newEntry() *entry {
	if len(l.blankEntries) == 0 {
		l.blankEntries = make([]entry, runsAtOnce)
	}
	p := &l.blankEntries[0]
	l.blankEntries = l.blankEntries[1:]
	return p
}

func itemOf(r *run) dispatch.Item {
	return dispatch.Item{
		ID: r.job.Seq, Target: r.entry.track.target, Policy: r.policy.Name, Retry: r.entry.retry, Repeat: r.job.History.Starts > 0,
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
	if i == 0 { // mostly
		n.runs[0], n.runs = nil, n.runs[1:]
	} else {
		n.runs = slices.Delete(n.runs, i, i+1)
	}
	l.lanes.lined--
	for _, b := range n.booths {
		b.waiting[kindOf(r.entry.retry)]--
	}
	l.lanes.floor.Remove(r.job.Seq)
	return true
}

// arriveInTurns takes in leases that come lane by lane, the lanes in turns: the
// last one would be behind the others at every claim, and its next claim would
// be for what lies farther and farther from theirs. First is whose first job came
// first: so results go back about as the jobs lie in the store.
func (l *loop) arriveInTurns(jobs []job.Job, now time.Time, seats int) {
	type stretch struct {
		jobs  []job.Job
		track *track
		of    *policy.Policy
	}
	var all []stretch
	for part := range stretches(jobs) {
		all = append(all, stretch{jobs: part})
	}
	slices.SortStableFunc(all, func(a, b stretch) int { return cmp.Compare(a.jobs[0].Seq, b.jobs[0].Seq) })
	la, over := l.lanes, 0
	for len(all) > 0 {
		for i := range all {
			s := &all[i]
			la.latest, la.latestFor = s.track, s.of
			l.arrive(&s.jobs[0], now, seats > 0)
			seats--
			s.track, s.of = la.latest, la.latestFor
			if s.jobs = s.jobs[1:]; len(s.jobs) == 0 {
				over++
			}
		}
		if over > 0 {
			all, over = slices.DeleteFunc(all, func(s stretch) bool { return len(s.jobs) == 0 }), 0
		}
	}
}

// arriveLane takes in a lease that must pass a gate.
func (l *loop) arriveLane(r *run, now time.Time, seats bool) {
	switch {
	case r.job.DueAt.After(now.Add(clockError)): // kept, and the answer was lost
		l.unbegun(r, r.job.DueAt)
	case !r.isSuspect():
		if seats && r.job.Begun {
			l.seat(r, now)
		} else {
			l.lineUp(r, now)
		}
	case len(l.suspects) >= l.config.Concurrency:
		l.giveBack(r, "too many wait to run alone")
	default:
		l.suspects = append(l.suspects, r)
		l.observe(r, Event{What: Held, Text: "crashed twice or more: runs alone"})
	}
}
