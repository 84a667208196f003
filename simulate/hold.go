package simulate

import (
	"math"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
)

// gateCell is one target's gate.
type gateCell struct {
	state gate.State
	lanes []int32 // of the clients that ask it

	parked []parkedJob // in the order in which they were
	probe  handle      // when the next of them is let out
}

// lane is what a gate holds back of one client: first attempts or retries.
// They share a clock of the time in which the gate's hold counts, so that
// each job's share of it is a difference of two readings.
type lane struct {
	client int32
	gate   int32
	target int32
	proc   int32 // within the client, where processes have their own gates
	retry  bool
	jobs   list   // held in process, in the order in which they came
	until  handle // when time alone may end the hold
	expire handle // when the first job has been held long enough
	clock  int64  // time that counted, up to since
	since  int64
	stops  int64   // the clock counts no longer than until this instant; since = it stands
	limits []limit // a heap by the clock's reading at which a job expires
}

// limit is the reading of a lane's clock at which a job was held too long.
type limit struct {
	at  int64
	job int32
	seq int64 // of the job, to tell it from a later one in its place
}

// guard makes the gates of a client.
func (k *kernel) guard(cl *client, index int32, shared map[string]int32) {
	scope := cl.spec.Gate
	if scope == "" || scope == GateNone {
		return
	}
	targets := int32(len(cl.targets))
	cl.firstGate, cl.firstLane = int32(len(k.gates)), int32(len(k.lanes))
	groups := int32(1)
	if scope == GateClient {
		groups, cl.gatesEach = cl.procCount, targets
	}
	for g := range groups * targets {
		cell := int32(len(k.gates))
		name := cl.targets[g%targets].name
		old, known := shared[name]
		if scope == GateShared && known {
			cell = old
		} else {
			k.gates = append(k.gates, gateCell{})
		}
		if scope == GateShared {
			shared[name] = cell
			cl.sharedGate = append(cl.sharedGate, cell)
		}
		for _, again := range []bool{false, true} {
			k.gates[cell].lanes = append(k.gates[cell].lanes, int32(len(k.lanes)))
			k.lanes = append(k.lanes, lane{client: index, gate: cell, target: g % targets, proc: g / targets, retry: again, jobs: newList()})
		}
	}
}

// laneOf returns the lane of a job's next start; none without a gate.
func (k *kernel) laneOf(j *job) int32 {
	cl := &k.clients[j.client]
	if cl.firstGate == none {
		return none
	}
	n := (j.proc-cl.firstProc)*cl.gatesEach + j.target
	if j.history.Starts > 0 {
		return cl.firstLane + 2*n + 1
	}
	return cl.firstLane + 2*n
}

// admit asks the gate for a start and, where it may not, holds the job.
func (k *kernel) admit(i int32) {
	j := k.jobs.at(i)
	l := k.laneOf(j)
	if l == none {
		k.begin(i)
		return
	}
	ln := &k.lanes[l]
	v := k.ask(i, ln)
	if v.Admit {
		k.begin(i)
		return
	}
	if v.CountsHold() && k.spent(j) {
		k.overHeld(i)
		return
	}
	j.stage = heldBack
	ln.jobs.push(k.jobs.links, i)
	k.join(i, l)
	k.wait(l, v)
}

// ask asks a lane's gate and sets the lane's clock by the answer.
func (k *kernel) ask(i int32, ln *lane) gate.Verdict {
	j := k.jobs.at(i)
	cl := &k.clients[j.client]
	cell := &k.gates[ln.gate]
	draw := k.gateDraw(j, -j.history.Starts-1)
	var v gate.Verdict
	cell.state, v = gate.Step(cl.gate, cell.state, gate.Ask{Retry: ln.retry}, k.time(), draw)
	if v.Admit {
		j.probe, j.asRetry = v.Probe, v.Retry
	}
	stops := k.now
	if v.CountsHold() {
		if stops = math.MaxInt64; !v.Until.IsZero() {
			stops = k.instant(v.Until)
		}
	}
	// A pause that the target asked for holds, and does not count.
	ln.clock, ln.since, ln.stops = ln.reading(k.now), max(k.now, k.instant(cell.state.PauseUntil.Time())), stops
	return v
}

// reading is the lane's clock.
func (ln *lane) reading(now int64) int64 {
	return ln.clock + max(0, min(now, ln.stops)-ln.since)
}

// gateDraw is the one random number of a step of a job's gate: as retry.Do
// draws it, by the job's start, or as the worker does, by the target and how
// often its breaker has opened.
func (k *kernel) gateDraw(j *job, start int) float64 {
	cl := &k.clients[j.client]
	if cl.mode == Durable {
		return retry.Derive(cl.seed, cl.targets[j.target].number, k.gates[k.gateOf(j)].state.Trips+1).Unit()
	}
	return retry.Derive(cl.seed, j.sequence, start).Unit()
}

// join begins a job's wait in a lane.
func (k *kernel) join(i, l int32) {
	j, ln := k.jobs.at(i), &k.lanes[l]
	j.lane = l
	j.joined = ln.reading(k.now)
	if k.clients[j.client].maxHold > 0 {
		ln.pushLimit(limit{at: k.limitOf(j), job: i, seq: j.seq})
	}
}

// quit ends a job's wait in its lane, if it is in one, and books the time.
func (k *kernel) quit(i int32) {
	if j := k.jobs.at(i); j.lane != none {
		j.held += k.lanes[j.lane].reading(k.now) - j.joined
		j.lane = none
	}
}

// spent reports whether a job has been held as long as it may be.
func (k *kernel) spent(j *job) bool {
	most := k.clients[j.client].maxHold
	return most > 0 && j.held >= most
}

// wait sets a lane's timers after a refusal.
func (k *kernel) wait(l int32, v gate.Verdict) {
	ln := &k.lanes[l]
	k.agenda.cancel(&ln.until)
	if !v.Until.IsZero() {
		rank := rankBegin
		if k.clients[ln.client].mode == Durable {
			rank = rankEnd // who kept a slot goes before the floor
		}
		ln.until = k.agenda.add(max(k.instant(v.Until), k.now+1), rank, doLane, l)
	}
	k.watch(l)
}

// watch sets the timer of the first job that will have been held too long.
func (k *kernel) watch(l int32) {
	ln := &k.lanes[l]
	k.agenda.cancel(&ln.expire)
	ln.prune(k, l)
	if len(ln.limits) == 0 || ln.stops <= k.now {
		return
	}
	if at := k.after(max(0, ln.limits[0].at-ln.reading(k.now))); at <= ln.stops {
		ln.expire = k.agenda.add(at, rankLate, doExpire, l)
	}
}

// laneDue asks again because time may have helped.
func (k *kernel) laneDue(l int32) {
	k.lanes[l].until = 0
	k.release(l)
}

// release starts what the gate admits of a lane, in order.
func (k *kernel) release(l int32) {
	ln := &k.lanes[l]
	everyone := k.clients[ln.client].policy.Budget.Kind == policy.BudgetThrottle
	var refused gate.Verdict
	for i := ln.jobs.head; i != none; {
		next := k.jobs.links[i].next
		p := &k.procs[k.jobs.at(i).proc]
		if k.now < p.nextAt { // another durable job started in its kept slot
			refused = gate.Verdict{Until: k.origin.Add(time.Duration(p.nextAt))}
			break
		}
		v := k.ask(i, ln)
		if v.Admit {
			ln.jobs.remove(k.jobs.links, i)
			k.quit(i)
			k.begin(i)
			if k.clients[ln.client].mode == Durable {
				k.spacedFrom(p)
			}
		} else {
			if refused.Until.IsZero() || !v.Until.IsZero() && v.Until.Before(refused.Until) {
				refused = v
			}
			if !everyone {
				break
			}
		}
		i = next
	}
	if ln.jobs.n > 0 {
		k.wait(l, refused)
	} else {
		k.agenda.cancel(&ln.until)
		k.watch(l)
	}
}

// laneExpired ends the jobs of a lane that were held too long, after asking
// for each a last time.
func (k *kernel) laneExpired(l int32) {
	ln := &k.lanes[l]
	ln.expire = 0
	for {
		ln.prune(k, l)
		if len(ln.limits) == 0 || ln.limits[0].at > ln.reading(k.now) {
			break
		}
		i := ln.popLimit().job
		if k.jobs.at(i).stage == queued {
			k.overHeld(i)
			continue
		}
		ln.jobs.remove(k.jobs.links, i)
		k.quit(i)
		k.jobs.at(i).stage = delayed
		if v := k.ask(i, ln); v.Admit {
			k.begin(i)
		} else {
			k.overHeld(i)
		}
	}
	k.watch(l)
}

// unhold takes a job that leaves out of its lane.
func (k *kernel) unhold(i int32) {
	ln := &k.lanes[k.jobs.at(i).lane]
	ln.jobs.remove(k.jobs.links, i)
	k.quit(i)
	k.jobs.at(i).stage = delayed
}

// overHeld parks a job, or ends it where the policy says so. In process there
// is nowhere to park it: the caller is told.
func (k *kernel) overHeld(i int32) {
	j := k.jobs.at(i)
	cl := &k.clients[j.client]
	fails := cl.policy.FailsHeld(j.history.Starts > 0)
	if cl.mode == Durable && !fails {
		k.park(i)
		return
	}
	j.generic = failure.Unavailable
	if fails {
		k.fail(i, retry.CauseExpired)
	} else {
		k.fail(i, retry.CauseTargetDown)
	}
}

// permitBack ends an admitted call at its gate and wakes what it held.
func (k *kernel) permitBack(i int32, ok bool, f failure.Failure, pause time.Duration) {
	j := k.jobs.at(i)
	cl := &k.clients[j.client]
	if cl.firstGate == none {
		return
	}
	g := k.gateOf(j)
	cell := &k.gates[g]
	done := gate.Done{OK: ok, Failure: f, Retry: j.asRetry, Probe: j.probe, Repeat: j.history.Starts > 1, Pause: pause}
	if cl.gate.Keep > 0 {
		done.StartedAt = k.origin.Add(time.Duration(j.started))
	}
	cell.state, _ = gate.Step(cl.gate, cell.state, done, k.time(), k.gateDraw(j, j.history.Starts))
	// Who waits in process or in a slot goes before the floors.
	for _, l := range cell.lanes {
		if k.lanes[l].jobs.n > 0 {
			k.release(l)
		}
	}
	for _, l := range cell.lanes {
		k.wake(l)
	}
	k.releaseParked(g)
}

// wake lets a lane ask again because its gate has changed.
func (k *kernel) wake(l int32) {
	ln := &k.lanes[l]
	if ln.jobs.n > 0 {
		k.release(l)
	}
	if k.clients[ln.client].mode == Durable {
		k.wakeFloors(ln)
	}
}

// gateOf is the gate of a job's target.
func (k *kernel) gateOf(j *job) int32 { return k.gateAt(&k.clients[j.client], j.proc, j.target) }

// gateAt is the gate of a client's target for one of its processes.
func (k *kernel) gateAt(cl *client, proc, target int32) int32 {
	if cl.sharedGate != nil {
		return cl.sharedGate[target]
	}
	return cl.firstGate + (proc-cl.firstProc)*cl.gatesEach + target
}
