package policy

import "time"

// maxProbeGap is the longest time between two probes of a target that is down:
// who waits for it longer loses more than a call a minute costs.
const maxProbeGap = time.Minute

// Holds reports whether breaker or budget can hold the policy's work back.
func (p *Policy) Holds() bool {
	return p.Gate && (p.Breaker.On() || p.Budget.Kind != BudgetNone && p.Budget.Kind != "")
}

// FailsHeld reports whether work that was held for max_hold is failed instead
// of parked: only a retry whose window has passed by then, since everything
// that was promised to it lies in the past.
func (p *Policy) FailsHeld(retry bool) bool {
	return p.OnHoldEnd == HoldFail && retry && p.Window > 0 && p.MaxHold >= p.Window
}

// hold judges the guard itself: it may delay an attempt, never replace it.
func (l *linter) hold() {
	p := l.p
	if !p.Holds() {
		return
	}
	if p.OnHoldEnd == HoldFail && !p.FailsHeld(true) {
		l.add(RuleHold, SeverityError, "on_hold_end", "fail after "+FormatDuration(p.MaxHold),
			"work that the breaker or the budget held would be given up before it had its tries",
			"on_hold_end: park; or a window of at most max_hold")
	}
	if !p.Breaker.On() {
		return
	}
	switch b := p.Breaker; {
	case b.Open > maxProbeGap:
		l.slowProbe("breaker.open", FormatDuration(b.Open))
	case b.Cap == 0:
		l.slowProbe("breaker.cap", "none")
	case b.Cap > maxProbeGap:
		l.slowProbe("breaker.cap", FormatDuration(b.Cap))
	}
}

func (l *linter) slowProbe(field, measured string) {
	l.add(RuleHold, SeverityError, field, measured,
		"nobody notices that the target is well again while no probe is sent, and all of its work waits",
		FormatDuration(maxProbeGap)+" or less: one probe a minute")
}
