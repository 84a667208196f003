package worker

import (
	"errors"
	"slices"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// Gathering results: after a claim of gatherFrom jobs or more, results wait
// for the others of the claim, for gatherBase and gatherEach a job at most.
// Handlers that take longer lose a few milliseconds, and those that end at
// once go back in one transaction instead of hundreds. Where lanes are fed ahead
// of their slots, as many results that are there already do not wait.
const (
	gatherFrom = 16
	gatherBase = time.Millisecond
	gatherEach = 4 * time.Microsecond
)

func (l *loop) lingering(now time.Time) bool {
	return l.young > 0 && now.Before(l.lingerUntil) && (!l.lanes.busy() || len(l.pending) < l.young)
}

// turn is one round trip with what it carries.
type turn struct {
	store.Turn
	runs     []*run // of Settles
	paper    paper
	begins   []*run
	returns  []*run
	asks     []asked
	reserved int
	leftAt   time.Time // machine time
	lanes    laneTurn
}

// paper is what settles are written on. It is used again when a turn has come
// back: of all that a job costs here, this was the most.
type paper struct {
	settles  []store.Settle
	attempts []job.Attempt
}

// write writes the settles. It runs beside the loop: the runs have ended.
func (t *turn) write() {
	n := len(t.runs)
	t.paper.settles = slices.Grow(t.paper.settles[:0], n)[:n]
	t.paper.attempts = slices.Grow(t.paper.attempts[:0], n)[:n]
	t.Settles = t.paper.settles
	for i, r := range t.runs {
		r.settling(&t.Settles[i], &t.paper.attempts[i])
	}
}

// keep puts the paper of a turn that is over aside, blank.
func (l *loop) keep(p paper) {
	if len(l.papers) <= l.config.Turns {
		clear(p.settles)
		clear(p.attempts)
		l.papers = append(l.papers, p)
	}
}

// launch starts as many turns as there is reason for. A turn leaves at once
// when the store is idle; while turns are under way, results gather.
func (l *loop) launch() {
	for l.process != 0 && l.mayTurn() {
		now := l.machine()
		lingers := l.lingering(now)
		if now.Before(l.pauseUntil) || lingers && l.phase == working && !l.idling() && !l.barred(l.now()) {
			return
		}
		if !lingers {
			l.lanes.notice(now)
		}
		if l.turns > 0 && !l.pressing(l.now()) || l.turns == 0 && l.gathering(l.machine()) {
			return
		}
		if l.doubt {
			l.adopt()
		}
		if l.adopting {
			return // a lease that is settled meanwhile would be taken for a new one
		}
		t := l.prepare()
		if t == nil {
			return
		}
		t.lanes.flying, t.leftAt = l.lanes.fly(), l.machine()
		l.turns++
		l.group.Go(func() {
			ctx, cancel := l.call(l.calls)
			defer cancel()
			t.write()
			answer, err := l.store.Turn(ctx, t.Turn)
			l.mail.post(func(l *loop) { l.turned(t, answer, err) })
		})
	}
}

// mayTurn reports whether another turn may be under way. Where lanes flow, one
// more may: else the store would have one turn to work on while the answer of
// the other is taken in and run.
func (l *loop) mayTurn() bool {
	switch most := l.config.Turns; {
	case l.turns < most:
		return true
	case l.turns > most || most == 1 || l.lanes == nil:
		return false
	}
	return l.flowing(l.now())
}

// idling reports whether the store has nothing to do for us although a whole
// turn's part of the slots is free: then a claim does not wait for results, so
// that handlers run while the store is at work, and the other way round.
func (l *loop) idling() bool {
	return l.turns == 0 && l.free() >= l.part() && l.limits.claimable(l.now())
}

// part is how many slots one turn may ask for.
func (l *loop) part() int { return (l.config.Concurrency + l.config.Turns - 1) / l.config.Turns }

// prepare gathers what the next turn carries; nil if nothing.
func (l *loop) prepare() *turn {
	now := l.now()
	t := &turn{Turn: store.Turn{Process: l.process, Now: l.storeNow()}}
	t.runs, l.pending, l.calm = l.pending, nil, 0
	if l.most > 0 && len(t.runs) > l.most {
		t.runs, l.pending = t.runs[:l.most:l.most], t.runs[l.most:]
	}
	queue := ""
	for _, r := range t.runs {
		l.returnInPlace(r)
		switch {
		case l.keeps(r):
			r.settle.Keep = true
		case r.job.Queue != queue && (r.entry == nil || r.entry.stays || r.pace.refused):
			queue = r.job.Queue
			l.limits.wake(queue) // a strict queue's next, or a slot that kept others out
		}
	}
	l.resume(t, now)
	if r := l.nextSuspect(now, false); r != nil {
		l.begin(t, r)
	}
	l.serveTurn(t, now)
	t.returns, l.returns = l.returns, nil
	for _, r := range t.returns {
		t.Release = append(t.Release, r.ref())
	}
	l.ask(t, now)
	if len(t.runs) == 0 && len(t.Release) == 0 && len(t.Begin) == 0 && len(t.Claims) == 0 &&
		len(t.Swaps) == 0 && len(t.Lanes) == 0 && len(t.lanes.starts) == 0 {
		return nil
	}
	if last := len(l.papers) - 1; last >= 0 {
		t.paper, l.papers = l.papers[last], l.papers[:last]
	}
	return t
}

// ask adds claims for the free slots, at most this turn's part of them.
func (l *loop) ask(t *turn, now time.Time) {
	free := min(l.part(), l.plainRoom())
	if l.phase != working || l.doubt || free <= 0 || len(l.suspects) >= l.config.Concurrency {
		return
	}
	t.asks = l.limits.share(free, now)
	for _, a := range t.asks {
		l.reserved += a.limit
		t.reserved += a.limit
		t.Claims = append(t.Claims, store.Claim{Process: l.process, Queue: a.lane.queue, Kinds: a.lane.kinds, Limit: a.limit, Now: t.Now})
	}
}

// claims reports whether a turn would claim plain work now. While all slots
// are taken, kept ones too, it would not, whatever may be there.
func (l *loop) claims(now time.Time) bool {
	return l.plainRoom() > 0 && len(l.suspects) < l.config.Concurrency && l.limits.claimable(now)
}

// free counts slots that nobody runs in or has asked for.
func (l *loop) free() int {
	return l.config.Concurrency - l.running - l.reserved - len(l.kept) - l.holding
}

// nextSuspect returns the suspect whose turn it is, of lanes or of the others.
func (l *loop) nextSuspect(now time.Time, lane bool) *run {
	if l.suspect != nil || len(l.suspects) == 0 || l.phase != working || l.free() <= 0 {
		return nil
	}
	for i, r := range l.suspects {
		isLane := l.lanes.isLane(&r.job)
		if isLane == lane && r.pace.admits(now) && (!lane || l.admitSuspect(r, now)) {
			l.suspects = slices.Delete(l.suspects, i, i+1)
			return r
		}
	}
	return nil
}

// turned takes in the answer of a turn.
func (l *loop) turned(t *turn, answer store.Turned, err error) {
	l.turns--
	l.lanes.landed(t, l.machine())
	l.reserved -= t.reserved
	for _, a := range t.asks {
		a.lane.pace.reserved -= a.limit
	}
	for _, r := range t.begins {
		if r.entry == nil {
			r.pace.reserved--
		}
	}
	switch {
	case errors.Is(err, store.ErrLostProcess):
		l.lost(t.Process)
		return
	case t.Process != l.process:
		return // of a process that was taken for dead since
	case err != nil:
		l.failedTurn(t, err)
		return
	}
	l.keep(t.paper)
	l.failures = 0
	if l.most *= 2; l.most > l.config.Concurrency {
		l.most = 0
	}
	l.settled(t, answer)
	l.tellAll(EndedEvents(answer.Parked))
	for i, r := range t.begins {
		if r.entry == nil {
			l.began(r, answer.Begun[i])
		}
	}
	for _, r := range t.returns {
		l.forget(r)
	}
	running := l.running
	l.batch++
	l.turnedLanes(t, &answer)
	l.seeGates(answer.Gates) // before anything starts by a permit in hand
	if len(answer.Claimed) > 0 {
		l.serve(l.now(), true) // who waits goes before who comes
	}
	l.claimed(t, answer.Claimed)
	l.foundLanes(t, &answer)
	l.gather(l.running - running)
}

// failedTurn keeps what the turn carried for the next. Whether it was done is
// not known: settles of a lease that is gone are refused, and leases that we
// were not told of are looked for. The next one carries half as much, so that
// a result which the store cannot take ends up alone and behind the others.
func (l *loop) failedTurn(t *turn, err error) {
	l.failures++
	l.pauseUntil = l.machine().Add(l.delay(l.failures))
	if n := len(t.runs); n > 0 {
		l.most = max(1, n/2)
	}
	if len(t.runs) == 1 {
		l.pending = append(l.pending, t.runs...)
	} else {
		l.pending = append(t.runs, l.pending...)
	}
	l.calm = 0
	l.returns = append(t.returns, l.returns...)
	for _, r := range t.begins {
		if r.entry == nil {
			l.unbegun(r, r.beginAt)
		}
	}
	l.failedLanes(t)
	if len(t.Claims) > 0 || len(t.Lanes) > 0 || len(t.Swaps) > 0 || slices.ContainsFunc(t.runs, func(r *run) bool { return r.settle != nil && r.settle.Keep }) {
		// A call that we gave up may still be done: look again by then.
		l.doubt, l.doubtAt = true, l.machine().Add(l.config.Lease)
	}
	for _, a := range t.asks {
		a.lane.hungry = true
	}
	l.tell(Event{What: Erred, Text: "turn", Err: err})
}

func (l *loop) settled(t *turn, answer store.Turned) {
	from := t.Now
	if from.IsZero() { // by the store's clock, a moment ago
		from = l.now()
	}
	for i, r := range t.runs {
		if r.verdict.to == job.Queued {
			l.forget(r)
		} else {
			l.leases.drop(r.job.Seq)
		}
		done := answer.Settled[i]
		l.unhold(r)
		if !done || r.settle == nil || !r.settle.Keep {
			l.vacate(r)
		}
		switch {
		case r.verdict.to != job.Queued:
		case r.settle.Keep && done:
			l.stay(r, store.Due(from, r.settle.Delay))
		case r.settle.Keep:
			l.doubt = true // perhaps it was done before, and the answer was lost
		case done:
			l.dues.add(store.Due(from, r.settle.Delay))
		}
		if l.config.Observe == nil {
			continue
		}
		l.observe(r, settledEvent(r, done))
	}
}

// forget drops a lease that is over, unless the job is ours again already: the
// answer of a later turn may come first.
func (l *loop) forget(r *run) {
	if l.leases.of(r.job.Seq) == r {
		l.leases.drop(r.job.Seq)
	}
}

func settledEvent(r *run, done bool) Event {
	e := Event{What: Settled, To: r.verdict.to, Took: r.took()}
	if !done {
		if r.verdict.completed { // the handler's transaction was committed
			e.To = job.Succeeded
			return e
		}
		e.What = Refused
	}
	if why := r.verdict.why; why != nil {
		e.Failure, e.Decision = why.failure, why.decision
	}
	if e.To == job.Failed || e.To == job.Parked {
		e.Cause = r.settle.Cause
		if done && r.settle.Attempt == nil { // it ended while it waited
			e.What, e.Untried, e.Count, e.Target, e.Text = Ended, !store.Retrying(r.job.History), 1, r.job.Target, ByHold
		}
	}
	return e
}

// claimed starts what was claimed and sees which lanes may have more.
func (l *loop) claimed(t *turn, jobs []job.Job) {
	for _, a := range t.asks {
		n := len(jobs)
		if len(t.asks) > 1 || len(t.Lanes) > 0 {
			n = 0
			for i := range jobs {
				if len(t.Lanes) > 0 && l.lanes.isLane(&jobs[i]) {
					continue
				}
				if jobs[i].Queue == a.lane.queue && slices.Contains(a.lane.kinds, jobs[i].Kind) {
					n++
				}
			}
		}
		if n >= a.limit {
			a.lane.hungry = true
		}
		if n == 0 && l.lanes != nil {
			l.lanes.lead = max(l.lanes.lead, 1) // plain work had its turn and no use for it
		}
	}
	l.learnLaws(t, jobs)
	now := l.now()
	seats := l.seats(jobs, now)
	if len(t.Lanes) > 0 {
		l.arriveInTurns(jobs, now, seats)
		return
	}
	for i := range jobs {
		l.arrive(&jobs[i], now, i < seats)
	}
}

// gather lets the results of so many starts come back together.
func (l *loop) gather(n int) {
	if l.young = n; n >= gatherFrom {
		l.lingerUntil = l.machine().Add(gatherBase + time.Duration(n)*gatherEach)
	}
}
