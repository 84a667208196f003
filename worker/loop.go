package worker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ebbhq/ebb/job"
)

// phase is how far a stop has come.
type phase int

const (
	working  phase = iota
	draining       // nothing is claimed, handlers finish
	stopping       // contexts have ended, handlers return
	leaving        // handlers are given up, results are saved
)

// loop is the state of a running worker. One goroutine owns it.
type loop struct {
	*Worker
	calls context.Context // of turns
	side  context.Context // of calls that the end of the loop ends
	runs  context.Context // parent of the handlers'
	end   context.CancelCauseFunc
	group sync.WaitGroup // of turns and other calls

	process  int64
	phase    phase
	limits   *limits
	leases   leases // all that this process holds
	running  int    // handlers in their slots
	reserved int    // slots asked for by turns under way
	holding  int    // slots of starts that ended and will be kept once that is saved
	strays   int    // handlers given up that have not returned

	crew     *crew
	ready    []*run // to be started
	pending  []*run // to be settled
	calm     int    // so many of those first ones press nobody
	returns  []*run // leases to be released
	suspects []*run // unbegun leases that wait to run alone
	suspect  *run   // the one that runs, or is about to
	kept     []*run // unbegun leases that wait in their slots
	doomed   map[*run]error
	lanes    *lanes // nil where the store keeps no gates

	turns      int       // under way
	pauseUntil time.Time // machine time; the store is away
	failures   int       // of the store, in a row
	most       int       // settles that a turn may carry; 0 = any number
	doubt      bool      // a turn's answer was lost: we may hold more than we know
	adopting   bool
	doubtAt    time.Time // machine time; when to look once more

	batch       int       // number of the latest claim
	young       int       // its runs that have not ended
	lingerUntil time.Time // machine time; until then their results are gathered
	pendingAt   time.Time // machine time; when the first of pending came

	dues      dues      // of jobs we put back
	storeDue  time.Time // what the store named
	dueStale  bool      // it should be asked again
	dueAsking bool
	pollAt    time.Time // machine time
	stepAt    time.Time // machine time of the next step of a stop

	gatesAsking bool
	gatesDue    bool      // gates that work here waits for should be read again
	gatesAt     time.Time // machine time; not before

	lawAsking     bool
	lawDue        bool // the orders for queues should be read again
	eldest        bool // this process keeps house
	sweeping      bool
	sweepDue      bool      // with the next look
	sweepAt       time.Time // policy time
	sweepBy       time.Time // machine time
	firing        bool
	periodicAt    time.Time // policy time of the next schedule
	periodicStale bool      // schedules should be read again

	quiets       []chan struct{}
	policyAlarm  alarm
	machineAlarm alarm
	spareRuns    []*run
	sparePosts   []func(*loop)
	papers       []paper
	blank        []run // not used yet: runs are made by the dozen
	blankEntries []entry
	latest       route
}

func newLoop(calls, side context.Context, w *Worker) *loop {
	l := &loop{
		Worker: w, calls: calls, side: side, process: w.process.Load(), crew: newCrew(w.mail),
		limits: newLimits(w.policies, w.config.Queues, w.kinds),
		leases: newLeases(w.config.Concurrency), doomed: make(map[*run]error),
		dueStale: true, pollAt: w.machine().Add(w.config.Poll),
		policyAlarm: alarm{clock: w.clock}, machineAlarm: alarm{clock: w.config.Machine},
	}
	l.runs, l.end = context.WithCancelCause(calls)
	l.lanes, l.lawDue, l.periodicStale = l.newLanes(w.now()), true, true
	return l
}

// run is the loop: mail, time, turns, then sleep.
func (l *loop) run() error {
	defer l.policyAlarm.clear()
	defer l.machineAlarm.clear()
	for {
		l.read()
		l.passPolicyTime()
		l.passMachineTime()
		l.serve(l.now(), false)
		l.askLaws()
		l.askGates()
		l.launch()
		l.askDue()
		l.askSweep()
		l.askPeriodics()
		if l.phase != working {
			if l.leases.count == 0 && l.running == 0 && l.turns == 0 && !l.doubt && l.lanes.clear() {
				return nil
			}
			if l.phase == leaving && !l.machine().Before(l.stepAt) {
				return fmt.Errorf("%w: %d jobs", ErrUnsaved, l.leases.count)
			}
		}
		l.hush()
		l.sleep()
	}
}

func (l *loop) read() {
	runs, posts := l.mail.take(l.spareRuns, l.sparePosts)
	if len(runs) > 0 {
		now := l.now()
		for _, r := range runs {
			l.finished(r, now)
		}
	}
	for _, f := range posts {
		f(l)
	}
	l.dispatch()
	l.spareRuns, l.sparePosts = runs, posts
}

// sleep waits for mail or for the next instant at which something is due.
func (l *loop) sleep() {
	now, machine := l.now(), l.machine()
	enough := 1
	if l.lingering(machine) {
		enough = l.young
	}
	if l.mail.wait(enough) {
		return
	}
	at := l.nextPolicy(now)
	l.policyAlarm.set(at, max(0, at.Sub(now)))
	at = l.nextMachine(machine)
	l.machineAlarm.set(at, max(0, at.Sub(machine)))
	select {
	case <-l.mail.bell:
	case <-l.policyAlarm.fired:
		l.policyAlarm.clear()
	case <-l.machineAlarm.fired:
		l.machineAlarm.clear()
	}
}

// nextPolicy returns the policy time of the next event; zero if there is none.
func (l *loop) nextPolicy(now time.Time) time.Time {
	at := l.limits.nextChange(now)
	for _, p := range l.limits.paces {
		if r := p.timeouts.first; r != nil {
			at = earlier(at, r.startedAt.Add(softLimit(p.policy)))
		}
	}
	for r := range l.doomed {
		at = earlier(at, r.killAt)
	}
	if l.phase == working {
		at = earlier(at, earlier(l.dues.next(), l.storeDue))
		at = earlier(at, l.nextKept(now))
		at = earlier(at, l.nextLane(now))
	}
	return at
}

func (l *loop) nextMachine(now time.Time) time.Time {
	at := l.stepAt
	if l.phase == working {
		at = earlier(l.pollAt, l.nextDiscovery(now))
		if l.gatesDue && l.gatesAt.After(now) {
			at = earlier(at, l.gatesAt)
		}
	}
	if now.Before(l.pauseUntil) {
		at = earlier(at, l.pauseUntil)
	}
	at = earlier(at, l.doubtAt)
	if l.eldest && l.phase == working {
		at = earlier(at, l.sweepBy)
	}
	if l.lingering(now) {
		at = earlier(at, l.lingerUntil)
	}
	if l.turns == 0 && l.gathering(now) {
		at = earlier(at, l.pendingAt.Add(gatherLanes))
	}
	return at
}

// passPolicyTime does what became due on the policy clock.
func (l *loop) passPolicyTime() {
	now := l.now()
	for _, p := range l.limits.paces {
		limit := softLimit(p.policy)
		for r := p.timeouts.first; r != nil && !now.Before(r.startedAt.Add(limit)); r = p.timeouts.first {
			l.doom(r, ErrTimeout)
		}
	}
	for r, cause := range l.doomed {
		if !now.Before(r.killAt) {
			l.giveUp(r, cause)
		}
	}
	passed := l.dues.pass(now)
	if !l.storeDue.IsZero() && !l.storeDue.After(now) {
		passed, l.storeDue = true, time.Time{}
	}
	if passed {
		l.wake()
	}
}

func (l *loop) passMachineTime() {
	now := l.machine()
	if !now.Before(l.pollAt) {
		l.pollAt = now.Add(l.config.Poll)
		l.lawDue, l.periodicStale = true, true
		l.wake()
	}
	if l.eldest && !now.Before(l.sweepBy) {
		l.sweepDue, l.sweepBy = true, now.Add(lookEvery)
	}
	if !l.doubtAt.IsZero() && !now.Before(l.doubtAt) {
		l.doubt, l.doubtAt = true, time.Time{}
	}
	if l.phase == working || now.Before(l.stepAt) {
		return
	}
	switch l.phase {
	case draining:
		l.cancelAll()
	case stopping:
		l.phase, l.stepAt = leaving, now.Add(l.config.Grace)
		for r, cause := range l.doomed {
			l.giveUp(r, cause)
		}
	}
}

// wake means that something may be claimable, and that the next due time may
// be another.
func (l *loop) wake() {
	l.limits.wake("")
	l.dueStale, l.gatesDue = true, true
	l.wakeLanes()
}

// arrive takes in a lease. With seats it may start though others came with it.
func (l *loop) arrive(j *job.Job, now time.Time, seats bool) {
	way := l.routeOf(j)
	r := l.newRun(j, way)
	l.leases.put(r)
	if l.config.Observe != nil {
		l.observe(r, Event{What: Claimed})
	}
	switch {
	case l.phase != working:
		l.giveBack(r, "stopping")
	case r.handler == nil:
		l.giveBack(r, "no handler")
	case r.policy == nil:
		l.unknownPolicy(r, now)
		l.pending = append(l.pending, r)
	case l.lanes.isLane(j):
		l.arriveLane(r, now, seats)
	default:
		l.admit(r, way, now)
	}
}

// admit starts a lease, lets it wait to run alone, or gives it back.
func (l *loop) admit(r *run, way *route, now time.Time) {
	room := l.running+len(l.kept)+l.holding < l.config.Concurrency && r.pace.admits(now)
	switch {
	case !r.job.Begun && room && (r.job.DueAt.After(now) || !r.isSuspect()): // kept, and the answer was lost
		l.unbegun(r, r.job.DueAt)
	case !r.job.Begun && len(l.suspects) < l.config.Concurrency:
		l.suspects = append(l.suspects, r)
		l.observe(r, Event{What: Held, Text: "crashed twice or more: runs alone"})
	case !r.job.Begun:
		l.giveBack(r, "too many wait to run alone")
	case room:
		if !way.learnt {
			l.limits.learn(r.job.Kind, r.pace, false)
			way.learnt = true
		}
		l.start(r, now)
	default:
		l.limits.learn(r.job.Kind, r.pace, true)
		r.pace.refused = true
		l.giveBack(r, "no slot of policy "+r.policy.Name)
	}
}

// start lets a handler begin.
func (l *loop) start(r *run, now time.Time) {
	l.running++
	if l.lanes != nil {
		l.took(r.entry != nil)
	}
	r.begun, r.batch, r.startedAt = true, l.batch, now
	r.pace.started(now)
	if softLimit(r.policy) > 0 {
		r.pace.timeouts.add(r)
	}
	if l.config.Observe != nil {
		by, held := r.hold()
		l.observe(r, Event{What: Started, HeldBy: by, Held: held})
	}
	if l.ready = append(l.ready, r); len(l.ready) >= dispatchFrom {
		l.dispatch()
	}
}

// giveBack returns a lease whose handler did not begin: free of charge and to
// its old place.
func (l *loop) giveBack(r *run, why string) {
	l.observe(r, Event{What: Held, Text: why})
	l.vacate(r)
	l.returns = append(l.returns, r)
}

// finished takes a run out of its slot; its settle goes with the next turn.
func (l *loop) finished(r *run, now time.Time) {
	l.running--
	r.pace.running--
	r.unwatch()
	delete(l.doomed, r)
	if l.keeps(r) && l.leases.of(r.job.Seq) == r {
		l.hold(r)
	}
	if r.entry != nil && r.process == l.process {
		l.endLane(r, now)
	}
	if r.batch == l.batch && l.young > 0 {
		l.young--
	}
	if l.suspect == r {
		l.suspect = nil
	}
	if l.leases.of(r.job.Seq) != r {
		return // its lease was lost with the process
	}
	if len(l.pending) == 0 {
		l.pendingAt = l.machine()
	}
	l.pending = append(l.pending, r)
}
