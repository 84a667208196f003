package worker

import (
	"slices"
	"sync"
	"time"
)

// crew are the goroutines that handlers run on. A start has one of its own
// for as long as its handler runs; a handler that ends at once leaves its
// goroutine to the next start, which is much cheaper than a new one.
//
// Nobody waits behind a slow handler: whoever takes a start and sees more
// waiting sees to it that another hand is on its way before the handler is
// called. Of those that do nothing, a few hands do them all.
type crew struct {
	// mail's lock guards what follows: to hand over a result and to take the
	// next start is one step.
	mail *mailbox
	idle sync.Cond

	waiting []*run // starts that no hand has taken; from first on
	first   int
	parked  int  // hands that wait for a start
	coming  bool // a hand was called and has not looked yet
	closed  bool
}

// maxParked is how many hands wait for work. More than a few are at work at
// once only where handlers take their time, and then a new goroutine costs
// next to nothing.
const maxParked = 32

func newCrew(m *mailbox) *crew {
	c := &crew{mail: m}
	c.idle.L = &m.mu
	return c
}

// start lets handlers begin.
func (c *crew) start(runs []*run) {
	c.mail.mu.Lock()
	defer c.mail.mu.Unlock()
	if c.first > len(c.waiting)/2 {
		n := copy(c.waiting, c.waiting[c.first:])
		clear(c.waiting[n:])
		c.waiting, c.first = c.waiting[:n], 0
	}
	c.waiting = append(c.waiting, runs...)
	c.call()
}

// call sees to it that somebody comes for what waits.
func (c *crew) call() {
	if c.coming || c.first == len(c.waiting) {
		return
	}
	c.coming = true
	if c.parked > 0 {
		c.idle.Signal()
		return
	}
	go (&hand{crew: c}).work()
}

// close sends the parked hands home. The others go when their handlers have
// returned.
func (c *crew) close() {
	c.mail.mu.Lock()
	defer c.mail.mu.Unlock()
	c.closed = true
	c.idle.Broadcast()
}

// take returns the next start; nil if the hand may go. It reports whether the
// hand had to wait. The caller holds the lock.
func (c *crew) take() (r *run, waited bool) {
	for c.first == len(c.waiting) {
		if c.closed || c.parked >= maxParked {
			return nil, waited
		}
		c.parked++
		c.idle.Wait()
		c.parked--
		c.coming, waited = false, true
	}
	r = c.waiting[c.first]
	c.waiting[c.first] = nil
	if c.first++; c.first == len(c.waiting) {
		c.waiting, c.first = c.waiting[:0], 0
	}
	c.call()
	return r, waited
}

// dispatchFrom is how many starts of a large claim go to the crew at once, so
// that the first do not wait for the last.
const dispatchFrom = 64

// dispatch passes what is to be started on to the crew. A process that may
// have been taken for dead starts nothing before a beat has told.
func (l *loop) dispatch() {
	if len(l.ready) == 0 {
		return
	}
	if l.unsure() {
		select {
		case l.beatNow <- struct{}{}:
		default: // it is on its way
		}
		return
	}
	// A start that was held back for so long may have been given up.
	l.ready = slices.DeleteFunc(l.ready, func(r *run) bool { return r.ended.Load() })
	l.crew.start(l.ready)
	clear(l.ready)
	l.ready = l.ready[:0]
}

// hand is one goroutine of the crew.
type hand struct {
	crew *crew
	run  *run // whose handler is running
	out  outcome
	now  time.Time // when the last handler returned, and the next one begins
}

func (h *hand) work() {
	defer h.leave()
	var ended *run
	for h.next(ended) {
		h.run.call(h.now, &h.out)
		ended = h.conclude()
	}
}

// next hands over a run that ended and takes the next one; false = go home.
func (h *hand) next(ended *run) bool {
	m := h.crew.mail
	m.mu.Lock()
	waited := h.now.IsZero() // it is new here
	if waited {
		h.crew.coming = false
	}
	if ended != nil {
		m.deliver(ended)
	}
	r, parked := h.crew.take()
	m.mu.Unlock()
	if r == nil {
		return false
	}
	if h.run = r; waited || parked {
		h.now = r.worker.now()
	}
	return true
}

// conclude takes what the handler left behind. It returns the run if it is to
// be handed over, nil if it was given up before.
func (h *hand) conclude() *run {
	r := h.run
	h.run, h.now = nil, r.worker.now()
	cause := r.ctx.returned()
	if !r.ended.CompareAndSwap(false, true) {
		r.worker.mail.post(func(l *loop) { l.strays-- })
		return nil
	}
	r.finish(h.now, cause, &h.out)
	return r
}

// leave is where a hand ends: when nothing is left to do, or because its
// handler ended the goroutine. Then the result is still to be handed over.
// Who comes for what waits was called before the handler began.
func (h *hand) leave() {
	if h.run == nil {
		return
	}
	if ended := h.conclude(); ended != nil {
		m := h.crew.mail
		m.mu.Lock()
		m.deliver(ended)
		m.mu.Unlock()
	}
}
