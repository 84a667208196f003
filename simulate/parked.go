package simulate

import (
	"time"

	"github.com/ebbhq/ebb/gate"
)

// parkedJob names a job that waits for its target to be well, apart from the
// queue.
type parkedJob struct {
	job int32
	seq int64 // to tell it from a later one in its place
}

// park takes a durable job that was held too long out of the queue. What it
// was held for since it was last due is forgotten: it begins anew when it is
// released.
func (k *kernel) park(i int32) {
	j := k.jobs.at(i)
	j.lane = none
	k.unfloor(i)
	j.stage, j.held = parked, 0
	if j.measured {
		k.clients[j.client].meter.total.Parked++
	}
	g := k.gateOf(j)
	cell := &k.gates[g]
	cell.parked = append(cell.parked, parkedJob{i, j.seq})
	if k.trace != nil {
		k.tell(j, Event{Kind: Parked, Start: j.history.Starts})
	}
	if cell.probe == 0 {
		cell.probe = k.agenda.add(k.after(k.probeEvery(j)), rankBegin, doProbe, g)
	}
}

// probeEvery is how long after each other parked jobs are let out to see
// whether their target is well.
func (k *kernel) probeEvery(j *job) int64 {
	return int64(max(k.clients[j.client].policy.Breaker.Open, time.Second))
}

// probeDue lets one parked job out, unless others wait for the target anyway.
func (k *kernel) probeDue(g int32) {
	cell := &k.gates[g]
	cell.probe = 0
	for len(cell.parked) > 0 {
		p := cell.parked[0]
		if !k.isParked(p) {
			cell.parked = cell.parked[1:]
			continue
		}
		cell.probe = k.agenda.add(k.after(k.probeEvery(k.jobs.at(p.job))), rankBegin, doProbe, g)
		if !k.awaited(k.jobs.at(p.job)) {
			cell.parked = cell.parked[1:]
			k.requeue(p.job)
		}
		return
	}
}

// awaited reports whether work that is due waits for the job's target.
func (k *kernel) awaited(j *job) bool {
	cl := &k.clients[j.client]
	for p := cl.firstProc; p < cl.firstProc+cl.procCount; p++ {
		if firsts, retries := k.procs[p].floor.Waiting(k.nameOf(j)); firsts+retries > 0 {
			return true
		}
	}
	return false
}

// releaseParked lets all go, in their order, when the target is well.
func (k *kernel) releaseParked(g int32) {
	cell := &k.gates[g]
	if len(cell.parked) == 0 || cell.state.Phase != gate.Closed && cell.state.Phase != gate.Ramping {
		return
	}
	all := cell.parked
	cell.parked = nil
	k.agenda.cancel(&cell.probe)
	for _, p := range all {
		if k.isParked(p) {
			k.requeue(p.job)
		}
	}
}

func (k *kernel) isParked(p parkedJob) bool {
	j := k.jobs.at(p.job)
	return j.stage == parked && j.seq == p.seq
}
