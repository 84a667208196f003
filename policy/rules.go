package policy

import (
	"fmt"
	"time"
)

// Limits of the rules about the schedule. Presets keep them all.
const (
	// minSpread is the least width of a delay's jitter, as a share of the
	// delay: proportional ± 10 % or additive 20 %. With less, what failed
	// together comes back together.
	minSpread = 0.2
	// minGrowth is how much longer than the first the longest delay must be.
	minGrowth = 1.25
	// ampleGrowth is the growth from which a schedule may rest at its cap.
	ampleGrowth = 8
	// defaultOutage is what a policy must survive when it does not say.
	defaultOutage = 10 * time.Minute
	// maxReach is the longest time over which a job may be retried.
	maxReach = 72 * time.Hour
	// maxTries is the most tries a job may have in one pass.
	maxTries = 1000
)

func (l *linter) jitter() {
	if l.p.Target == Process || !l.retries() {
		return
	}
	spread := leastSpread(l.p)
	if spread >= minSpread-1e-9 {
		return
	}
	j := l.p.Backoff.Jitter
	field, measured := "backoff.jitter.kind", "none"
	switch {
	case j.Kind == JitterProportional || j.Kind == JitterAdditive:
		field = "backoff.jitter.ratio"
		fallthrough
	case j.Kind != JitterNone:
		measured = fmt.Sprintf("a spread of %s of the delay", percent(spread))
	}
	l.add(RuleJitter, SeverityError, field, measured,
		"what fails together is retried together: a thundering herd at every try",
		fmt.Sprintf("a spread of %s or more after floor and cap, such as {kind: proportional, ratio: 0.2}", percent(minSpread)))
}

// leastSpread is the narrowest jitter of the schedule's delays, as a share of
// the delay, floor and cap included.
func leastSpread(p *Policy) float64 {
	least := 1.0
	for _, d := range p.Delays() {
		if d.Nominal > 0 {
			least = min(least, float64(d.Most-d.Least)/float64(d.Nominal))
		} else {
			least = 0
		}
	}
	return least
}

func (l *linter) growth() {
	if l.p.Target == Process {
		return
	}
	delays := l.p.Delays()
	if len(delays) < 2 {
		return
	}
	field := "backoff.factor"
	if len(l.p.Backoff.Steps) > 0 {
		field = "backoff.steps"
	}
	first, longest, equal := delays[0].Nominal, time.Duration(0), 0
	for _, d := range delays {
		if d.Nominal > longest {
			longest, equal = d.Nominal, 0
		}
		if d.Nominal == longest {
			equal++
		}
	}
	grown := float64(longest) / float64(first)
	switch {
	case delays[len(delays)-1].Nominal < first || grown < minGrowth-1e-9:
		last := delays[len(delays)-1].Nominal
		l.add(RuleGrowth, SeverityError, field,
			fmt.Sprintf("%d delays from %s to %s", len(delays), FormatDuration(first), FormatDuration(last)),
			"a target that struggles is called as often at the end as at the start and gets no time to recover",
			fmt.Sprintf("a factor of 2, or steps that grow to %g times the first delay or more", minGrowth))
	case grown < ampleGrowth && 2*equal > len(delays):
		l.add(RuleGrowth, SeverityWarning, field,
			fmt.Sprintf("%d of %d delays are %s, %.3g times the first", equal, len(delays), FormatDuration(longest), grown),
			"the delays stop growing so early that most of them are equal",
			fmt.Sprintf("a higher cap, at least %s", FormatDuration(ampleGrowth*first)))
	}
}

// outage returns what the policy must survive; 0 = nothing was asked.
func (p *Policy) outage() time.Duration {
	if p.Expect.Outage == 0 && p.Target != Process {
		return defaultOutage
	}
	return p.Expect.Outage
}

func (l *linter) window() {
	outage, reach := l.p.outage(), l.p.Reach().Nominal
	if outage == 0 {
		return
	}
	share := l.p.OutageLoss(outage)
	field := "attempts"
	if l.p.Window > 0 && l.p.Window < outage {
		field = "window"
	}
	switch loss := percent(share); {
	case reach < outage:
		l.add(RuleWindow, SeverityError, field, fmt.Sprintf("%s of retries", FormatDuration(reach)),
			fmt.Sprintf("an outage of %s would dead-letter %s of the jobs that arrive during it", FormatDuration(outage), loss),
			fmt.Sprintf("retries over %s or more: more attempts, or longer delays", FormatDuration(outage)))
	case l.p.Expect.DeadLetters > 0 && share > l.p.Expect.DeadLetters:
		l.add(RuleWindow, SeverityWarning, field, loss+" dead letters",
			fmt.Sprintf("nominally the retries span %s, but with jitter an outage of %s would dead-letter %s of the jobs that arrive during it, more than expect.dead_letters allows, %s",
				FormatDuration(reach), FormatDuration(outage), loss, percent(l.p.Expect.DeadLetters)),
			fmt.Sprintf("retries that span more than %s at their shortest, now %s", FormatDuration(outage), FormatDuration(l.p.Reach().Least)))
	}
}

func (l *linter) unbounded() {
	p := l.p
	tries := p.countTries()
	switch {
	case tries > maxTries && p.Attempts == 0:
		l.add(RuleUnbounded, SeverityError, "attempts", fmt.Sprintf("no cap, and more than %d tries fit into the window", maxTries),
			"work that cannot succeed is tried without an end in sight",
			fmt.Sprintf("attempts of %d or fewer, a shorter window, or delays that grow", maxTries))
	case tries > maxTries:
		l.add(RuleUnbounded, SeverityError, "attempts", fmt.Sprintf("%d tries", p.Attempts),
			"work that cannot succeed is tried without an end in sight", fmt.Sprintf("%d or fewer", maxTries))
	}
	field, reach := "attempts", p.Reach().Nominal
	if p.Attempts == 0 {
		field, reach = "window", p.Window
	}
	if reach > maxReach {
		l.add(RuleUnbounded, SeverityError, field, "retries over "+FormatDuration(reach),
			"nobody waits that long for an answer, and the backlog of a dead target keeps growing",
			fmt.Sprintf("%s or less: fewer attempts, a cap or a window", FormatDuration(maxReach)))
	}
	if p.Target != Process && p.RetryAfter.Honour && p.RetryAfter.Max == 0 && p.Window == 0 && l.retries() {
		l.add(RuleUnbounded, SeverityError, "retry_after.max", "no limit",
			"one answer of the target can postpone a job for years", "a limit such as 15m, or a window")
	}
}

// countTries is how many tries one pass has, counted no further than the
// limit where only the window ends it.
func (p *Policy) countTries() int {
	if p.Attempts > 0 {
		return p.Attempts
	}
	tries := 1
	for at := p.Delay(2).Nominal; at <= p.Window && tries <= maxTries; at = addSat(at, p.Delay(tries+1).Nominal) {
		tries++
	}
	return tries
}

// percent writes a share with one decimal at most.
func percent(share float64) string {
	return fmt.Sprintf("%.4g%%", float64(int64(share*1000+0.5))/10)
}
