package worker

import (
	"fmt"
	"time"

	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
)

// noteHeld remembers what held a start back since it was due, and for how
// long. A pause that the target asked for is told apart: it does not count
// towards max_hold.
func (l *loop) noteHeld(r *run, now time.Time) {
	p := r.entry
	if !r.policy.Gate || r.job.Target == "" {
		return
	}
	b := p.track.booths[0]
	p.heldFor = b.state.HeldBetween(r.job.DueAt, now, p.retry)
	p.pausedFor = b.state.PausedBetween(r.job.DueAt, now)
	p.heldBy = ""
	switch {
	case p.heldFor <= 0 && p.pausedFor <= 0:
	case p.pausedFor > p.heldFor:
		p.heldBy = gate.HeldRetryAfter.String()
	case p.retry && b.state.HeldBetween(r.job.DueAt, now, false) < p.heldFor:
		p.heldBy = gate.HeldBudget.String()
	default:
		p.heldBy = gate.HeldBreaker.String()
	}
}

// hold returns what noteHeld found; nothing for work without a gate.
func (r *run) hold() (by string, held time.Duration) {
	if r.entry == nil {
		return "", 0
	}
	return r.entry.heldBy, r.entry.heldFor + r.entry.pausedFor
}

// doneOf is how a start ended, as its target's gate is told.
func (r *run) doneOf() gate.Done {
	r.mu.Lock()
	started := r.began()
	r.mu.Unlock()
	done := gate.Done{StartedAt: started, Repeat: r.job.History.Starts > 0}
	why := r.verdict.why
	switch {
	case r.verdict.to == job.Succeeded, r.verdict.completed:
		done.OK = true
	case why != nil:
		done.Failure = why.failure
		if why.decision.Action == policy.PauseTarget {
			done.Pause = why.decision.Delay
		}
	}
	return done
}

// endLane gives the permits of a start back with its outcome, or keeps them in
// hand for the next one.
func (l *loop) endLane(r *run, now time.Time) {
	la, p := l.lanes, r.entry
	la.running--
	p.track.active--
	if !r.holds { // a slot that is kept is not the next one's
		p.track.ended++
		p.track.recent++
		la.ended++
		la.ends++
		l.vacate(r)
	}
	done := r.doneOf()
	for i := range p.permits[:p.held] {
		got := &p.permits[i]
		b := got.booth
		config := la.configAt(b, r)
		outcome := done
		if b.policy == "" { // a queue knows nothing of its targets' health
			outcome = gate.Done{OK: true, StartedAt: done.StartedAt}
		}
		outcome.Retry, outcome.Probe = got.retry, got.probe
		keep := l.phase == working && !r.holds && b.reusable(config, outcome, now)
		b.ended(got, config, &outcome, r.endedAt, keep, l.config.Seed)
		l.wakeAt(b)
	}
	p.held = 0
	if why := r.verdict.why; why != nil && why.decision.Action == policy.DisableTarget && r.job.Target != "" {
		b := p.track.booths[0]
		b.ban = fmt.Sprintf("%s by %s rule %s", reasonOf(why), r.policy.Name, why.decision.Rule)
	}
}

// reasonOf names a failure in a word: its status, or its class.
func reasonOf(why *judgement) string {
	if why.failure.Status != 0 {
		return fmt.Sprint(why.failure.Status)
	}
	return why.failure.Class.String()
}

// tellGate tells observers what a swap of ours has changed.
func (l *loop) tellGate(b *booth, before *gate.State, d *draft, now time.Time) {
	if l.config.Observe == nil {
		return
	}
	after := &d.gate.State
	tell := func(what EventKind, text string) {
		l.tell(Event{What: what, Target: b.target, Text: text})
	}
	if after.Phase != before.Phase {
		switch after.Phase {
		case gate.Open:
			tell(GateOpened, "until "+after.OpenUntil.Time().Format(time.RFC3339Nano))
		case gate.Closed:
			tell(GateClosed, "")
		}
	}
	if after.PauseUntil > before.PauseUntil && after.PauseUntil.Time().After(now) {
		tell(GatePaused, "until "+after.PauseUntil.Time().Format(time.RFC3339Nano))
	}
	if d.gate.Disabled != "" && d.gate.Disabled == b.row.Disabled && b.disabledTold != d.gate.Disabled {
		b.disabledTold = d.gate.Disabled
		tell(TargetDisabled, d.gate.Disabled)
	}
}
