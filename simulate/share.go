package simulate

// sharing is a node's servers shared equally by all its requests. Its clock
// is the work that each of them has been given so far.
type sharing struct {
	clock float64
	since int64
	heap  []int32 // requests by need
	event handle
}

// portion is each request's part of a server.
func (n *node) portion() float64 {
	return min(1, float64(n.servers)/float64(max(1, len(n.share.heap))))
}

// settleShare brings the clock up to now.
func (n *node) settleShare(now int64) {
	if n.spec.Order != PS {
		return
	}
	if len(n.share.heap) > 0 {
		n.share.clock += n.speed.integral(n.share.since, now) * n.portion()
	} else {
		n.share.clock = 0
	}
	n.share.since = now
}

// shareBegin lets a request take its part.
func (k *kernel) shareBegin(r int32) {
	q := k.requests.at(r)
	i := q.node
	n := &k.nodes[i]
	n.settleShare(k.now)
	q.stand, q.served = inService, k.now
	if q.measured {
		n.meter.waits.add(0)
	}
	k.faulted(r, true)
	q.need = n.share.clock + float64(k.sizeOf(q, n))/n.collapse.speed()
	n.serving.push(k.requests.links, r)
	n.share.heap = append(n.share.heap, r)
	k.sift(&n.share, len(n.share.heap)-1)
	k.reshare(i)
}

// reshare sets when the next request will be done.
func (k *kernel) reshare(i int32) {
	n := &k.nodes[i]
	if n.spec.Order != PS {
		return
	}
	n.meter.busy.add(k.now, min(int64(len(n.share.heap)), int64(n.servers))-n.meter.busy.n)
	k.agenda.cancel(&n.share.event)
	if len(n.share.heap) == 0 || n.servers == 0 {
		return
	}
	left := max(0, k.requests.at(n.share.heap[0]).need-n.share.clock) / n.portion()
	if at, ok := n.finish(k.now, left); ok {
		n.share.event = k.agenda.add(at, rankEnd, doShared, i)
	}
}

// shareEnded is the end of the service that needed least.
func (k *kernel) shareEnded(i int32) {
	n := &k.nodes[i]
	n.share.event = 0
	n.settleShare(k.now)
	r := n.share.heap[0]
	q := k.requests.at(r)
	n.share.clock = q.need
	k.unshareAt(i, 0)
	if q.measured {
		d := k.now - q.served
		n.meter.services.add(d)
	}
	ok := !q.doomed
	if n.spec.Row != nil && ok {
		ok = k.swap(q, n)
	}
	k.complete(r, ok)
}

// unshare takes a request out before its end.
func (k *kernel) unshare(r int32) {
	i := k.requests.at(r).node
	n := &k.nodes[i]
	n.settleShare(k.now)
	for at, other := range n.share.heap {
		if other == r {
			k.unshareAt(i, at)
			return
		}
	}
}

func (k *kernel) unshareAt(i int32, at int) {
	n := &k.nodes[i]
	s := &n.share
	n.serving.remove(k.requests.links, s.heap[at])
	last := len(s.heap) - 1
	s.heap[at] = s.heap[last]
	s.heap = s.heap[:last]
	if at < last {
		k.sift(s, at)
	}
	k.reshare(i)
}

// sift moves the request at a position of the heap to where it belongs.
func (k *kernel) sift(s *sharing, i int) {
	need := func(at int) float64 { return k.requests.at(s.heap[at]).need }
	for i > 0 && need(i) < need((i-1)/2) {
		parent := (i - 1) / 2
		s.heap[i], s.heap[parent] = s.heap[parent], s.heap[i]
		i = parent
	}
	for {
		child := 2*i + 1
		if child+1 < len(s.heap) && need(child+1) < need(child) {
			child++
		}
		if child >= len(s.heap) || need(child) >= need(i) {
			return
		}
		s.heap[i], s.heap[child] = s.heap[child], s.heap[i]
		i = child
	}
}
