package simulate

import (
	"math"
	"time"
)

// tokenBucket is a rate limit's state.
type tokenBucket struct {
	tokens float64
	last   int64
	window int64 // number of the fixed window
	used   float64
}

// take takes a token; if there is none, it says how long until the next.
func (b *tokenBucket) take(l *RateLimit, now int64) (wait time.Duration, ok bool) {
	if width := int64(l.Window); width > 0 {
		if n := now / width; n != b.window {
			b.window, b.used = n, 0
		}
		if b.used+1 > l.Burst {
			return time.Duration((b.window+1)*width - now), false
		}
		b.used++
		return 0, true
	}
	b.tokens = min(l.Burst, b.tokens+l.Rate*seconds(now-b.last))
	b.last = now
	// A token that is due now is there, whatever the rounding.
	if b.tokens < 1-1e-9 {
		return time.Duration(math.Ceil((1 - b.tokens) / l.Rate * second)), false
	}
	b.tokens = max(0, b.tokens-1)
	return 0, true
}

// limited answers 429 to a request over the rate limit.
func (k *kernel) limited(r int32) bool {
	q := k.requests.at(r)
	n := &k.nodes[q.node]
	l := n.spec.Limit
	if l == nil {
		return false
	}
	wait, ok := n.bucket.take(l, k.now)
	if ok {
		return false
	}
	if q.measured {
		n.meter.total.Throttled++
	}
	if !l.Exact {
		wait = l.RetryAfter
	}
	if l.WholeSeconds {
		wait = (wait + time.Second - 1).Truncate(time.Second)
	}
	n.throttle.failure.RetryAfter = wait
	k.refuse(r, &n.throttle)
	return true
}

// collapse is the state of a service that breaks under stress.
type collapse struct {
	spec   *Collapse
	reply  reply
	down   bool
	began  int64
	end    int64
	event  handle
	recent []int64 // instants of the last arrivals, a ring
	next   int
	seen   int64
}

func newCollapse(c *Collapse) collapse {
	v := collapse{spec: c, recent: make([]int64, c.Rate)}
	if c.Answer != nil {
		v.reply = newReply(c.Answer, 503)
	}
	return v
}

// speed is what a service that begins now works at.
func (c *collapse) speed() float64 {
	if c.down && c.spec.Answer == nil {
		return c.spec.Speed
	}
	return 1
}

// overrun notes an arrival and reports whether there were too many lately.
func (c *collapse) overrun(now int64) bool {
	if len(c.recent) == 0 {
		return false
	}
	over := int64(c.spec.Over)
	if over == 0 {
		over = second
	}
	oldest := c.recent[c.next]
	c.recent[c.next] = now
	c.next = (c.next + 1) % len(c.recent)
	c.seen++
	return c.seen > int64(len(c.recent)) && oldest > now-over
}

// stressed lets a request collapse its node, or prolong a collapse.
func (k *kernel) stressed(r int32) bool {
	q := k.requests.at(r)
	n := &k.nodes[q.node]
	c := &n.collapse
	if c.spec == nil {
		return false
	}
	over := c.overrun(k.now)
	switch {
	case c.down:
		c.end = max(c.end+int64(c.spec.Prolong), k.now+int64(c.spec.Quiet))
	case over || c.spec.InSystem > 0 && n.meter.inSystem.n+1 > int64(c.spec.InSystem):
		c.down, c.began = true, k.now
		c.end = k.now + int64(max(c.spec.Recovery, c.spec.Quiet))
		if k.measured {
			n.meter.total.Collapses++
		}
		if c.spec.Kills {
			k.clear(q.node, &c.reply, false)
		}
	default:
		return false
	}
	if most := int64(c.spec.MaxRecovery); most > 0 {
		c.end = min(c.end, c.began+most)
	}
	k.agenda.cancel(&c.event)
	c.event = k.agenda.add(max(c.end, k.now), rankControl, doRecover, q.node)
	if c.spec.Answer == nil {
		return false
	}
	if q.measured {
		n.meter.total.Collapsed++
	}
	k.refuse(r, &c.reply)
	return true
}

// recovered is the end of a collapse.
func (k *kernel) recovered(i int32) {
	n := &k.nodes[i]
	n.collapse.event, n.collapse.down = 0, false
	n.meter.collapsed += k.now - max(n.collapse.began, k.from)
}

// killed is the beginning of a fault that ends what is in the system.
func (k *kernel) killed(i int32) {
	v := k.kills[i]
	f := &k.nodes[v.node].faults[v.fault]
	k.clear(v.node, &f.reply, f.spec.Kind == FaultHang)
}

// toggled lets a fault come or go.
func (k *kernel) toggled(i int32) {
	v := k.kills[i]
	f := &k.nodes[v.node].faults[v.fault]
	if f.spec.Until > 0 && k.now >= int64(f.spec.Until) {
		return
	}
	f.off = !f.off
	next := &f.down
	if f.off {
		next = &f.up
	} else if f.spec.Kills {
		k.killed(i)
	}
	k.agenda.add(k.after(max(1, next.draw(&f.random))), rankControl, doToggle, i)
}

// clear answers everything that waits or is served.
func (k *kernel) clear(i int32, a *reply, hang bool) {
	n := &k.nodes[i]
	for _, l := range []*list{&n.waiting, &n.serving, &n.away} {
		for l.n > 0 {
			r := l.head
			q := k.requests.at(r)
			if q.stand == inLine {
				k.unline(r)
			} else {
				k.evict(r)
			}
			switch {
			case q.job == none:
				k.drop(r)
			case hang:
				q.stand = hanging
				if q.measured {
					n.meter.total.Hung++
				}
			default:
				if q.measured {
					n.meter.total.Errors++
				}
				k.refuse(r, a)
			}
		}
	}
}
