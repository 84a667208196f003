package simulate

// The heap of a lane's limits: the least reading first, then the earlier job.

func (a limit) before(b limit) bool { return a.at < b.at || a.at == b.at && a.seq < b.seq }

func (ln *lane) pushLimit(v limit) {
	ln.limits = append(ln.limits, v)
	h := ln.limits
	i := len(h) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !v.before(h[parent]) {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = v
}

func (ln *lane) popLimit() limit {
	h := ln.limits
	top, last := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	ln.limits = h
	i := 0
	for len(h) > 0 {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child+1].before(h[child]) {
			child++
		}
		if !h[child].before(last) {
			break
		}
		h[i] = h[child]
		i = child
	}
	if len(h) > 0 {
		h[i] = last
	}
	return top
}

// prune drops limits of jobs that no longer wait as they did. When most are
// such, it drops them all, so that the heap is of the size of what waits.
func (ln *lane) prune(k *kernel, l int32) {
	for len(ln.limits) > 0 && !k.holds(l, ln.limits[0]) {
		ln.popLimit()
	}
	if n := len(ln.limits); n > 64 && n > 4*k.jobs.used {
		kept := ln.limits
		ln.limits = nil
		for _, v := range kept {
			if k.holds(l, v) {
				ln.pushLimit(v)
			}
		}
	}
}

// holds reports whether the limit is still its job's.
func (k *kernel) holds(l int32, v limit) bool {
	j := k.jobs.at(v.job)
	return j.lane == l && j.seq == v.seq && v.at == k.limitOf(j)
}

// limitOf is the reading of its lane's clock at which a job expires.
func (k *kernel) limitOf(j *job) int64 {
	return j.joined + max(0, k.clients[j.client].maxHold-j.held)
}
