package worker

import (
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// stop is one call of Stop: the next step, whatever was the last.
func (l *loop) stop() {
	switch l.phase {
	case working:
		l.drain()
	case draining:
		l.cancelAll()
	}
}

// drain claims nothing more and lets handlers finish.
func (l *loop) drain() {
	if l.phase != working {
		return
	}
	l.phase, l.stepAt = draining, l.machine().Add(l.config.Drain)
	l.tell(Event{What: Draining})
	for _, r := range l.suspects {
		l.giveBack(r, "stopping")
	}
	l.suspects = nil
	for _, r := range l.kept {
		r.pace.kept--
		l.giveBack(r, "stopping")
	}
	l.kept = nil
	l.drainLanes()
	if l.process == 0 { // nothing was settled since the process was lost
		l.cancelAll()
	}
}

// cancelAll ends the contexts of all handlers.
func (l *loop) cancelAll() {
	l.phase, l.stepAt = stopping, l.machine().Add(l.config.Grace)
	l.tell(Event{What: Stopping})
	for r := range l.leases.all() {
		if r.begun && !r.ended.Load() {
			l.doom(r, ErrStopping)
		}
	}
}

// order carries out the cancel orders of a beat.
func (l *loop) order(process int64, refs []store.Ref) {
	if process != l.process {
		return
	}
	for _, ref := range refs {
		r := l.leases.of(ref.Seq)
		if r == nil || r.job.Epoch != ref.Epoch || !r.begun && r.verdict.to != "" {
			continue
		}
		if r.begun {
			if _, already := l.doomed[r]; !already && !r.ended.Load() {
				l.observe(r, Event{What: Ordered})
				l.doom(r, ErrCancelled)
			}
			continue
		}
		l.observe(r, Event{What: Ordered})
		l.cancelUnbegun(r)
	}
}

// cancelUnbegun ends a job that waits to run alone or in its slot. If it is
// about to begin, the answer of that turn finds the settle.
func (l *loop) cancelUnbegun(r *run) {
	r.settle = &store.Settle{Ref: r.ref(), To: job.Cancelled, History: r.job.History}
	r.verdict = verdict{to: job.Cancelled}
	if l.unkeep(r) || r.entry != nil && l.unwait(r) {
		l.pending = append(l.pending, r)
		return
	}
	for i, s := range l.suspects {
		if s == r {
			l.suspects = append(l.suspects[:i], l.suspects[i+1:]...)
			l.pending = append(l.pending, r)
			return
		}
	}
}

// lost means that others took this process for dead: its leases are theirs.
// Handlers are told, nothing is settled, and a new process is registered.
func (l *loop) lost(process int64) {
	if process != l.process || l.process == 0 {
		return
	}
	l.tell(Event{What: Lost, Process: process, Err: store.ErrLostProcess})
	for r := range l.leases.all() {
		if r.begun && !r.ended.Load() {
			l.doom(r, ErrLeaseLost)
		}
	}
	l.loseLanes()
	for r := range l.leases.all() {
		l.unhold(r)
	}
	l.leases.clear()
	now := l.now()
	for _, r := range l.ready { // held back, and never to begin
		r.ended.Store(true)
		l.finished(r, now)
	}
	l.ready = nil
	for _, r := range l.kept {
		r.pace.kept--
	}
	l.pending, l.returns, l.suspects, l.suspect, l.kept = nil, nil, nil, nil, nil
	l.young, l.doubt, l.process = 0, false, 0
	l.Worker.process.Store(0)
	if l.phase == working {
		l.enlist()
	}
}

// enlist registers this process again, until it succeeds.
func (l *loop) enlist() {
	l.group.Go(func() {
		for n := 1; ; n++ {
			err := l.register(l.side)
			if err == nil {
				break
			}
			l.tell(Event{What: Erred, Text: "register", Err: err})
			if !l.pause(l.side, l.delay(n)) {
				return
			}
		}
		l.mail.post(func(l *loop) {
			l.process = l.Worker.process.Load()
			l.lawDue, l.periodicStale = true, true
			l.wake()
		})
	})
}

// hush answers those who wait for quiet.
func (l *loop) hush() {
	if len(l.quiets) == 0 || !l.quiet() {
		return
	}
	now := l.now()
	at := l.nextPolicy(now)
	l.policyAlarm.set(at, max(0, at.Sub(now)))
	for _, quiet := range l.quiets {
		close(quiet)
	}
	l.quiets = nil
}

func (l *loop) quiet() bool {
	if l.process == 0 || l.running > 0 || l.turns > 0 || l.leases.count > len(l.kept)+l.lanes.waiting() {
		return false
	}
	return !l.wantsDue() && !l.dueAsking && !l.doubt && !l.adopting && !l.claims(l.now()) && !l.asksLanes()
}
