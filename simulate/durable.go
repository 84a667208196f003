package simulate

import (
	"time"

	"github.com/ebbhq/ebb/dispatch"
	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/policy"
)

// unlimited is the number of slots of a process without a limit.
const unlimited = 1 << 30

// permitLife is how long a permit of a durable process may wait for its start,
// as the worker's grants: a window budget is stricter by that much.
const permitLife = time.Second

// newFloor makes the floor of a durable process.
func (k *kernel) newFloor(cl *client, proc int32, workers int) *dispatch.Floor {
	if workers == 0 {
		workers = unlimited
	}
	f := dispatch.New(workers, k.origin)
	limits := dispatch.LimitsOf(cl.policy)
	if cl.spec.Gate == "" || cl.spec.Gate == GateNone { // work without a target is claimed in its order
		limits.FirstShare, limits.SlowShare = 0, 0
	}
	f.SetPolicy(cl.policy.Name, limits)
	f.SetProbing(k.prober(proc))
	return f
}

// enqueue makes a new job due at once.
func (k *kernel) enqueue(i int32) {
	j := k.jobs.at(i)
	p := &k.procs[j.proc]
	if most := k.clients[j.client].maxWaiting; most > 0 {
		if firsts, _ := p.floor.Waiting(k.nameOf(j)); firsts >= most {
			k.turnAway(i)
			return
		}
	}
	k.requeue(i)
}

func (k *kernel) nameOf(j *job) string { return k.clients[j.client].targets[j.target].name }

// requeue puts a due job on the floor, or starts it in the slot it kept.
func (k *kernel) requeue(i int32) {
	j := k.jobs.at(i)
	j.due = k.now
	switch {
	case k.clients[j.client].targets[j.target].disabled:
		k.fail(i, disabled)
	case j.slot && !k.yields(j):
		k.resume(i)
	default:
		k.freeSlot(i)
		j.stage = queued
		p := &k.procs[j.proc]
		p.items[j.seq] = i
		p.floor.Add(k.itemOf(j))
		if l := k.laneOf(j); l != none {
			k.join(i, l)
			k.watch(l)
		}
		k.pump(j.proc)
	}
}

// itemOf is a job as the floor knows it.
func (k *kernel) itemOf(j *job) dispatch.Item {
	return dispatch.Item{
		ID: j.seq, Target: k.nameOf(j), Policy: k.clients[j.client].policy.Name, Retry: j.history.Starts > 0, Repeat: j.history.Starts > 0,
		Priority: int(j.priority), DueAt: k.origin.Add(time.Duration(j.due)),
	}
}

// pump starts what may start of a process.
func (k *kernel) pump(proc int32) {
	p := &k.procs[proc]
	if p.pumping {
		p.again = true
		return
	}
	p.pumping = true
	for again := true; again; again = p.again {
		p.again = false
		for {
			item, ok := p.floor.Next(k.time(), p.admit)
			if !ok {
				break
			}
			i := p.items[item.ID]
			delete(p.items, item.ID)
			j := k.jobs.at(i)
			j.slot, j.onFloor = true, item.Retry
			k.quit(i)
			k.begin(i)
			k.spacedFrom(p)
		}
	}
	p.pumping = false
	k.agenda.cancel(&p.event)
	if at := p.floor.NextAt(k.time()); !at.IsZero() {
		p.event = k.agenda.add(max(k.instant(at), k.now+1), rankBegin, doFloor, proc)
	}
}

// floorDue is a time at which a floor may start something.
func (k *kernel) floorDue(proc int32) {
	k.procs[proc].event = 0
	k.pump(proc)
}

// admitter asks the gate on behalf of a floor.
func (k *kernel) admitter(proc int32) func(dispatch.Item) dispatch.Answer {
	return func(item dispatch.Item) dispatch.Answer {
		p := &k.procs[proc]
		if k.now < p.nextAt { // a kept job started
			return dispatch.Answer{Until: k.origin.Add(time.Duration(p.nextAt))}
		}
		i := p.items[item.ID]
		l := k.laneOf(k.jobs.at(i))
		if l == none {
			return dispatch.Answer{Admit: true}
		}
		v := k.ask(i, &k.lanes[l])
		if !v.Admit {
			k.watch(l)
		}
		return dispatch.Answer{Admit: v.Admit, Until: v.Until}
	}
}

// prober knows the targets whose next start decides for all others.
func (k *kernel) prober(proc int32) func(target string) bool {
	numbers := map[string]int32{}
	return func(target string) bool {
		cl := &k.clients[k.procs[proc].client]
		if cl.firstGate == none || !cl.gate.Breaker.On() {
			return false
		}
		if len(numbers) == 0 {
			for n := range cl.targets {
				numbers[cl.targets[n].name] = int32(n)
			}
		}
		g := k.gates[k.gateAt(cl, proc, numbers[target])]
		return g.state.Phase == gate.Open || g.state.Phase == gate.HalfOpen
	}
}

// yields reports whether a job gives up the slot in which it waited out its
// delay: what holds its target is not its delay.
func (k *kernel) yields(j *job) bool {
	cl := &k.clients[j.client]
	if cl.firstGate == none || !cl.policy.Gate {
		return false
	}
	s := &k.gates[k.gateOf(j)].state
	return cl.gate.Breaker.On() && s.Phase != gate.Closed || s.PauseUntil.Time().After(k.time())
}

// wakeFloors tells the floors of a lane's client that its gate has changed.
func (k *kernel) wakeFloors(ln *lane) {
	cl := &k.clients[ln.client]
	first, last := cl.firstProc, cl.firstProc+cl.procCount
	if cl.gatesEach > 0 {
		first += ln.proc
		last = first + 1
	}
	for p := first; p < last; p++ {
		if len(k.procs[p].items) > 0 {
			k.procs[p].floor.Wake(cl.targets[ln.target].name)
			k.pump(p)
		}
	}
}

// spacedFrom notes the instant of a start, for the kept jobs' spacing.
func (k *kernel) spacedFrom(p *process) {
	p.nextAt = k.now + int64(k.clients[p.client].policy.Spacing)
}

// resume starts a job in the slot it kept, when the spacing allows.
func (k *kernel) resume(i int32) {
	j := k.jobs.at(i)
	p := &k.procs[j.proc]
	if k.now < p.nextAt {
		j.stage = delayed
		j.event = k.agenda.add(p.nextAt, rankEnd, doStart, i)
		return
	}
	k.admit(i)
	if j.stage == flying {
		k.spacedFrom(p)
	}
}

// unqueue frees the slot of a durable start that ended and will be tried
// again, unless the policy keeps it.
func (k *kernel) unqueue(i int32) {
	j := k.jobs.at(i)
	cl := &k.clients[j.client]
	if cl.mode == Durable && cl.policy.Slot != policy.SlotKeep {
		k.freeSlot(i)
	}
}

// freeSlot gives a slot back to the floor.
func (k *kernel) freeSlot(i int32) {
	j := k.jobs.at(i)
	if !j.slot {
		return
	}
	j.slot = false
	item := k.itemOf(j)
	item.Retry = j.onFloor
	k.procs[j.proc].floor.Ended(item.Place(), k.time())
	k.pump(j.proc)
}

// unfloor takes a job that leaves away from the floor, waiting or running.
func (k *kernel) unfloor(i int32) {
	j := k.jobs.at(i)
	if j.stage == queued {
		p := &k.procs[j.proc]
		if p.floor.Remove(j.seq) {
			delete(p.items, j.seq)
		}
		k.quit(i)
		j.stage = delayed
	}
	k.freeSlot(i)
}

// dueAt is when a durable job that waits so long is due: stores keep whole
// microseconds and round up.
func (k *kernel) dueAt(d int64) int64 {
	at := k.after(d)
	if over := (k.origin.UnixNano() + at) % 1000; over > 0 {
		at += 1000 - over
	}
	return at
}
