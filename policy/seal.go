package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// MaxFree is the largest count of free starts a rule may allow: history
// keeps such counts in a byte.
const MaxFree = 250

// Limits of whole numbers: far beyond any sense, and within what sums hold.
const (
	MaxWhole = 1_000_000_000
	MaxWaves = 1000
)

// FieldError says which field of a policy cannot be, and what could.
type FieldError struct {
	Path string // such as "backoff.factor" or "classes[0].max"
	Msg  string
}

func (e FieldError) Error() string { return e.Path + ": " + e.Msg }

// FieldErrors is every FieldError of one policy.
type FieldErrors []FieldError

func (e FieldErrors) Error() string {
	texts := make([]string, len(e))
	for i, f := range e {
		texts[i] = f.Error()
	}
	return strings.Join(texts, "; ")
}

// Seal checks the policy, fills what is derived from other fields and stamps
// the version. The error is FieldErrors. Sealing twice changes nothing.
func Seal(p Policy) (Policy, error) {
	p.Classes, p.Waivers = slices.Clone(p.Classes), slices.Clone(p.Waivers)
	normalise(&p)
	if errs := validate(&p); len(errs) > 0 {
		return p, errs
	}
	if p.MaxHold == 0 && p.Gate {
		p.MaxHold = p.Reach().Nominal
	}
	for i := range p.Classes {
		p.Classes[i].Label = fmt.Sprintf("classes[%d]", i)
	}
	p.Version = versionOf(p)
	return p, nil
}

// normalise removes what has no meaning, so that equal contracts have one
// form, and raises what a preset's name guarantees.
func normalise(p *Policy) {
	if least := minRestarts[p.Name]; p.Restarts.Max >= 0 && p.Restarts.Max < least {
		p.Restarts.Max = least
	}
	if p.Restarts.Max > 0 {
		p.Attempts = min(p.Restarts.Max, MaxWhole-1) + 1
	}
	normaliseBackoff(&p.Backoff)
	for i := range p.Classes {
		r := &p.Classes[i]
		if r.Counts == "" {
			r.Counts = CountsAttempt
		}
		if r.Backoff != nil {
			b := *r.Backoff
			normaliseBackoff(&b)
			r.Backoff = &b
		}
	}
	if p.Budget.Kind == "" || p.Budget.Kind == BudgetNone {
		p.Budget = Budget{Kind: BudgetNone}
	}
	if p.Budget.Kind == BudgetTokens || p.Budget.Kind == BudgetShare {
		p.Budget.TTL = 0
	}
	if !p.Breaker.On() {
		p.Breaker = Breaker{}
	}
	if p.Waves.Count == 0 {
		p.Waves = Waves{}
	}
}

func normaliseBackoff(b *Backoff) {
	if b.Jitter.Kind == "" {
		b.Jitter.Kind = JitterNone
	}
	if b.Jitter.Kind != JitterProportional && b.Jitter.Kind != JitterAdditive {
		b.Jitter.Ratio = 0
	}
	if len(b.Steps) > 0 {
		b.Base, b.Factor, b.Cap = 0, 0, 0
	} else if b.Factor == 0 {
		b.Factor = 1
	}
}

// checker gathers the errors of one policy.
type checker struct{ errs FieldErrors }

func (c *checker) must(ok bool, path, format string, args ...any) {
	if !ok {
		c.errs = append(c.errs, FieldError{Path: path, Msg: fmt.Sprintf(format, args...)})
	}
}

func validate(p *Policy) FieldErrors {
	var c checker
	c.enums(p)
	c.must(p.Attempts >= 0, "attempts", "%d is negative; 1 means no retry, 0 no cap", p.Attempts)
	c.must(p.Attempts > 0 || p.Window > 0, "attempts", "0 means no cap and needs a window; set window, such as 24h")
	c.backoff("backoff", &p.Backoff)
	c.must(p.Concurrency >= 1, "concurrency", "%d lets nothing start; 1 or more", p.Concurrency)
	c.must(p.Batch >= 1, "batch", "%d lets nothing be claimed; 1 or more", p.Batch)
	c.must(p.PerTarget.Concurrency >= 0, "per_target.concurrency", "%d is negative; 0 means no limit", p.PerTarget.Concurrency)
	c.must(p.PerTarget.Rate >= 0, "per_target.rate", "%g is negative; 0 means no limit", p.PerTarget.Rate)
	c.must(p.SlowShare >= 0 && p.SlowShare <= 1, "slow_share", "%g is not a share; over 0, at most 1; 0 means no limit", p.SlowShare)
	c.must(p.FirstShare >= 0 && p.FirstShare < 1, "first_share", "%g is not a share; 0 up to, but not including, 1", p.FirstShare)
	c.budget(p.Budget)
	c.breaker(p.Breaker)
	for i := range p.Classes {
		c.rule(fmt.Sprintf("classes[%d]", i), &p.Classes[i])
	}
	c.must(p.Expect.Arrival >= 0, "expect.arrival", "%g is negative", p.Expect.Arrival)
	c.must(p.Expect.Capacity >= 0, "expect.capacity", "%g is negative", p.Expect.Capacity)
	c.must(p.Expect.DeadLetters >= 0 && p.Expect.DeadLetters <= 1, "expect.dead_letters", "%g is not a share; 0 to 1", p.Expect.DeadLetters)
	c.waves(p)
	for i, w := range p.Waivers {
		path := fmt.Sprintf("waivers[%d]", i)
		c.must(contains(RuleIDs(), w.Rule), path+".rule", "%q is no lint rule; one of: %s", w.Rule, strings.Join(RuleIDs(), ", "))
		c.must(w.Rule != "waiver", path+".rule", "an expired waiver cannot be waived; renew or remove it")
		c.must(strings.TrimSpace(w.Reason) != "", path+".reason", "a waiver needs a reason")
		c.must(!w.Expires.IsZero(), path+".expires", "a waiver needs a date, such as 2027-01-31")
	}
	c.ranges(p)
	return c.errs
}

func (c *checker) enums(p *Policy) {
	for _, f := range fields {
		if f.Kind != KindEnum {
			continue
		}
		text := f.Text(p)
		c.must(contains(f.Enum, text), f.Path, "%q is not known; one of: %s", text, strings.Join(f.Enum, ", "))
	}
}

// ranges checks what holds for every field of a kind.
func (c *checker) ranges(p *Policy) {
	for _, f := range fields {
		switch v := f.at(p).(type) {
		case *time.Duration:
			c.must(*v >= 0, f.Path, "%s is negative; 0s or more", *v)
		case *int:
			c.must(*v <= MaxWhole, f.Path, "%d is out of range; at most %d", *v, MaxWhole)
		}
	}
}

func (c *checker) backoff(path string, b *Backoff) {
	for i, step := range b.Steps {
		c.must(step > 0, fmt.Sprintf("%s.steps[%d]", path, i), "%s is no delay; more than 0s", step)
	}
	c.must(len(b.Steps) > 0 || b.Base > 0, path+".base", "a schedule needs a base, such as 30s, or steps")
	c.must(len(b.Steps) > 0 || b.Factor >= 1, path+".factor", "%g makes delays shrink; 1 means fixed, 2 doubles", b.Factor)
	c.must(b.Cap == 0 || b.Cap >= b.Base, path+".cap", "%s is below the base %s", FormatDuration(b.Cap), FormatDuration(b.Base))
	j := b.Jitter
	switch j.Kind {
	case JitterProportional:
		c.must(j.Ratio > 0 && j.Ratio <= 1, path+".jitter.ratio", "%g is no width for proportional jitter; over 0, at most 1", j.Ratio)
	case JitterAdditive:
		c.must(j.Ratio > 0 && j.Ratio <= 1, path+".jitter.ratio", "%g is no width for additive jitter; over 0, at most 1", j.Ratio)
	case JitterDecorrelated:
		c.must(len(b.Steps) == 0, path+".jitter.kind", "decorrelated jitter makes its own schedule and cannot follow steps; use base and cap")
	case JitterNone, JitterEqual, JitterFull:
	default:
		c.must(path == "backoff", path+".jitter.kind", "%q is not known", j.Kind) // the policy's own is checked with the enums
	}
}

func (c *checker) budget(b Budget) {
	c.must(b.Floor >= 0, "budget.floor", "%g is negative", b.Floor)
	switch b.Kind {
	case BudgetWindow:
		c.must(b.Ratio >= 0, "budget.ratio", "%g is negative", b.Ratio)
		c.must(b.TTL > 0, "budget.ttl", "a window budget needs a ttl, such as 10s")
	case BudgetTokens:
		c.must(b.Ratio > 0, "budget.ratio", "%g pays nothing back; over 0, such as 0.1", b.Ratio)
		c.must(b.Floor >= 1, "budget.floor", "%g is no bucket; 1 or more", b.Floor)
	case BudgetShare:
		c.must(b.Ratio > 0 && b.Ratio < 1, "budget.ratio", "%g is not a share; over 0, under 1", b.Ratio)
	case BudgetThrottle:
		c.must(b.Ratio >= 1, "budget.ratio", "%g refuses healthy calls; 1 or more, such as 2", b.Ratio)
		c.must(b.TTL > 0, "budget.ttl", "a throttle needs a ttl, such as 2m")
	}
}

func (c *checker) breaker(b Breaker) {
	c.must(b.Consecutive >= 0, "breaker.consecutive", "%d is negative; 0 means not by count", b.Consecutive)
	c.must(b.Ratio >= 0 && b.Ratio <= 1, "breaker.ratio", "%g is not a share; 0 to 1", b.Ratio)
	c.must(b.MinCalls >= 0, "breaker.min_calls", "%d is negative", b.MinCalls)
	if !b.On() {
		return
	}
	c.must(b.Ratio == 0 || b.Window > 0, "breaker.window", "a ratio needs a window, such as 60s")
	c.must(b.Open > 0, "breaker.open", "an open breaker needs a time, such as 30s")
	c.must(b.Cap == 0 || b.Cap >= b.Open, "breaker.cap", "%s is below open, %s", FormatDuration(b.Cap), FormatDuration(b.Open))
}

func (c *checker) rule(path string, r *Rule) {
	actions := []Action{Retry, Fail, Park, PauseTarget, DisableTarget}
	c.must(contains(actions, r.Action), path+".action", "%q is not known; one of: retry, fail, park, pause_target, disable_target", r.Action)
	c.must(r.Counts == CountsAttempt || r.Counts == CountsFree, path+".counts", "%q is not known; one of: attempt, free", r.Counts)
	c.must(r.Max >= 0 && r.Max <= MaxFree, path+".max", "%d is out of range; 0 to %d", r.Max, MaxFree)
	c.must(r.Max == 0 || r.Counts == CountsFree, path+".max", "only free starts have a max; add counts: free")
	c.must(r.Window >= 0, path+".window", "%s is negative; 0s or more", r.Window)
	for i, code := range r.Match.Status {
		c.must(code >= 100 && code <= 599, fmt.Sprintf("%s.match.status[%d]", path, i), "%d is no HTTP status", code)
	}
	if r.Backoff != nil {
		c.must(r.Action.Retries(), path+".backoff", "action %s waits for nothing; remove backoff", r.Action)
		c.backoff(path+".backoff", r.Backoff)
		c.must(r.Backoff.Floor >= 0, path+".backoff.floor", "%s is negative; 0s or more", r.Backoff.Floor)
	}
}

func (c *checker) waves(p *Policy) {
	c.must(p.Waves.Count >= 0, "waves.count", "%d is negative; 0 means none", p.Waves.Count)
	c.must(p.Waves.Count <= MaxWaves, "waves.count", "%d is out of range; at most %d", p.Waves.Count, MaxWaves)
	c.must(p.Restarts.Max >= 0, "restarts.max", "%d is negative", p.Restarts.Max)
	c.must(p.Restarts.NoProgress >= 0, "restarts.no_progress", "%d is negative; 0 means never", p.Restarts.NoProgress)
	c.must(p.Thresholds.Timeout >= 0, "thresholds.timeout", "%d is negative", p.Thresholds.Timeout)
	c.must(p.Thresholds.HTTP >= 0, "thresholds.http", "%d is negative", p.Thresholds.HTTP)
	if p.Waves.Count <= 0 || p.Waves.Count > MaxWaves {
		return
	}
	c.must(p.Waves.Cooldown <= MaxDelay/time.Duration(p.Waves.Count), "waves.cooldown", "%s before each of %d waves is more than time can hold", FormatDuration(p.Waves.Cooldown), p.Waves.Count)
	c.must(p.Waves.Concurrency >= 1, "waves.concurrency", "%d lets nothing start; 1 or more", p.Waves.Concurrency)
	c.must(p.Waves.Classes != 0, "waves.classes", "a wave needs classes, such as [transient, timeout, connection]")
}
