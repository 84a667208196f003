package retry

import (
	"context"
	"fmt"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/policy"
)

// WithGate asks g before every start. Work that it holds back spends no
// attempt; holds that count are bounded by the policy's max_hold.
func WithGate(g *gate.Local) Option { return func(l *loop) { l.gate = g } }

// HeldError ends work that the gate held back longer than max_hold.
type HeldError struct {
	Verdict gate.Verdict
	Held    time.Duration
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("held for %s, the longest that max_hold allows: %s", policy.FormatDuration(e.Held), e.Verdict)
}

// admit waits until the next start may begin: for the process's pace, then
// for the gate.
func (l *loop) admit(ctx context.Context) error {
	if l.pace != nil {
		if err := l.pace(ctx); err != nil {
			return err
		}
	}
	for l.gate != nil {
		changed := l.gate.Changed()
		now := l.clock.Now()
		v := l.gate.Ask(now, l.history.Starts > 0, Derive(l.seed, l.sequence, -l.history.Starts-1).Unit())
		if v.Admit {
			l.verdict, l.admitted = v, true
			return nil
		}
		if v.CountsHold() && l.holdLeft() <= 0 {
			return &HeldError{Verdict: v, Held: l.held}
		}
		if err := l.hold(ctx, v, changed, now); err != nil {
			return err
		}
	}
	return nil
}

// hold waits until asking again may help, and books the time if it counts.
func (l *loop) hold(ctx context.Context, v gate.Verdict, changed <-chan struct{}, since time.Time) error {
	wait := policy.MaxDelay
	if !v.Until.IsZero() {
		wait = max(v.Until.Sub(since), time.Nanosecond)
	}
	if v.CountsHold() {
		wait = min(wait, l.holdLeft())
	}
	fired, stop := l.clock.Timer(wait)
	defer stop()
	select {
	case <-fired:
	case <-changed:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if v.CountsHold() {
		state, now := l.gate.State(), l.clock.Now()
		l.held += now.Sub(since) - state.PausedBetween(since, now)
	}
	return nil
}

func (l *loop) holdLeft() time.Duration {
	if l.policy.MaxHold == 0 {
		return policy.MaxDelay
	}
	return l.policy.MaxHold - l.held
}

// giveBack returns the permit with the outcome of its start.
func (l *loop) giveBack(f failure.Failure, ok bool, pause time.Duration) {
	if !l.admitted {
		return
	}
	l.admitted = false
	done := l.verdict.Success()
	if !ok {
		done = l.verdict.Failure(f)
		done.Pause = pause
	}
	l.gate.Done(l.clock.Now(), done, Derive(l.seed, l.sequence, l.history.Starts).Unit())
}

// abandon returns the permit of a start without an outcome.
func (l *loop) abandon() {
	if l.admitted {
		l.admitted = false
		l.gate.Abandon(l.clock.Now(), gate.Abandon{Retry: l.verdict.Retry, Probe: l.verdict.Probe})
	}
}

// overHeld is the decision on work held too long. There is nowhere to park it
// in one process: the caller is told.
func (l *loop) overHeld(err *HeldError) error {
	l.last.Failure = failure.Of(failure.Unavailable)
	l.last.Failure.Reason, l.last.Failure.Err = "held", err
	d := Decision{
		Action: policy.Fail, Cause: CauseExpired, Class: failure.Unavailable, Rule: "max_hold",
		Version: l.policy.Version, Counted: CountedApart, Next: l.history,
	}
	if !l.policy.FailsHeld(l.history.Starts > 0) {
		d.Action, d.Cause = policy.Park, CauseTargetDown
	}
	l.last.Decision = d
	return &l.last
}
