// Package retry answers "what happens next?". Decide is pure: the same
// policy, history, failure, instant and draw give the same decision, in the
// worker, the reaper, the waves, the supervisor and the simulator. Do runs a
// function under a policy within one process.
package retry

import (
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/policy"
)

// History is what Decide knows of a job: a fixed-size value, the columns of
// its live row. The start being decided on is counted in Starts and Idle, not
// yet in the others.
type History struct {
	Starts       int           // handlers begun
	Attempts     int           // starts that spent the attempt budget
	Waits        int           // snoozes and waits for our own machine
	Idle         int           // starts since the last progress, but for those counted apart
	Crashes      int           // crashes since the last progress
	Free         FreeCounts    // free starts by class since the last progress
	FirstStartAt time.Time     // zero before the first start
	LastDelay    time.Duration // the delay drawn last
	DeadlineAt   time.Time     // no start after this; zero = none
	Held         time.Duration // how long gates held it back before its starts so far
}

// FreeCounts counts free starts by class; policy.MaxFree bounds each.
type FreeCounts [failure.NumClasses]uint8

// Started returns the history with one more start.
func (h History) Started(now time.Time) History {
	h.Starts++
	h.Idle++
	if h.FirstStartAt.IsZero() {
		h.FirstStartAt = now
	}
	return h
}

// Progressed returns the history after progress or a checkpoint: what is
// counted since the last progress starts anew, and attempts too where the
// policy refills restarts.
func (h History) Progressed(p *policy.Policy) History {
	h.Idle, h.Crashes, h.Free = 0, 0, FreeCounts{}
	if p.Restarts.Refill {
		h.Attempts = 0
	}
	return h
}

// Cause says why a job ended or waits for a person.
type Cause string

const (
	CauseNone       Cause = ""
	CauseFatal      Cause = "fatal"       // failed: not worth a retry
	CauseExhausted  Cause = "exhausted"   // failed: attempts or window spent
	CausePoison     Cause = "poison"      // failed: it kills its workers
	CauseExpired    Cause = "expired"     // failed: its deadline or longest hold passed
	CauseConfig     Cause = "config"      // parked: a person must change something
	CauseNoProgress Cause = "no_progress" // parked: restarts without progress
	CauseTargetDown Cause = "target_down" // parked: held longer than max_hold
	CauseHostLost   Cause = "host_lost"   // parked: the host that ran it is gone
)

// Counted says what a start cost.
type Counted string

const (
	CountedAttempt Counted = "attempt" // it spent the budget
	CountedFree    Counted = "free"    // it spent a class rule's free starts
	CountedApart   Counted = "apart"   // a snooze or a wait for our own machine
)

// Decision is the verdict with its reason. It is stored with the attempt.
type Decision struct {
	Action policy.Action
	Cause  Cause         // of an end or a parking; empty for a retry
	Delay  time.Duration // before the next start; 0 unless the action retries
	Class  failure.Class
	// Rule names what chose: "classes[1]", "builtin/server",
	// "handler/snooze", or "window", "deadline" where that limit ended it.
	Rule    string
	Version string // of the policy
	Counted Counted
	// Floored is set where Retry-After raised the delay.
	Floored bool
	// Next is the history to remember.
	Next History
}

// Decide gives the verdict on one failed start. h must already count the
// start; now is the instant the start ended; draw is the one random number
// of this decision. A success needs no decision.
func Decide(p *policy.Policy, h History, f failure.Failure, now time.Time, draw Draw) (d Decision) {
	d.Class, d.Version, d.Next = f.Class, p.Version, h
	switch f.Order {
	case failure.OrderFail:
		d.end(policy.Fail, CauseFatal, "handler/fatal")
		return d
	case failure.OrderPark:
		d.Counted = CountedApart
		d.end(policy.Park, CauseConfig, "handler/park")
		if f.Reason == failure.ReasonHostLost {
			d.Cause = CauseHostLost
		}
		return d
	case failure.OrderSnooze:
		d.apart()
		d.Next.Waits++
		d.again(policy.Retry, snoozed(p, &f), "handler/snooze")
		d.within(p, now)
		return d
	}
	rule := p.RuleFor(f)
	switch rule.Action {
	case policy.Park:
		d.Counted = CountedApart
		d.end(policy.Park, CauseConfig, rule.Label)
	case policy.Fail, policy.DisableTarget:
		d.end(rule.Action, CauseFatal, rule.Label)
	default:
		d.retry(p, rule, &f, now, draw)
	}
	return d
}

// snoozed returns the wait that a handler asked for. A snooze says that nothing
// failed. One that comes with a failure of the target, joined to it or around
// it, waits as long as the guard wants at least.
func snoozed(p *policy.Policy, f *failure.Failure) time.Duration {
	if f.Class == failure.Unknown || f.Class == failure.Plain || !policy.Guarded(f.Class) {
		return f.Snooze
	}
	return max(f.Snooze, p.LeastDelay())
}

// retry spends what the start cost and waits, or ends what has run out.
func (d *Decision) retry(p *policy.Policy, rule *policy.Rule, f *failure.Failure, now time.Time, draw Draw) {
	n, ok := d.spend(rule, f.Class, now)
	if !ok {
		d.end(policy.Fail, CausePoison, rule.Label)
		return
	}
	if limit := p.Restarts.NoProgress; limit > 0 && d.Next.Idle > limit {
		d.end(policy.Park, CauseNoProgress, rule.Label)
		return
	}
	if d.Counted == CountedAttempt && p.Attempts > 0 && d.Next.Attempts >= p.Attempts {
		d.end(policy.Fail, CauseExhausted, rule.Label)
		return
	}
	backoff := &p.Backoff
	if rule.Backoff != nil {
		backoff = rule.Backoff
	}
	delay := backoff.Draw(n, d.Next.LastDelay, draw.Unit())
	if p.RetryAfter.Honour && f.RetryAfter > 0 {
		floor := f.RetryAfter
		if p.RetryAfter.Max > 0 {
			floor = min(floor, p.RetryAfter.Max)
		}
		if floor > delay {
			delay, d.Floored = min(floor, policy.MaxDelay), true
		}
	}
	d.again(rule.Action, delay, rule.Label)
	d.within(p, now)
}

// spend books the start into d.Next and returns the number of the try whose
// delay comes next; false means that the class has run out and is poison.
func (d *Decision) spend(rule *policy.Rule, class failure.Class, now time.Time) (n int, ok bool) {
	next := &d.Next
	if class == failure.Crash {
		next.Crashes++
	}
	if rule.Counts == policy.CountsFree {
		switch {
		case rule.Local():
			d.apart()
			next.Waits++
			return next.Waits + 1, true
		case d.freeLeft(rule, class, now):
			d.Counted = CountedFree
			free := d.count(class)
			if rule.Backoff != nil {
				return free + 1, true
			}
			return next.Attempts + free + 1, true
		case class == failure.Crash:
			d.Counted = CountedFree
			return 0, false
		}
	}
	d.Counted = CountedAttempt
	next.Attempts++
	return next.Attempts + 1, true
}

// apart books a start that was no try of the work: it is none without progress
// either.
func (d *Decision) apart() {
	d.Counted = CountedApart
	d.Next.Idle = max(0, d.Next.Idle-1)
}

// freeLeft reports whether the rule still gives this start for free.
func (d *Decision) freeLeft(rule *policy.Rule, class failure.Class, now time.Time) bool {
	used := int(d.Next.Free[class])
	if class == failure.Crash {
		used = d.Next.Crashes - 1
	}
	if rule.Max > 0 && used >= rule.Max {
		return false
	}
	return rule.Window == 0 || now.Sub(d.Next.FirstStartAt) <= rule.Window
}

// count books one free start of the class and returns how many there are.
func (d *Decision) count(class failure.Class) int {
	if d.Next.Free[class] < 255 {
		d.Next.Free[class]++
	}
	return int(d.Next.Free[class])
}

func (d *Decision) end(action policy.Action, cause Cause, rule string) {
	d.Action, d.Cause, d.Rule, d.Delay = action, cause, rule, 0
	if d.Counted == "" {
		d.Counted = CountedAttempt
		d.Next.Attempts++
	}
}

func (d *Decision) again(action policy.Action, delay time.Duration, rule string) {
	d.Action, d.Delay, d.Rule = action, delay, rule
	d.Next.LastDelay = delay
}

// within ends a retry that would start after the deadline or the window.
func (d *Decision) within(p *policy.Policy, now time.Time) {
	h := &d.Next
	if !h.DeadlineAt.IsZero() && now.Add(d.Delay).After(h.DeadlineAt) {
		d.end(policy.Fail, CauseExpired, "deadline")
		return
	}
	if p.Window > 0 && !h.FirstStartAt.IsZero() && now.Add(d.Delay).Sub(h.FirstStartAt) > p.Window {
		d.end(policy.Fail, CauseExhausted, "window")
	}
}
