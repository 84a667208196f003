package policy

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/ebbhq/ebb/failure"
)

func judgeTarget(c *Change, _ Field, old, new *Policy) {
	c.Effect = fmt.Sprintf("the floor under the first delay is %s instead of %s, and other guards apply",
		FormatDuration(new.MinDelay()), FormatDuration(old.MinDelay()))
	c.Risky, c.Why = true, "the target's kind chooses which guards apply"
}

// judgeTries judges what changes the number of tries: attempts, waves,
// restarts. More of them are more load; fewer are a risk only if work is
// given up sooner for it.
func judgeTries(c *Change, f Field, old, new *Policy) {
	before, after := f.number(old), f.number(new)
	if f.Path == "waves.count" {
		c.Effect = fmt.Sprintf("failures get %s waves instead of %s; %s", c.New, c.Old, recovery(old, new))
	} else {
		c.Effect = fmt.Sprintf("up to %s instead of %s; %s", retriesText(new.Attempts), retriesText(old.Attempts), recovery(old, new))
		if f.Path == "attempts" {
			before, after = uncapped(before), uncapped(after)
		}
	}
	switch {
	case after > before:
		c.Risky, c.Why = true, "failing targets get more calls"
	case new.Reach().Nominal < old.Reach().Nominal:
		c.Risky, c.Why = true, "work is given up sooner, before longer outages end"
	}
}

func uncapped(attempts float64) float64 {
	if attempts == 0 {
		return math.Inf(1)
	}
	return attempts
}

func retriesText(attempts int) string {
	switch attempts {
	case 0:
		return "any number of retries"
	case 2:
		return "1 retry"
	}
	return fmt.Sprintf("%d retries", attempts-1)
}

func judgeWindow(c *Change, f Field, old, new *Policy) {
	q := replaced(f, old, new)
	text := func(p *Policy) string {
		if p.Window == 0 {
			return "any time"
		}
		return FormatDuration(p.Window)
	}
	c.Effect = fmt.Sprintf("retries may start up to %s after the first start instead of %s; %s", text(new), text(old), recovery(old, new))
	before, after := len(old.Delays()), len(q.Delays())
	switch {
	case q.Reach().Nominal < old.Reach().Nominal:
		c.Risky, c.Why = true, "work is given up sooner, before longer outages end"
	case after > before || q.Reach().Nominal > old.Reach().Nominal:
		c.Risky, c.Why = true, "failing targets get more calls"
	}
}

func judgeTimeout(c *Change, f Field, old, new *Policy) {
	s := side{zero: zeroUnlimited, word: "no time", effect: "an attempt is cut after %[1]s instead of %[2]s", why: "slow but healthy targets time out, and each success cut short becomes another call"}
	s.judge(c, f, old, new)
	if new.Timeout == 0 {
		c.Risky, c.Why = true, "a target that never answers keeps a slot for ever"
	}
}

func judgeRetryAfterMax(c *Change, f Field, old, new *Policy) {
	s := side{zero: zeroUnlimited, word: "any time", effect: "a target may ask for up to %[1]s of pause instead of %[2]s", why: "a target that asks for time gets less of it"}
	s.judge(c, f, old, new)
	if new.RetryAfter.Max == 0 {
		c.Risky, c.Why = true, "one answer of the target can postpone work without a limit"
	}
}

// judgeLease compares with the timeout where the lease follows it.
func judgeLease(c *Change, _ Field, old, new *Policy) {
	text := func(p *Policy) string {
		if p.Lease == 0 {
			return "its timeout plus grace"
		}
		return FormatDuration(p.Lease)
	}
	c.Effect = fmt.Sprintf("a started job may run for %s instead of %s", text(new), text(old))
	if new.leaseOr() < old.leaseOr() {
		c.Risky, c.Why = true, "a job still at work is given to a second worker sooner"
	}
}

// leaseOr is the lease, or the timeout it follows, or the longest time if
// there is neither.
func (p *Policy) leaseOr() time.Duration {
	if d := cmp.Or(p.Lease, p.Timeout); d > 0 {
		return d
	}
	return MaxDelay
}

func judgeSlot(c *Change, _ Field, old, new *Policy) {
	if new.Slot == SlotKeep {
		c.Effect = "a delay is waited out in the worker's slot instead of giving it back"
		c.Risky, c.Why = true, "the retries of one dead target can stop everybody's work"
		return
	}
	c.Effect = "a delay gives the worker's slot back instead of keeping it"
	if old.Target == Process || new.Target == Process {
		c.Risky, c.Why = true, "other work starts between two starts of the same run, so the order changes"
	}
}

func judgeSafety(c *Change, _ Field, old, new *Policy) {
	harm := map[Safety]int{Idempotent: 0, Keyed: 1, Unsafe: 2}
	c.Effect = map[Safety]string{
		Idempotent: "a doubled call is taken to do nothing",
		Keyed:      "a doubled call is taken to do nothing thanks to its key",
		Unsafe:     "a doubled call is taken to do harm, so ambiguous failures may not be retried",
	}[new.Safety]
	if harm[new.Safety] < harm[old.Safety] {
		c.Risky, c.Why = true, "ambiguous failures of work that was declared unsafe or keyed may be retried"
	}
}

func judgeBudget(c *Change, _ Field, old, new *Policy) {
	q := *old
	q.Budget = new.Budget
	c.Effect = budgetEffect(old, new)
	switch {
	case new.Budget.Kind == BudgetNone:
		c.Risky, c.Why = true, "nothing bounds retries in an overload"
	case q.budgetRatio() > old.budgetRatio():
		c.Risky, c.Why = true, "the budget admits more retries in an overload"
	}
}

// judgeBudgetField judges one figure of a budget: ratio and floor admit more
// when they rise, a ttl when it falls.
func judgeBudgetField(more bool) func(*Change, Field, *Policy, *Policy) {
	return func(c *Change, f Field, old, new *Policy) {
		s := side{more: more, effect: "%[1]s instead of %[2]s", why: "the budget admits more retries in an overload"}
		s.judge(c, f, old, new)
		c.Effect = budgetEffect(old, new)
	}
}

func budgetEffect(old, new *Policy) string {
	text := func(p *Policy) string {
		b, ratio := p.Budget, p.budgetRatio()
		if math.IsInf(ratio, 1) {
			return "any number of retries"
		}
		floor := ""
		if b.Floor > 0 {
			floor = fmt.Sprintf(" (floor %g)", b.Floor)
		}
		if b.TTL > 0 {
			return fmt.Sprintf("%.3g retries per first attempt%s over %s", ratio, floor, FormatDuration(b.TTL))
		}
		return fmt.Sprintf("%.3g retries per first attempt%s", ratio, floor)
	}
	return fmt.Sprintf("in a lasting failure at most %s instead of %s", text(new), text(old))
}

// breakerSwitched is the change of a breaker that is put in or taken out.
func breakerSwitched(old, new *Policy) Change {
	text := func(b Breaker) string {
		if !b.On() {
			return "off"
		}
		return fmt.Sprintf("after %d failures in a row or a share of %g, open for %s", b.Consecutive, b.Ratio, FormatDuration(b.Open))
	}
	c := Change{Path: "breaker", Old: text(old.Breaker), New: text(new.Breaker)}
	if new.Breaker.On() {
		c.Effect = "a breaker keeps calls from a target that fails"
		return c
	}
	c.Effect = "no breaker keeps calls from a target that fails any more"
	c.Risky, c.Why = true, "a dead target is called by every job until each has spent its attempts"
	return c
}

func judgeWaveClasses(c *Change, _ Field, old, new *Policy) {
	more, fewer := new.Waves.Classes&^old.Waves.Classes, old.Waves.Classes&^new.Waves.Classes
	var parts []string
	if more != 0 {
		parts = append(parts, "waves try "+strings.Join(more.Names(), ", ")+" again")
		c.Risky, c.Why = true, "hosts get calls again after failures that got none"
	}
	if fewer != 0 {
		parts = append(parts, "waves no longer try "+strings.Join(fewer.Names(), ", ")+" again")
		if !c.Risky && blamesTarget(fewer) {
			c.Risky, c.Why = true, "work is given up sooner, before longer outages end"
		}
	}
	c.Effect = strings.Join(parts, "; ")
}

// blamesTarget reports whether the target is at fault in any of the classes.
func blamesTarget(s ClassSet) bool {
	for _, class := range failure.Classes() {
		if s.Has(class) && class.Blame() == failure.BlameTarget {
			return true
		}
	}
	return false
}
