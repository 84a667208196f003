package simulate

import "github.com/ebbhq/ebb/gate"

// layerCall is one dependency of a node at work.
type layerCall struct {
	client   int32
	count    int32
	parallel bool
	share    timeline
	random   stream
}

// nextCall makes a request's next call of its own, or all of those that are
// made at once, or completes it.
func (k *kernel) nextCall(r int32) {
	q := k.requests.at(r)
	n := &k.nodes[q.node]
	for q.repeat == 0 {
		q.call++
		if int(q.call) == len(n.calls) {
			k.complete(r, true)
			return
		}
		c := &n.calls[q.call]
		if p := c.share.at(k.now); p >= 1 || c.random.unit() < p {
			q.repeat = c.count
		}
	}
	c := &n.calls[q.call]
	if q.pending = 1; c.parallel {
		q.pending = q.repeat
	}
	q.repeat -= q.pending
	client, proc := c.client, int32(n.copy)
	for range q.pending { // the last to end goes on with the request
		k.arrive(client, proc, none, r, 0)
	}
}

// called is the end of a request's own call.
func (k *kernel) called(r int32, ok bool) {
	q := k.requests.at(r)
	q.pending--
	q.broken = q.broken || !ok
	if q.pending > 0 {
		return
	}
	if !q.broken {
		k.nextCall(r)
		return
	}
	n := &k.nodes[q.node]
	q.failure, q.after = n.failed.failure, n.failed.after.draw(&n.answers)
	k.complete(r, false)
}

// cancelJob ends a layer's call that nobody waits for any more.
func (k *kernel) cancelJob(i int32) {
	j := k.jobs.at(i)
	k.disown(i)
	j.parent = none
	if j.stage == flying {
		m := &k.clients[j.client].meter
		if j.request != none {
			k.giveUp(j.request)
			j.request = none
		}
		k.agenda.cancel(&j.timeout)
		k.disconnect(i)
		m.inFlight.add(k.now, -1)
		m.depth.add(k.now, 1)
		j.stage = delayed
		k.abandon(i)
	}
	j.cause = cancelled
	k.bury(i)
}

// own makes a job the call of a request.
func (k *kernel) own(r, i int32) {
	q, j := k.requests.at(r), k.jobs.at(i)
	if j.later, j.earlier = none, q.inner; q.inner != none {
		k.jobs.at(q.inner).later = i
	}
	q.inner = i
}

// disown takes a job from the calls that its request has under way.
func (k *kernel) disown(i int32) {
	j := k.jobs.at(i)
	if j.later != none {
		k.jobs.at(j.later).earlier = j.earlier
	} else {
		k.requests.at(j.parent).inner = j.earlier
	}
	if j.earlier != none {
		k.jobs.at(j.earlier).later = j.later
	}
}

// abandon gives a permit back without an outcome.
func (k *kernel) abandon(i int32) {
	j := k.jobs.at(i)
	cl := &k.clients[j.client]
	if cl.firstGate == none {
		return
	}
	cell := &k.gates[k.gateOf(j)]
	cell.state, _ = gate.Step(cl.gate, cell.state, gate.Abandon{Retry: j.asRetry, Probe: j.probe}, k.time(), 0)
	for _, l := range cell.lanes {
		k.wake(l)
	}
}
