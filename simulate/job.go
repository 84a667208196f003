package simulate

import (
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
)

// stage is where a job stands.
type stage uint8

const (
	delayed  stage = iota // until its next start is due; in no list
	waiting               // for a worker of its process
	pacing                // for its place in a wave's pace
	heldBack              // by its target's gate
	queued                // on the floor of a durable process
	flying                // a start is under way
	between               // failed a pass, waits for the wave's plan
	parked                // held too long, waits for its target to be well
)

// job is one piece of work in the system.
type job struct {
	history  retry.History
	seq      int64  // in the order of arrival at its client, 1 and up
	sequence uint64 // that draws derive from
	arrived  int64
	due      int64 // when it became due last
	started  int64 // begin of the start under way
	ended    int64 // end of the last start
	held     int64 // by holds that count, up to joined
	joined   int64 // the lane's hold clock when it began to wait
	size     int64 // PerJob service time + 1; 0 = not drawn yet

	client   int32
	proc     int32 // of kernel.procs
	target   int32 // of the client's targets
	request  int32 // under way; none
	user     int32 // closed user who waits for it; none
	parent   int32 // request of a layer that waits for it; none
	later    int32 // the next call of the same request under way; none
	earlier  int32 // the one before; none
	lane     int32 // in which it waits for the gate, none if it does not
	batch    int32 // of mode waves; none
	item     int32 // position in the batch
	wave     int32
	event    handle // delay or pace
	timeout  handle
	deadline handle

	stage    stage
	measured bool // arrived after the warm-up
	counted  bool // its start began after the warm-up
	probe    bool
	asRetry  bool // as the gate was asked
	onFloor  bool // the slot it holds was given to a retry
	linked   bool // waits for a connection
	slot     bool // holds a worker
	generic  failure.Class
	cause    retry.Cause
	priority uint8
	faults   uint64 // PerJob faults already drawn (low half) and hit (high half)
}

// arrive brings a job to a client.
func (k *kernel) arrive(c, proc, user, parent int32, priority int) int32 {
	cl := &k.clients[c]
	i, j := k.jobs.take()
	cl.sequence++
	j.seq, j.sequence = cl.sequence, uint64(cl.sequence)
	j.client, j.proc, j.user, j.parent, j.request, j.batch, j.lane = c, cl.firstProc+proc, user, parent, none, none, none
	j.arrived, j.measured, j.priority = k.now, k.measured, uint8(priority)
	j.target = k.pick(cl)
	if !cl.deadline.zero() {
		d := cl.deadline.draw(&cl.random)
		j.history.DeadlineAt = k.time().Add(time.Duration(d))
		j.deadline = k.agenda.add(k.after(d), rankLate, doDeadline, i)
	}
	m := &cl.meter
	m.all.arrived++
	if j.measured {
		m.total.Jobs++
	}
	m.inSystem.add(k.now, 1)
	m.depth.add(k.now, 1)
	if k.trace != nil {
		k.tell(j, Event{Kind: Arrived})
	}
	if parent == none {
		k.counted()
	} else {
		k.own(parent, i)
	}
	switch cl.mode {
	case Durable:
		k.enqueue(i)
	case Waves: // the batch starts it
	default:
		k.hire(i)
	}
	return i
}

// deadline ends a job that has not been started in time.
func (k *kernel) deadline(i int32) {
	j := k.jobs.at(i)
	j.deadline = 0
	if j.stage != flying && j.stage != between {
		k.fail(i, retry.CauseExpired)
	}
}

// begin makes a start: the gate has admitted it.
func (k *kernel) begin(i int32) {
	j := k.jobs.at(i)
	cl := &k.clients[j.client]
	m := &cl.meter
	j.stage, j.started = flying, k.now
	j.history = j.history.Started(k.time())
	j.counted = k.measured
	n := j.history.Starts
	first := n == 1
	if first && cl.mode == Durable { // as stores keep it
		j.history.FirstStartAt = j.history.FirstStartAt.Truncate(time.Microsecond)
	}
	if first {
		m.all.firsts++
		if j.measured {
			m.waits.add(k.now - j.arrived)
		}
	} else {
		m.all.retries++
		if j.counted {
			m.interval(n, k.now-j.ended)
		}
	}
	if j.counted {
		m.total.Starts++
		if first {
			m.total.Firsts++
		} else {
			m.total.Retries++
		}
	}
	m.depth.add(k.now, -1)
	m.inFlight.add(k.now, 1)
	if k.trace != nil {
		k.tell(j, Event{Kind: Started, Start: n})
	}
	if limit := cl.limit(); limit > 0 {
		j.timeout = k.agenda.add(k.after(limit), rankLate, doTimeout, i)
	}
	k.connect(i)
}

// timedOut ends a start whose limit has passed.
func (k *kernel) timedOut(i int32) {
	j := k.jobs.at(i)
	j.timeout = 0
	if j.counted {
		k.clients[j.client].meter.total.TimedOut++
	}
	if j.request != none {
		k.giveUp(j.request)
		j.request = none
	}
	k.conclude(i, false, failure.Of(failure.Timeout))
}

// conclude ends a start.
func (k *kernel) conclude(i int32, ok bool, f failure.Failure) {
	j := k.jobs.at(i)
	cl := &k.clients[j.client]
	m := &cl.meter
	k.agenda.cancel(&j.timeout)
	k.disconnect(i)
	j.ended, j.request = k.now, none
	m.inFlight.add(k.now, -1)
	m.depth.add(k.now, 1)
	if ok {
		m.all.ok++
	} else {
		m.all.failed++
		j.generic = f.Class
	}
	if j.counted {
		m.tries.add(k.now - j.started)
		if ok {
			m.total.OK++
			m.ok.add(k.now - j.started)
		} else {
			m.total.Failed++
			m.failure(f.Class, f.Status)
		}
	}
	if ok {
		k.permitBack(i, true, failure.Failure{}, 0)
		if k.trace != nil {
			k.tell(j, Event{Kind: Ended, Start: j.history.Starts, OK: true})
		}
		k.succeed(i)
		return
	}
	k.decide(i, f)
}

// decide asks the policy what happens next.
func (k *kernel) decide(i int32, f failure.Failure) {
	j := k.jobs.at(i)
	cl := &k.clients[j.client]
	d := retry.Decide(cl.policy, j.history, f, k.time(), retry.Derive(cl.seed, j.sequence, j.history.Starts))
	if cl.hasDelay && d.Action.Retries() {
		d.Delay = time.Duration(cl.delay.draw(&cl.random))
		d.Next.LastDelay = d.Delay
	}
	if k.trace != nil {
		k.tell(j, Event{Kind: Ended, Start: j.history.Starts, Class: f.Class, Status: f.Status, Action: d.Action, Cause: d.Cause, Delay: d.Delay})
	}
	j.history = d.Next
	var pause time.Duration
	if d.Action == policy.PauseTarget {
		pause = d.Delay
	}
	k.permitBack(i, false, f, pause)
	switch {
	case !d.Action.Retries():
		if d.Action == policy.DisableTarget {
			cl.disable(j.target)
		}
		k.fail(i, d.Cause)
	default:
		k.delay(i, int64(d.Delay))
	}
}

// delay waits for the next start, in the worker or on the queue.
func (k *kernel) delay(i int32, d int64) {
	j := k.jobs.at(i)
	j.stage = delayed
	k.unqueue(i)
	at := k.after(d)
	if k.clients[j.client].mode == Durable {
		at = k.dueAt(d)
	}
	j.event = k.agenda.add(at, rankBegin, doStart, i)
}

// due is the end of a job's delay.
func (k *kernel) due(i int32) {
	j := k.jobs.at(i)
	j.event = 0
	if k.clients[j.client].mode == Durable {
		k.requeue(i)
		return
	}
	k.pace(i)
}

func (k *kernel) succeed(i int32) {
	j := k.jobs.at(i)
	m := &k.clients[j.client].meter
	m.all.succeeded++
	if j.measured {
		m.total.Succeeded++
		m.jobs.add(k.now - j.arrived)
	}
	k.leave(i, true)
}

// fail ends a job without success. In a wave's pass the plan has the last
// word.
func (k *kernel) fail(i int32, cause retry.Cause) {
	j := k.jobs.at(i)
	j.cause = cause
	if j.batch != none && k.passFailed(i) {
		return
	}
	k.bury(i)
}

// bury books a dead letter.
func (k *kernel) bury(i int32) {
	j := k.jobs.at(i)
	m := &k.clients[j.client].meter
	m.all.dead++
	if j.measured {
		m.total.Dead++
		m.deadLetter(j.cause, j.generic, k.now)
	}
	k.leave(i, false)
}

// leave takes a job out of the system and tells who waits for it.
func (k *kernel) leave(i int32, ok bool) {
	j := k.jobs.at(i)
	m := &k.clients[j.client].meter
	k.detach(i)
	k.agenda.cancel(&j.event)
	k.agenda.cancel(&j.deadline)
	m.inSystem.add(k.now, -1)
	m.depth.add(k.now, -1)
	m.lastEnd = k.now
	if j.held > 0 {
		m.held.addProduct(1, j.held)
	}
	if k.trace != nil {
		k.tell(j, Event{Kind: Finish, Start: j.history.Starts, OK: ok, Class: j.generic, Cause: j.cause})
	}
	user, parent, batch := j.user, j.parent, j.batch
	if batch != none {
		k.batches[batch].leaves(j, ok)
		if j.stage == between {
			batch = none // its pass is over
		}
	}
	if parent != none {
		k.disown(i)
	}
	j.lane = none
	k.jobs.give(i)
	switch {
	case user != none:
		k.answeredUser(user)
	case parent != none:
		k.called(parent, ok)
	case batch != none:
		k.nextItem(batch)
	}
}

// tell fills in who and when, and calls the trace.
func (k *kernel) tell(j *job, e Event) {
	cl := &k.clients[j.client]
	e.At, e.Caller, e.Job, e.Target, e.Wave = time.Duration(k.now), cl.name, j.seq, cl.targets[j.target].name, int(j.wave)
	if e.OK {
		e.Class = failure.Unknown
	}
	k.trace(e)
}
