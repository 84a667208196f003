package engine

import (
	"fmt"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// succeeded explains a job that is done.
func (t *telling) succeeded() {
	j := &t.job
	text := fmt.Sprintf("succeeded at %s in its %s", clockTime(t.now, j.EndedAt), t.attemptWords(max(j.History.Attempts, 1)))
	if n := len(t.attempts); n > 0 && t.attempts[n-1].OK {
		a := &t.attempts[n-1]
		text += fmt.Sprintf(", start %d, after %s in process %d", a.Start, span(a.EndedAt.Sub(a.StartedAt)), a.Process)
	}
	t.say("succeeded", "%s; it will not run again", text)
	if last := t.last(); last != nil {
		t.earlier(last)
	}
}

// cancelledFor explains a job that was told not to.
func (t *telling) cancelledFor() {
	by := ""
	if t.cancelled != nil {
		by = fmt.Sprintf(" by order of %s at %s", t.cancelled.Actor, clockTime(t.now, t.cancelled.At))
	}
	t.say("cancelled", "was cancelled at %s%s, after %s; it will not run again: to do the work after all, enqueue it anew",
		clockTime(t.now, t.job.EndedAt), by, count(t.job.History.Starts, "start"))
}

// failed explains a dead letter: what ended it, then what brings it back.
func (t *telling) failed() {
	last := t.last()
	at := clockTime(t.now, t.job.EndedAt)
	switch t.job.Cause {
	case retry.CauseFatal:
		t.fatal(last, at)
	case retry.CauseExhausted:
		t.exhausted(last, at)
	case retry.CausePoison:
		t.poison(last, at)
	case retry.CauseExpired:
		t.expired(last, at)
	default:
		t.say("failed", "failed at %s", at)
	}
	t.errorText()
	order := "ebb job retry " + t.job.ID()
	if t.job.Fingerprint != "" {
		order += ", or with all that failed alike: ebb dead redrive --fingerprint " + t.job.Fingerprint
	}
	t.say("dead_letter", "it is a dead letter and will not run again by itself; fresh attempts: %s", order)
}

func (t *telling) fatal(last *job.Attempt, at string) {
	switch {
	case last == nil:
		t.say("fatal", "failed at %s as not worth a retry", at)
	case last.Rule == "handler/fatal":
		t.say("fatal", "%s; its handler said that no retry can help (fatal)", t.tryWords(last))
	case last.Action == string(policy.DisableTarget):
		t.say("fatal", "%s; %s decided: fail, and disable target %s", t.tryWords(last), t.ruleWords(last), t.job.Target)
	default:
		t.say("fatal", "%s; %s decided: fail, a retry would fail the same way", t.tryWords(last), t.ruleWords(last))
	}
}

func (t *telling) exhausted(last *job.Attempt, at string) {
	switch {
	case last == nil:
		t.say("exhausted", "failed at %s with no attempts left", at)
	case last.Rule == "window":
		t.say("exhausted", "%s; the next start would have come after %s", t.tryWords(last), t.windowWords(last))
	default:
		t.say("exhausted", "%s; %s would retry, but no attempt is left", t.tryWords(last), t.ruleWords(last))
	}
}

// windowWords names the window that ended it, with its length as it is now.
func (t *telling) windowWords(last *job.Attempt) string {
	text := "the window"
	if t.policy != nil && t.policy.Window > 0 {
		text += fmt.Sprintf(" (now %s)", span(t.policy.Window))
	}
	text += " of " + t.policyWords(last.Version)
	if first := t.job.History.FirstStartAt; !first.IsZero() {
		text += ", counted from its first start at " + clockTime(t.now, first)
	}
	return text
}

func (t *telling) poison(last *job.Attempt, at string) {
	if last == nil {
		t.say("poison", "failed at %s because it takes its processes down", at)
		return
	}
	t.say("poison", "took its process down %s without progress, the last time at %s; %s allows no more: it is poison to its workers",
		times(t.job.History.Crashes), at, t.ruleWords(last))
}

func (t *telling) expired(last *job.Attempt, at string) {
	deadline := t.job.DeadlineAt
	switch {
	case last != nil && last.Rule == "deadline" && last.EndedAt.Equal(t.job.EndedAt):
		t.say("expired", "%s; the next start would have come after its deadline %s", t.tryWords(last), clockTime(t.now, deadline))
	case last != nil && last.Rule == "max_hold":
		t.say("expired", "was held back for longer than max_hold of %s allows, and failed at %s", t.policyWords(last.Version), at)
	case t.job.Target != "" && (deadline.IsZero() || deadline.After(t.job.EndedAt)):
		t.say("expired", "was held back by target %s for longer than max_hold%s of policy %s allows, and failed at %s%s",
			t.job.Target, t.maxHoldWords(), t.job.Policy, at, t.leftWords(", with ", " left"))
	case !deadline.IsZero() && t.job.History.Starts == 0:
		t.say("expired", "its deadline %s passed before it could start; it failed at %s", clockTime(t.now, deadline), at)
	case !deadline.IsZero():
		t.say("expired", "its deadline %s passed before its next start, after %s; it failed at %s", clockTime(t.now, deadline), count(t.job.History.Starts, "start"), at)
	default:
		t.say("expired", "its time ran out, and it failed at %s", at)
	}
}

// leftWords says how many attempts are left, "2 of 6 attempts", between two
// texts; nothing where the policy has no cap or is not known here.
func (t *telling) leftWords(before, after string) string {
	if t.policy == nil || t.policy.Attempts == 0 {
		return ""
	}
	return fmt.Sprintf("%s%d of %s%s", before, max(t.policy.Attempts-t.job.History.Attempts, 0), count(t.policy.Attempts, "attempt"), after)
}

// maxHoldWords is how long it might be held, by the policy as it is now.
func (t *telling) maxHoldWords() string {
	if t.policy == nil || t.policy.MaxHold <= 0 {
		return ""
	}
	return fmt.Sprintf(" (now %s)", span(t.policy.MaxHold))
}

// parked explains a job that waits for a person or a change.
func (t *telling) parked() {
	last := t.last()
	at := t.parkedAt(last)
	switch t.job.Cause {
	case retry.CauseConfig:
		t.misconfigured(last, at)
	case retry.CauseNoProgress:
		text := "was parked%s: it started %s in a row without progress"
		if t.policy != nil && t.policy.Restarts.NoProgress > 0 {
			text += fmt.Sprintf(", and policy %s@%s allows %d", t.policy.Name, t.policy.Version, t.policy.Restarts.NoProgress)
		}
		t.say("no_progress", text, at, times(t.job.History.Idle))
	case retry.CauseTargetDown:
		t.targetDown(at)
		return
	case job.HostLost:
		t.say("host_lost", "was parked%s: the host that ran it does not answer, and nobody else can know whether its process lives", at)
	case job.Disabled:
		t.say("disabled", "was parked%s: its target %s was disabled", at, t.job.Target)
	case job.HeadFailed:
		t.say("head_failed", "was parked%s: an earlier job of its key %q failed, and its key rule parks those behind it", at, t.job.Key)
	default:
		t.say("parked", "was parked%s", at)
	}
	t.errorText()
	t.released()
}

// targetDown explains a job that waits until its target is well: since when
// the target is down, when it is probed next, that nothing is lost, and what a
// person can do.
func (t *telling) targetDown(at string) {
	j := &t.job
	t.say("target_down", "was parked%s: its target %s was down and held it for longer than max_hold%s of policy %s allows", at, j.Target, t.maxHoldWords(), j.Policy)
	stands := t.targetNow()
	t.say("attempts", "the wait has cost it no attempt%s", t.leftWords(": ", " are left"))
	t.errorText()
	switch stands {
	case targetWell:
		t.say("released_by", "it is released by itself, in its order, when workers look next")
	case targetStopped:
		t.say("released_by", "it is released by itself, in its order, when the target is resumed and well")
	default:
		t.say("released_by", "it is released by itself, in its order, when the target is well; until then one of the parked jobs goes out at least once a minute to probe the target")
		t.served()
	}
	orders := ""
	if stands == targetDown {
		orders = fmt.Sprintf("ebb target probe %s calls the target now; ", shell(j.Target))
	}
	t.say("orders", "sooner: %sebb target resume %s releases all that was parked for the target, ebb job retry %s this job alone", orders, shell(j.Target), j.ID())
}

// targetState is how the target of a parked job stands.
type targetState int

const (
	targetDown    targetState = iota // it is probed
	targetStopped                    // a person paused it, or it is disabled
	targetWell
)

// targetNow says it.
func (t *telling) targetNow() targetState {
	g := t.flow.gate
	if g == nil {
		return targetDown
	}
	h := newHold(g, t.flow.config, t.flow.order, store.Retrying(t.job.History), t.now)
	stopped := h.byOrder() || h.Held == gate.HeldOperator
	down := g.State.Phase == gate.Open || g.State.Phase == gate.HalfOpen
	switch {
	case h.holds() && (down || stopped || h.Held == gate.HeldRetryAfter):
		code, text := h.tell()
		t.say(code, "%s", text)
	case down:
		t.say("probe", "target %s has been down%s; the time of its breaker is over: the next call is the one probe that decides", g.Target, h.since())
	default:
		t.say("target_well", "target %s may be called again", g.Target)
		return targetWell
	}
	if stopped {
		return targetStopped
	}
	return targetDown
}

// parkedAt is when the start that parked it ended. A job parked while it
// waited has no such start.
func (t *telling) parkedAt(last *job.Attempt) string {
	if last == nil || last.Action != string(policy.Park) {
		return ""
	}
	return " at " + clockTime(t.now, last.EndedAt)
}

func (t *telling) misconfigured(last *job.Attempt, at string) {
	switch {
	case last == nil:
		t.say("config", "was parked%s: a person must change something", at)
	case last.Class == failure.Config && last.Reason == "unknown_policy":
		t.say("config", "was parked%s: the worker knows no policy %s", at, t.job.Policy)
	case last.Rule == "handler/park":
		t.say("config", "was parked%s in its %s start: its handler asked for a person (%s)", at, ordinal(last.Start), failureWords(last))
	default:
		t.say("config", "was parked%s: its %s start failed with %s; %s decided: park, a person must change something",
			at, ordinal(last.Start), failureWords(last), t.ruleWords(last))
	}
}

// released says what brings a parked job back.
func (t *telling) released() {
	order := "ebb job retry " + t.job.ID()
	if t.job.Fingerprint != "" {
		order += ", or the whole group in its order: ebb dead redrive --parked --fingerprint " + t.job.Fingerprint
	}
	if t.job.Cause == retry.CauseConfig && t.job.Config != "" {
		t.say("released_by", "it spent no attempt; what releases it: a worker for kind %s that starts with another configuration than %s, or an order: %s", t.job.Kind, t.job.Config, order)
		return
	}
	if t.job.Cause == job.HostLost {
		t.say("released_by", "what releases it: a server on that host takes it back, or whoever knows that the host is gone says so (ebb supervise release)")
		return
	}
	if t.job.Cause == job.Disabled {
		order += ", or all that was parked for its target, in its order: ebb target resume " + shell(t.job.Target)
	}
	t.say("released_by", "what releases it is an order: %s", order)
}
