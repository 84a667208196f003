package simulate

// admitRequest takes a request into service or into the line, or finds both
// full.
func (k *kernel) admitRequest(r int32) {
	q := k.requests.at(r)
	n := &k.nodes[q.node]
	if n.spec.Order == PS {
		k.enter(r)
		k.shareBegin(r)
		return
	}
	free := n.serving.n < n.servers
	if !free && n.queueMost != int(none) && n.waiting.n >= n.queueMost {
		if q.measured {
			n.meter.total.Full++
		}
		k.refuse(r, &n.full)
		return
	}
	k.enter(r)
	if free {
		k.serve(r)
		return
	}
	if q.measured {
		n.meter.total.Waited++
	}
	q.stand = inLine
	n.waiting.push(k.requests.links, r)
	n.meter.queue.add(k.now, 1)
	if !n.maxWait.zero() {
		q.event = k.agenda.add(k.after(n.maxWait.draw(&n.answers)), rankLate, doOverdue, r)
	}
}

// overdue answers a request that has waited too long for a server.
func (k *kernel) overdue(r int32) {
	q := k.requests.at(r)
	q.event = 0
	n := &k.nodes[q.node]
	k.unline(r)
	if q.measured {
		n.meter.total.Overdue++
	}
	k.refuse(r, &n.full)
}

// enter counts a request as in the system.
func (k *kernel) enter(r int32) {
	q := k.requests.at(r)
	n := &k.nodes[q.node]
	q.counted = true
	if q.measured {
		n.meter.total.Admitted++
	}
	n.meter.inSystem.add(k.now, 1)
}

// exit counts a request as out of the system.
func (k *kernel) exit(r int32) {
	q := k.requests.at(r)
	q.counted = false
	k.nodes[q.node].meter.inSystem.add(k.now, -1)
}

// fill gives free servers to those who wait.
func (k *kernel) fill(i int32) {
	n := &k.nodes[i]
	for n.waiting.n > 0 && n.serving.n < n.servers {
		r := n.waiting.head
		if n.spec.Order == LIFO {
			r = n.waiting.tail
		}
		n.waiting.remove(k.requests.links, r)
		n.meter.queue.add(k.now, -1)
		q := k.requests.at(r)
		k.agenda.cancel(&q.event)
		if q.job == none && n.spec.Abandoned == Skip {
			k.exit(r)
			k.drop(r)
			continue
		}
		k.serve(r)
	}
}

// serve begins the service of a request.
func (k *kernel) serve(r int32) {
	q := k.requests.at(r)
	n := &k.nodes[q.node]
	k.occupy(r)
	q.stand, q.served = inService, k.now
	if q.measured {
		n.meter.waits.add(k.now - q.arrived)
	}
	k.faulted(r, true)
	work := float64(k.sizeOf(q, n)) * n.spec.Load.at(n.serving.n) / n.collapse.speed()
	if at, ok := n.finish(k.now, work); ok {
		q.event = k.agenda.add(at, rankEnd, doServed, r)
	}
}

// occupy takes a server.
func (k *kernel) occupy(r int32) {
	q := k.requests.at(r)
	n := &k.nodes[q.node]
	q.onServer = true
	n.serving.push(k.requests.links, r)
	n.meter.busy.add(k.now, 1)
}

// vacate leaves a server.
func (k *kernel) vacate(r int32) {
	q := k.requests.at(r)
	n := &k.nodes[q.node]
	if !q.onServer {
		if q.stand == calling {
			n.away.remove(k.requests.links, r)
		}
		return
	}
	q.onServer = false
	n.serving.remove(k.requests.links, r)
	n.meter.busy.add(k.now, -1)
}

// sizeOf draws how much work a request is.
func (k *kernel) sizeOf(q *request, n *node) int64 {
	if !n.spec.PerJob || q.job == none {
		return n.service.draw(&n.services)
	}
	j := k.jobs.at(q.job)
	if j.size == 0 {
		j.size = n.service.draw(&n.services) + 1
	}
	return j.size - 1
}

// finish is when so much work is done at the servers' speed.
func (n *node) finish(now int64, work float64) (int64, bool) {
	if n.speed.constant {
		if n.speed.value <= 0 {
			return 0, false
		}
		d := nanoseconds(work / n.speed.value)
		return now + d, d < 1<<61
	}
	at, _, ok := n.speed.reach(now, 0, work)
	return at, ok
}

// at is the multiplier for so many in service.
func (c *LoadCurve) at(inService int) float64 {
	p := c.Points
	if len(p) == 0 {
		return 1
	}
	x := float64(inService)
	if x <= p[0].InService {
		return p[0].Multiply
	}
	for i := 1; i < len(p); i++ {
		if a, b := p[i-1], p[i]; x < b.InService {
			return a.Multiply + (b.Multiply-a.Multiply)*(x-a.InService)/(b.InService-a.InService)
		}
	}
	return p[len(p)-1].Multiply
}

// served is the end of a service.
func (k *kernel) served(r int32) {
	q := k.requests.at(r)
	q.event = 0
	n := &k.nodes[q.node]
	if q.measured {
		d := k.now - q.served
		n.meter.services.add(d)
		n.meter.spent.addProduct(1, d)
		if q.job != none {
			n.meter.useful.addProduct(1, d)
		}
	}
	if !q.doomed && len(n.calls) > 0 {
		q.stand = calling
		if n.spec.ReleaseServer {
			k.vacate(r)
			n.away.push(k.requests.links, r)
			k.fill(q.node)
		}
		q.call, q.repeat, q.broken = none, 0, false
		k.nextCall(r)
		return
	}
	ok := !q.doomed
	if n.spec.Row != nil && ok {
		ok = k.swap(q, n)
	}
	k.complete(r, ok)
}

// swap reads the row's version, or writes the row if nobody did since.
func (k *kernel) swap(q *request, n *node) bool {
	switch {
	case !q.writes:
		q.version = n.row
		return true
	case q.version == n.row:
		n.row++
		return true
	}
	if q.measured {
		n.meter.total.Conflicts++
	}
	q.failure = n.conflict.failure
	return false
}

// complete answers a request that was served.
func (k *kernel) complete(r int32, ok bool) {
	q := k.requests.at(r)
	n := &k.nodes[q.node]
	node := q.node
	k.vacate(r)
	k.exit(r)
	k.book(q, n, ok)
	q.ok = ok
	k.reply(r, q.after)
	k.fill(node)
}

// book counts the end of a request that was admitted.
func (k *kernel) book(q *request, n *node, ok bool) {
	wasted := q.job == none
	switch {
	case wasted:
		n.meter.all.wasted++
	case ok:
		n.meter.all.ok++
	default:
		n.meter.all.errors++
	}
	if !q.measured {
		return
	}
	n.meter.sojourns.add(k.now - q.arrived)
	t := &n.meter.total
	switch {
	case wasted:
		t.Wasted++
	case ok:
		t.OK++
	default:
		t.Errors++
	}
}

// giveUp is the end of a caller's patience: nobody waits for the request.
func (k *kernel) giveUp(r int32) {
	q := k.requests.at(r)
	n := &k.nodes[q.node]
	q.job = none
	if q.counted && q.measured {
		n.meter.total.Abandoned++
	}
	switch q.stand {
	case going:
		return // it arrives for nobody
	case comingBack, atCaller, hanging:
		k.agenda.cancel(&q.event)
		k.requests.give(r)
		return
	}
	switch how := n.spec.Abandoned; {
	case q.stand == inLine && (how == Remove || how == Cancel):
		k.unline(r)
		k.drop(r)
	case how == Cancel:
		k.abort(r)
	}
}

// abort frees the server of a request that nobody waits for.
func (k *kernel) abort(r int32) {
	q := k.requests.at(r)
	node := q.node
	k.evict(r)
	k.drop(r)
	k.fill(node)
}

// evict takes a request out of service, with the calls it has under way.
func (k *kernel) evict(r int32) {
	q := k.requests.at(r)
	k.agenda.cancel(&q.event)
	for q.inner != none {
		k.cancelJob(q.inner)
		q = k.requests.at(r)
	}
	if k.nodes[q.node].spec.Order == PS {
		k.unshare(r)
	} else {
		k.vacate(r)
	}
	k.exit(r)
}

// unline takes a request out of the line.
func (k *kernel) unline(r int32) {
	q := k.requests.at(r)
	n := &k.nodes[q.node]
	k.agenda.cancel(&q.event)
	n.waiting.remove(k.requests.links, r)
	n.meter.queue.add(k.now, -1)
	k.exit(r)
}

// drop forgets a request that is not served.
func (k *kernel) drop(r int32) {
	q := k.requests.at(r)
	if n := &k.nodes[q.node]; q.measured {
		n.meter.total.Dropped++
	}
	k.requests.give(r)
}
