package policy

import (
	"fmt"
	"math"
	"time"
)

// Limits of the rules about load.
const (
	looseBudget   = 0.5 // retries per first attempt from which a budget is loose
	openBudget    = 1.0 // from which it is none
	catchUpPeriod = 30 * time.Second
	catchUpFactor = 10 // batches per slot, where no capacity is stated
)

func (l *linter) timeout() {
	t, p99 := l.p.Timeout, l.p.Expect.P99
	switch {
	case t == 0 && l.p.Target != Process:
		l.add(RuleTimeout, SeverityError, "timeout", "none",
			"a target that never answers keeps a slot for ever", "a limit over the healthy latency, such as 30s")
	case t > 0 && t < p99:
		l.add(RuleTimeout, SeverityError, "timeout", FormatDuration(t),
			fmt.Sprintf("under expect.p99, %s: slow but healthy targets time out, and each success cut short becomes another call", FormatDuration(p99)),
			fmt.Sprintf("%s or more", FormatDuration(p99)))
	}
}

func (l *linter) lease() {
	lease, work, name := l.p.Lease, l.p.Timeout, "timeout"
	if work == 0 {
		work, name = l.p.Expect.P99, "expect.p99"
	}
	if lease > 0 && lease < work {
		l.add(RuleLease, SeverityError, "lease", FormatDuration(lease),
			fmt.Sprintf("under %s, %s: a job still at work is given to a second worker", name, FormatDuration(work)),
			fmt.Sprintf("%s or more, or 0s for timeout plus grace", FormatDuration(work)))
	}
}

// Amplification returns the most calls that the policy lets one first attempt
// become in a lasting failure: all attempts, or what the budget admits.
// Infinite for uncapped attempts without a budget.
func (p *Policy) Amplification() float64 {
	attempts := float64(p.Attempts)
	if p.Attempts == 0 {
		attempts = math.Inf(1)
	}
	return min(attempts, 1+p.budgetRatio())
}

// budgetRatio is how many retries per first attempt the budget admits in the
// long run; infinite without one. With expect.arrival unknown the floor is
// left out.
//
//	window    Ratio, and Floor retries more in every TTL
//	tokens    Ratio: each job pays at most once, for its success
//	share     retries to first attempts in flight, or Floor retries of a healthy call's length each
//	throttle  Ratio calls per accepted one, the first included, and Floor calls in every TTL
func (p *Policy) budgetRatio() float64 {
	b := p.Budget
	perTTL := func() float64 {
		if p.Expect.Arrival == 0 || b.TTL == 0 {
			return 0
		}
		return b.Floor / (b.TTL.Seconds() * p.Expect.Arrival)
	}
	if !p.Gate {
		return math.Inf(1) // nothing asks the budget
	}
	switch b.Kind {
	case BudgetWindow:
		return b.Ratio + perTTL()
	case BudgetTokens:
		return b.Ratio
	case BudgetShare:
		ratio := b.Ratio / (1 - b.Ratio)
		if p.Expect.Arrival > 0 && p.Expect.P99 > 0 {
			ratio = max(ratio, b.Floor/(p.Expect.P99.Seconds()*p.Expect.Arrival))
		}
		return ratio
	case BudgetThrottle:
		return b.Ratio - 1 + perTTL()
	}
	return math.Inf(1)
}

func (l *linter) metastable() {
	arrival, capacity := l.p.Expect.Arrival, l.p.Expect.Capacity
	if arrival == 0 || capacity == 0 {
		return
	}
	times := l.p.Amplification()
	if arrival*times <= capacity {
		return
	}
	field, fix := "budget", fmt.Sprintf("a budget of at most %.3g retries per first attempt", capacity/arrival-1)
	if arrival > capacity {
		field, fix = "expect.arrival", "less work, or a target with more capacity: no retry policy can help"
	}
	load := fmt.Sprintf("%.4g calls/s", arrival*times)
	if math.IsInf(times, 1) {
		load = "unlimited calls/s"
	}
	l.add(RuleMetastable, SeverityError, field, load,
		fmt.Sprintf("%g first attempts/s × %.3g calls each is over expect.capacity, %g calls/s: once overloaded, the retries alone keep the target overloaded",
			arrival, times, capacity), fix)
}

func (l *linter) budget() {
	p := l.p
	if p.Target == Process || p.Waves.Count > 0 || !l.retries() {
		return
	}
	ratio := p.budgetRatio()
	why := "backoff with jitter alone does not end an overload: retries must stay a small share of the calls"
	fix := fmt.Sprintf("at most %g retries per first attempt, such as {kind: window, ratio: 0.2, floor: 10, ttl: 10s}", looseBudget)
	switch {
	case !p.Gate && p.Budget.Kind != BudgetNone:
		l.add(RuleBudget, SeverityError, "gate", "off", "the gate keeps the budget, so none applies; "+why, "gate: on")
	case math.IsInf(ratio, 1):
		l.add(RuleBudget, SeverityError, "budget.kind", "none", why, fix)
	case ratio > openBudget:
		l.add(RuleBudget, SeverityError, "budget.ratio", fmt.Sprintf("%.3g retries per first attempt", ratio), why, fix)
	case ratio > looseBudget:
		l.add(RuleBudget, SeverityWarning, "budget.ratio", fmt.Sprintf("%.3g retries per first attempt", ratio), why, fix)
	}
}

func (l *linter) catchUp() {
	e, batch := l.p.Expect, float64(l.p.Batch)
	rate := batch/catchUpPeriod.Seconds() + e.Arrival
	switch limit := catchUpFactor * l.p.Concurrency; {
	case e.Capacity > 0 && rate > e.Capacity:
		fix := fmt.Sprintf("a batch of at most %d", int(max(0, e.Capacity-e.Arrival)*catchUpPeriod.Seconds()))
		if e.Arrival >= e.Capacity {
			fix = "expect.arrival under expect.capacity"
		}
		l.add(RuleCatchUp, SeverityError, "batch", fmt.Sprintf("%.4g calls/s", rate),
			fmt.Sprintf("after a downtime %d overdue retries in %s and %g first attempts/s are over expect.capacity, %g calls/s",
				l.p.Batch, FormatDuration(catchUpPeriod), e.Arrival, e.Capacity), fix)
	case e.Capacity == 0 && l.p.Batch > limit:
		l.add(RuleCatchUp, SeverityWarning, "batch", fmt.Sprintf("%d for %d slots", l.p.Batch, l.p.Concurrency),
			"after a downtime that many overdue retries reach one target within "+FormatDuration(catchUpPeriod),
			fmt.Sprintf("at most %d, %d for each slot; or state expect.capacity", limit, catchUpFactor))
	}
}
