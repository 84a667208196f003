package engine

import (
	"fmt"
	"time"

	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// unique says that the job keeps others of its key out.
func (t *telling) unique() {
	if t.job.Unique != "" {
		t.say("unique", "it holds the unique key %q: until it has ended, an enqueue with that key adds nothing", t.job.Unique)
	}
}

// kindHeld says that the job's kind is paused.
func (t *telling) kindHeld() (blocked bool) {
	if !t.flow.kindPaused {
		return false
	}
	since := ""
	if o := t.flow.kindOrder; o != nil {
		since = fmt.Sprintf(" since %s (%s) by order of %s", clockTime(t.now, o.At), ago(t.now, o.At), o.Actor)
	}
	t.say("kind_paused", "kind %s is paused%s; nothing of it starts in any queue before: ebb kind resume %s", t.job.Kind, since, shell(t.job.Kind))
	return true
}

// keyHeld names the earlier job of its key that goes first.
func (t *telling) keyHeld() (blocked bool) {
	if !t.job.Blocked {
		return false
	}
	head := t.flow.head
	if head == nil {
		t.say("behind_key", "an earlier job of key %q in queue %s goes first: jobs of a key run one at a time, in the order of their enqueue", t.job.Key, t.job.Queue)
		return true
	}
	t.say("behind_key", "it is behind job %s of key %q, which %s", head.ID(), t.job.Key, t.headWords(head))
	return true
}

// headWords says what the job ahead in a key waits for.
func (t *telling) headWords(head *job.Job) string {
	switch {
	case head.State == job.Running:
		return fmt.Sprintf("has been running since %s (%s)", clockTime(t.now, head.LeasedAt), ago(t.now, head.LeasedAt))
	case head.State == job.Parked:
		return fmt.Sprintf("is parked (%s) and blocks it until it is released: ebb job why %s", head.Cause, head.ID())
	case head.State == job.Failed:
		return fmt.Sprintf("failed (%s) and blocks it, as its key rule says, until it is retried or dropped: ebb job retry %s", head.Cause, head.ID())
	case head.Blocked:
		return "is behind an earlier one itself: ebb job why " + head.ID()
	case head.DueAt.After(t.now) && head.History.Starts > 0:
		return fmt.Sprintf("waits for its retry at %s (in %s)", dueTime(t.now, head.DueAt), wait(t.now, head.DueAt))
	case head.DueAt.After(t.now):
		return fmt.Sprintf("is due at %s (in %s)", dueTime(t.now, head.DueAt), wait(t.now, head.DueAt))
	}
	return "is due and waits for its turn: ebb job why " + head.ID()
}

// gateHeld names what its gate holds it by. byOrder says that only a person
// ends it; until is when time does, zero if it is not known.
func (t *telling) gateHeld() (held, byOrder bool, until time.Time) {
	f := &t.flow
	if f.gate == nil {
		return false, false, time.Time{}
	}
	retry := store.Retrying(t.job.History)
	h := newHold(f.gate, f.config, f.order, retry, later(t.now, t.job.DueAt))
	if !h.holds() {
		t.slowShare()
		t.rests()
		return false, false, time.Time{}
	}
	if passing := h.Held == gate.HeldConcurrency || h.Held == gate.HeldRamp || h.Held == gate.HeldRate || h.Held == gate.HeldBudget; passing && !t.isDue() {
		return false, false, time.Time{} // it says nothing of the time when the job is due
	}
	h.now = t.now
	code, text := h.tell()
	t.say(code, "%s", text)
	if f.gate.Disabled == "" {
		t.heldSoFar(&h, retry)
	}
	return true, h.byOrder(), utc(h.Until)
}

// slowShare says that calls of its target which hang, or other slow ones, may
// keep it from a slot.
func (t *telling) slowShare() {
	p, s := t.policy, &t.flow.gate.State
	if p == nil || t.job.Target == "" || !t.isDue() || s.InFlight == 0 {
		return
	}
	if words := slowWords(p); words != "" {
		t.say("slow_share", "its target has %s in flight; %s (slow_share %g of policy %s): the rest is kept for targets that answer",
			count(s.InFlight, "call"), words, p.SlowShare, p.Name)
	}
}

// flowFacts adds what flow control knows.
func (g *gathered) flowFacts(f *WhyFacts) {
	if g.flow.head != nil {
		f.Behind = g.flow.head.ID()
	}
	if g.flow.gate == nil {
		return
	}
	f.Gate = g.flow.gate.Target
	retry := store.Retrying(g.job.History)
	if h := newHold(g.flow.gate, g.flow.config, nil, retry, later(g.now, g.job.DueAt)); h.holds() {
		f.HeldBy, f.HeldUntil = h.Held.String(), utc(h.Until)
		if g.flow.gate.Disabled != "" {
			f.HeldBy, f.HeldUntil = heldDisabled, time.Time{}
		}
	}
	if p := g.policy; p != nil && p.Gate && g.job.Target != "" && g.job.State != job.Parked {
		f.Held, f.MaxHold = g.heldTime(retry).Seconds(), p.MaxHold.Seconds()
	}
}

// heldTime is how long gates have held the job by what counts towards
// max_hold.
func (g *gathered) heldTime(retry bool) time.Duration {
	return g.job.History.Held + g.flow.gate.State.HeldBetween(g.job.DueAt, g.now, retry)
}

// heldSoFar says how much of max_hold is spent, what counts towards it, and
// what comes then.
func (t *telling) heldSoFar(h *hold, retry bool) {
	p := t.policy
	if p == nil || !p.Gate || p.MaxHold <= 0 {
		return
	}
	held := t.heldTime(retry)
	left := p.MaxHold - held
	switch {
	case h.Held == gate.HeldRetryAfter:
		t.say("max_hold", "a pause that the target asks for does not count towards max_hold of policy %s; of its %s it has used %s", p.Name, span(p.MaxHold), span(held.Truncate(time.Second)))
		return
	case !h.CountsHold():
		return
	}
	end := "it is parked (target_down), its attempts unspent, until the target is well"
	if p.FailsHeld(retry) {
		end = "it fails (expired), as the window of its policy is over by then"
	}
	switch {
	case left <= 0:
		t.say("max_hold", "it has been held %s, all of the %s that max_hold of policy %s allows: when workers look next %s", span(held), span(p.MaxHold), p.Name, end)
	case t.isDue():
		t.say("max_hold", "it has been held %s of at most %s (max_hold of policy %s); if that goes on until %s, %s",
			span(held.Truncate(time.Second)), span(p.MaxHold), p.Name, clockTime(t.now, t.now.Add(left)), end)
	default:
		t.say("max_hold", "from its due time on it may be held for %s more (max_hold of policy %s), then %s", span(left), p.Name, end)
	}
	t.say("max_hold_counts", "an open breaker and an empty budget count towards max_hold, a pause that the target asks for does not")
}

// rests says that nobody looks at its lane just now, although nothing holds
// it: overdue retries are released step by step after a downtime.
func (t *telling) rests() {
	l := t.flow.lane
	if l == nil || !t.isDue() || !l.LookAt.After(t.now.Add(store.LaneRest)) || !l.LookAt.Before(store.Never) {
		return
	}
	t.say("lane_rests", "workers look at what waits for it next at %s (in %s): after a downtime, or when limits held it, overdue work is released step by step",
		dueTime(t.now, l.LookAt), wait(t.now, l.LookAt))
}

// permit explains a job that is claimed and waits for its gate.
func (t *telling) permit() {
	f := &t.flow
	h := newHold(f.gate, f.config, f.order, store.Retrying(t.job.History), t.now)
	if !h.holds() {
		t.say("permit", "it starts as soon as its process has a permit of %s", h.name())
		return
	}
	code, text := h.tell()
	t.say(code, "%s", text)
}
