package gate

import (
	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/policy"
)

// Again says that a permit of a grant which came back was used at once for
// another call, without asking: one more permit is out. It is folded right
// after the Done or Abandon that freed the permit, so that a grant of n
// permits never counts for more than n.
//
// Nothing is checked, paid or charged by it; Config.Reuse says when a holder
// may do it. A retry under a budget never does: its permit is always carved,
// since that is where it is charged. A first attempt pays into a window
// budget by its Done's StartedAt, as with every grant that is kept.
type Again struct {
	Retry bool // the further call is a retry
}

func (Again) event()   {}
func (Again) outcome() {}

// Reuse reports whether a permit that came back by the outcome may be used at
// once for another call, before the outcome is folded: whether Carve, asked
// in the same instant, could refuse it for nothing that this holder knows.
//
// It may not when every call must be asked for (a rate, a throttle, a retry
// under a budget), when the permit was the probe's, and when the outcome may
// close the gate: a failure that blames the target, a Retry-After, a pause.
func (c *Config) Reuse(o Outcome, retry bool) bool {
	if c.PerTarget.Rate > 0 {
		return false
	}
	switch c.Budget.Kind {
	case policy.BudgetThrottle:
		return false
	case policy.BudgetWindow, policy.BudgetTokens, policy.BudgetShare:
		if retry {
			return false
		}
	}
	switch o := o.(type) {
	case Abandon:
		return !o.Probe
	case Done:
		switch {
		case o.Probe, o.Pause > 0:
			return false
		case o.OK:
			return true
		case c.Breaker.On() && o.Failure.Blame == failure.BlameTarget:
			return false
		}
		return c.retryAfter(o.Failure.RetryAfter) == 0
	}
	return false
}
