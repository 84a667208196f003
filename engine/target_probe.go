package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

const (
	actProbeTarget = "target.probe"
	actCloseTarget = "target.close"
	// probeGap is for how long orders about single jobs share one probe: a
	// script that retries a thousand jobs of a dead target does not call it a
	// thousand times.
	probeGap = time.Second
	// lendPage is among how many jobs, the newest, one is chosen to be the probe
	// where none is due.
	lendPage = 200
)

// ProbeState is what an order to call a target came to.
type ProbeState string

const (
	ProbeSent     ProbeState = "sent"     // the next call goes out now, as the probe
	ProbeOut      ProbeState = "out"      // a probe is out already: its outcome decides
	ProbeFailed   ProbeState = "failed"   // another order had the target called a moment ago, in vain
	ProbePaused   ProbeState = "paused"   // an operator's pause holds it
	ProbeDisabled ProbeState = "disabled" // it takes no work at all
	ProbeNone     ProbeState = "none"     // nothing holds it
)

// Probe tells what an order of a person did so that a target is called now.
type Probe struct {
	Target string     `json:"target"`
	State  ProbeState `json:"state"`
	// Held and Until are what held the target's work before the order, and
	// until when: "breaker", "retry_after" or "none".
	Held  string    `json:"held"`
	Until time.Time `json:"until,omitzero"`
	Text  string    `json:"text"`          // in words
	Try   string    `json:"try,omitempty"` // what helps where nothing was sent
}

// Probed is a target that was told to be probed.
type Probed struct {
	TargetExplained
	Probe Probe `json:"probe"`
}

// ProbeTarget lets the next call to a target that its breaker or a Retry-After
// holds go out now, as the probe that decides. Where nothing that waits for the
// target is due, the next retry goes, or a job that was parked because the target
// was down. ErrState if the target is paused or disabled: that is resumed first.
func (e *Engine) ProbeTarget(ctx context.Context, name string) (Probed, error) {
	if err := checkTarget(name); err != nil {
		return Probed{}, err
	}
	if _, err := e.gateOf(ctx, name); err != nil {
		return Probed{}, err
	}
	p, err := e.probe(ctx, name, "")
	if err != nil {
		return Probed{}, err
	}
	if p.State == ProbePaused || p.State == ProbeDisabled {
		return Probed{}, &heldError{text: fmt.Sprintf("target: %s: %s", name, strings.Replace(p.Text, "target "+name, "it", 1)), try: p.Try}
	}
	out := Probed{Probe: p}
	if p.State == ProbeSent {
		if err := e.lend(ctx, &out.Probe, true); err != nil {
			return out, err
		}
	}
	out.TargetExplained, err = e.Target(ctx, name)
	return out, err
}

// lend makes sure that the probe has a job: if nothing that waits for the target
// is due, the next that will be is due now; if nothing waits, one of those that
// were parked because the target was down is queued, where that is wanted.
func (e *Engine) lend(ctx context.Context, p *Probe, parkedToo bool) error {
	now, err := e.now(ctx)
	if err != nil {
		return fmt.Errorf("target: %s: %w", p.Target, err)
	}
	chosen, err := e.lendable(ctx, p.Target, parkedToo)
	switch {
	case err != nil:
		return fmt.Errorf("target: %s: %w", p.Target, err)
	case chosen == nil:
		p.Text = fmt.Sprintf("nothing waits for target %s: the next job that calls it is the probe", p.Target)
		if was := p.was(now); was != "" {
			p.Text += "; " + was
		}
		return nil
	case chosen.State == job.Running || chosen.State == job.Queued && !chosen.DueAt.After(now):
		return nil
	}
	err = e.store.Retry(ctx, e.storeNow(), e.by(ctx), chosen.Seq)
	if err != nil && !errors.Is(err, store.ErrState) && !errors.Is(err, store.ErrNotFound) { // else it has started meanwhile
		return fmt.Errorf("target: %s: %w", p.Target, err)
	}
	return nil
}

// lendable finds the job that can be the probe: one that waits, one that a worker
// holds until its gate lets it start, or else one that was parked.
func (e *Engine) lendable(ctx context.Context, target string, parkedToo bool) (*job.Job, error) {
	filters := []store.Filter{{State: job.Queued, Target: target}, {State: job.Running, Target: target}}
	if parkedToo {
		filters = append(filters, store.Filter{State: job.Parked, Cause: retry.CauseTargetDown, Target: target})
	}
	for _, f := range filters {
		list, err := e.store.List(ctx, f, store.Page{Limit: lendPage})
		if err != nil {
			return nil, err
		}
		if j := nextDue(list); j != nil {
			return j, nil
		}
	}
	return nil, nil
}

// nextDue returns the job that is due first, or has been for longest; nil if
// none may start.
func nextDue(list []job.Job) *job.Job {
	var next *job.Job
	for i := range list {
		if j := &list[i]; !j.Blocked && !j.Begun && (next == nil || !j.DueAt.After(next.DueAt)) {
			next = j // of those due together the oldest, which comes last
		}
	}
	return next
}

// CloseTarget closes the breaker of a target that a person knows to be well,
// and ends a pause that the target asked for. What was parked because it was
// down comes back in its order. An operator's pause stays.
func (e *Engine) CloseTarget(ctx context.Context, name string) (Resumed, error) {
	if err := checkTarget(name); err != nil {
		return Resumed{}, err
	}
	if _, err := e.gateOf(ctx, name); err != nil {
		return Resumed{}, err
	}
	t, err := e.orderGate(ctx, name, actCloseTarget, func(g *store.Gate, now time.Time) (string, bool, error) {
		config, _ := e.limits(g, store.QueueLimit{})
		p := newProbe(g, config, now)
		g.State, _ = gate.Step(config, g.State, gate.Close{}, now, 0)
		return p.was(now), true, nil
	})
	out := Resumed{TargetExplained: t, Redrives: []Redrive{}}
	if err != nil {
		return out, err
	}
	out.Redrives, err = e.bringBack(ctx, name, retry.CauseTargetDown)
	return out, err
}

type noProbeKey struct{}

// WithoutProbe returns a context whose orders about jobs leave their targets'
// gates alone: for orders about many jobs at once.
func WithoutProbe(ctx context.Context) context.Context {
	return context.WithValue(ctx, noProbeKey{}, true)
}

// ProbeFor lets a target be called now for a person's order about its work,
// which why names in the audit. Nil if nothing holds the target.
func (e *Engine) ProbeFor(ctx context.Context, target, why string) (*Probe, error) {
	if target == "" || ctx.Value(noProbeKey{}) != nil {
		return nil, nil
	}
	p, err := e.probe(ctx, target, why)
	if err != nil || p.State == ProbeNone {
		return nil, err
	}
	return &p, nil
}

// probe orders a probe, if it can be one.
func (e *Engine) probe(ctx context.Context, name, why string) (Probe, error) {
	var p Probe
	err := e.changeGate(ctx, name, actProbeTarget, func(g *store.Gate, now time.Time) (string, bool, error) {
		config, _ := e.limits(g, store.QueueLimit{})
		p = newProbe(g, config, now)
		if p.State == ProbeNone || p.State == ProbeOut {
			return "", false, nil
		}
		rows, err := e.store.Audit(ctx, auditLimit)
		if err != nil {
			return "", false, err
		}
		if order := pauseOrder(rows, name); p.State == ProbePaused && order != nil {
			p.Text += fmt.Sprintf(" (since %s by order of %s)", clockTime(now, order.At), order.Actor)
		}
		if last := handOrder(rows, name); p.State == ProbeSent && why != "" && p.shared(last, now) {
			p.fail(now)
		}
		if p.State != ProbeSent {
			return "", false, nil
		}
		g.State, _ = gate.Step(config, g.State, gate.Probe{}, now, 0)
		return why, true, nil
	})
	return p, err
}

// newProbe tells what an order to probe does at a gate.
func newProbe(g *store.Gate, c gate.Config, now time.Time) Probe {
	s := &g.State
	p := Probe{Target: g.Target, State: ProbeNone, Held: gate.NotHeld.String()}
	name := "target " + g.Target
	broken := s.Phase == gate.Open || s.Phase == gate.HalfOpen
	stopped := s.Stopped && (s.StopUntil == 0 || instant(s.StopUntil).After(now))
	if at := ahead(now, instant(s.PauseUntil)); !at.IsZero() {
		p.Held, p.Until = gate.HeldRetryAfter.String(), utc(at)
	}
	if at := ahead(now, instant(s.OpenUntil)); broken && (p.Until.IsZero() || at.After(p.Until)) {
		p.Held, p.Until = gate.HeldBreaker.String(), utc(at)
	}
	switch {
	case g.Disabled != "":
		p.State, p.Try = ProbeDisabled, "ebb target resume "+shell(g.Target)
		p.Text = fmt.Sprintf("%s is disabled (%s): nothing is sent before it is resumed", name, g.Disabled)
	case stopped:
		p.State, p.Try = ProbePaused, "ebb target resume "+shell(g.Target)
		p.Text = name + " is paused: nothing is sent before it is resumed"
	case s.Probing:
		p.State, p.Text = ProbeOut, "the probe of "+name+" is out already: its outcome decides"
	case s.Probeable(now):
		p.State, p.Text = ProbeSent, name+" is called now, as the probe"
		if !broken && !c.Breaker.On() {
			p.Text = name + " is called now"
		}
		if was := p.was(now); was != "" {
			p.Text += "; " + was
		}
	default:
		p.Text = "nothing holds " + name + ": it may be called"
	}
	return p
}

// was says what held the target.
func (p *Probe) was(now time.Time) string {
	switch {
	case p.Held == gate.HeldRetryAfter.String():
		return "it had asked for a pause until " + dueTime(now, p.Until)
	case p.Held == gate.HeldBreaker.String() && !p.Until.IsZero():
		return "its breaker was open until " + dueTime(now, p.Until)
	case p.Held == gate.HeldBreaker.String():
		return "its breaker waited for a probe"
	}
	return ""
}

// shared reports whether the last order is so young that its probe stands for
// this one too: it went out, since the target is held for a time again.
func (p *Probe) shared(last *store.AuditRow, now time.Time) bool {
	return last != nil && last.Act == actProbeTarget && now.Sub(last.At) < probeGap && !p.Until.IsZero()
}

// fail says that the target was called for another order just now, and is held
// all the same.
func (p *Probe) fail(now time.Time) {
	p.State = ProbeFailed
	p.Text = fmt.Sprintf("target %s was called for another order less than %s ago and is held again: %s", p.Target, span(probeGap), p.was(now))
	p.Try = "ebb target probe " + shell(p.Target)
}

// handOrder returns the newest order that probed the target or closed its
// breaker.
func handOrder(rows []store.AuditRow, target string) *store.AuditRow {
	for i := range rows {
		if r := &rows[i]; r.What == target && (r.Act == actProbeTarget || r.Act == actCloseTarget) {
			return r
		}
	}
	return nil
}

// heldError is an ErrState of a target, with what helps.
type heldError struct{ text, try string }

func (e *heldError) Error() string { return e.text }
func (e *heldError) Hint() string  { return e.try }
func (e *heldError) Unwrap() error { return ErrState }
