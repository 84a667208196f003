package engine

import (
	"fmt"
	"strings"

	"github.com/ebbhq/ebb/dispatch"
	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/policy"
)

// TargetLimits are the figures that a gate is kept by.
type TargetLimits struct {
	Policy      string  `json:"policy,omitempty"` // empty = the limit of a queue
	Version     string  `json:"policy_version,omitempty"`
	Concurrency int     `json:"concurrency"` // over all processes; 0 = no limit
	Rate        float64 `json:"rate"`        // starts a second over all processes; 0 = no limit
	Budget      string  `json:"budget,omitempty"`
	Breaker     string  `json:"breaker,omitempty"`
	RetryAfter  string  `json:"retry_after,omitempty"`
	MaxHold     float64 `json:"max_hold_s,omitempty"`
	OnHoldEnd   string  `json:"on_hold_end,omitempty"`
	SlowCalls   string  `json:"slow_calls,omitempty"`
}

func limitsOf(c gate.Config, p *policy.Policy) TargetLimits {
	out := TargetLimits{Concurrency: c.PerTarget.Concurrency, Rate: c.PerTarget.Rate}
	if p == nil {
		return out
	}
	out.Policy, out.Version = p.Name, p.Version
	out.MaxHold, out.OnHoldEnd = p.MaxHold.Seconds(), string(p.OnHoldEnd)
	out.SlowCalls = slowWords(p)
	if p.Gate {
		out.Budget, out.Breaker = budgetWords(p.Budget), breakerWords(p.Breaker)
		if p.RetryAfter.Honour {
			out.RetryAfter = "honoured"
			if longest := p.RetryAfter.Max; longest > 0 {
				out.RetryAfter += " up to " + span(longest)
			}
		}
	}
	return out
}

// slowWords tells how many slots calls that run long may hold; empty if all.
func slowWords(p *policy.Policy) string {
	most := dispatch.LimitsOf(p).SlowMost()
	if most == 0 {
		return ""
	}
	return fmt.Sprintf("calls that run for over %s hold at most %d of a process's %d slots, with those of other slow targets", span(dispatch.LongAfter), most, p.Concurrency)
}

// budgetWords tells a budget's figures; empty if there is none.
func budgetWords(b policy.Budget) string {
	switch b.Kind {
	case policy.BudgetWindow:
		return fmt.Sprintf("retries in any %s up to %g × the first attempts in it + %g", span(b.TTL), b.Ratio, b.Floor)
	case policy.BudgetTokens:
		return fmt.Sprintf("a bucket of %g retries, refilled by %g with each success", b.Floor, b.Ratio)
	case policy.BudgetShare:
		return fmt.Sprintf("retries up to %g of all calls in flight, at least %g", b.Ratio, b.Floor)
	case policy.BudgetThrottle:
		return fmt.Sprintf("from %g calls in %s on, some are refused when fewer than 1 in %g succeed", b.Floor, span(b.TTL), b.Ratio)
	}
	return ""
}

// breakerWords tells what opens a breaker; empty if nothing does.
func breakerWords(b policy.Breaker) string {
	var by []string
	if b.Consecutive > 0 {
		by = append(by, count(b.Consecutive, "failure")+" in a row")
	}
	if b.Ratio > 0 {
		by = append(by, fmt.Sprintf("%g of %d or more calls failed in %s", b.Ratio, b.MinCalls, span(b.Window)))
	}
	if len(by) == 0 {
		return ""
	}
	text := fmt.Sprintf("opens after %s, for %s", strings.Join(by, ", or "), span(b.Open))
	if b.Cap > b.Open {
		text += ", doubled up to " + span(b.Cap)
	}
	return text
}
