package policy

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// replaced returns old with one scalar field taken from new, so that a change
// can be judged apart from the others.
func replaced(f Field, old, new *Policy) *Policy {
	q := *old
	if err := f.Set(&q, f.Text(new)); err != nil {
		panic("policy: field " + f.Path + " does not read its own text: " + err.Error())
	}
	return &q
}

// judgeSchedule judges a change of one field of the schedule.
func judgeSchedule(c *Change, f Field, old, new *Policy) {
	q := *old
	switch f.Path {
	case "backoff.steps":
		q.Backoff = new.Backoff
		q.Backoff.Jitter, q.Backoff.Floor = old.Backoff.Jitter, old.Backoff.Floor
		c.Old, c.New = scheduleText(&old.Backoff), scheduleText(&new.Backoff)
	case "backoff.jitter.kind": // its ratio is told with it
		q.Backoff.Jitter = new.Backoff.Jitter
	default:
		q = *replaced(f, old, new)
	}
	switch f.Path {
	case "backoff.jitter.kind", "backoff.jitter.ratio", "backoff.floor":
		c.Effect = jitterEffect(old, new)
		if f.Path == "backoff.jitter.kind" {
			c.Old, c.New = jitterText(old.Backoff.Jitter), jitterText(new.Backoff.Jitter)
		}
	case "backoff.base":
		c.Effect = fmt.Sprintf("first retry after %s instead of %s; %s",
			FormatDuration(new.Delay(2).Nominal), FormatDuration(old.Delay(2).Nominal), recovery(old, new))
	default:
		c.Effect = fmt.Sprintf("delays of %s instead of %s; %s", delayList(new), delayList(old), recovery(old, new))
	}
	c.Why = cmp.Or(scheduleRisk(old, &q, f.Path == "backoff.factor" || f.Path == "backoff.steps"), leastRisk(old, &q, new))
	c.Risky = c.Why != ""
}

// scheduleRisk says what is worse in q's schedule than in old's; empty if
// nothing is.
func scheduleRisk(old, q *Policy, judgeGrowth bool) string {
	before, after := old.Delays(), q.Delays()
	for i := range min(len(before), len(after)) {
		b, a := before[i], after[i]
		switch {
		case a.Nominal < b.Nominal:
			return "failing targets are called again sooner and get less time to recover"
		case a.Least/2+a.Most/2 < b.Least/2+b.Most/2-time.Millisecond:
			return "on average failing targets are called again sooner"
		}
	}
	switch {
	case len(after) > 0 && len(before) > 0 && leastSpread(q) < leastSpread(old)-1e-9:
		return "retries of jobs that failed together land closer together"
	case judgeGrowth && growthOf(after) < growthOf(before)-1e-9:
		return "delays grow less, so a target that stays down is called as often as one that blinked"
	case q.Reach().Nominal < old.Reach().Nominal:
		return "work is given up sooner, before longer outages end"
	}
	return ""
}

// leastRisk says where a change of one field, which makes q of old, lets a
// retry come sooner than before; empty if it does not. A field is not blamed
// where the others, in new, make up for it.
func leastRisk(old, q, new *Policy) string {
	before, after, whole := old.Delays(), q.Delays(), new.Delays()
	for i := range min(len(before), len(after), len(whole)) {
		least := before[i].Least - time.Millisecond
		if after[i].Least < least && whole[i].Least < least {
			return fmt.Sprintf("failing targets can be called again sooner: the least delay before try %d falls from %s to %s",
				i+2, rounded(before[i].Least), rounded(whole[i].Least))
		}
	}
	return ""
}

// growthOf is how many times the first delay the last is.
func growthOf(delays []Band) float64 {
	if len(delays) == 0 || delays[0].Nominal == 0 {
		return 1
	}
	return float64(delays[len(delays)-1].Nominal) / float64(delays[0].Nominal)
}

// recovery tells what becomes of the time that a target has to recover.
func recovery(old, new *Policy) string {
	before, after := old.Reach().Nominal, new.Reach().Nominal
	if before == after {
		return fmt.Sprintf("still %s of recovery time", FormatDuration(after))
	}
	return fmt.Sprintf("%s of recovery time become %s", FormatDuration(before), FormatDuration(after))
}

func jitterEffect(old, new *Policy) string {
	return fmt.Sprintf("the first retry comes %s instead of %s", landing(new.Delay(2)), landing(old.Delay(2)))
}

// landing says where in time a retry falls.
func landing(b Band) string {
	if b.Least == b.Most {
		return fmt.Sprintf("at exactly %s", FormatDuration(b.Least))
	}
	return fmt.Sprintf("anywhere from %s to %s", rounded(b.Least), rounded(b.Most))
}

// rounded writes a jittered delay without the digits nobody reads.
func rounded(d time.Duration) string {
	if d >= 10*time.Second {
		return FormatDuration(d.Round(time.Second))
	}
	return FormatDuration(d.Round(time.Millisecond))
}

// delayList names the nominal delays, the first few of a long schedule.
func delayList(p *Policy) string {
	const most = 6
	delays := p.Delays()
	var texts []string
	for i, d := range delays {
		if i == most {
			texts = append(texts, fmt.Sprintf("… (%d in all)", len(delays)))
			break
		}
		texts = append(texts, FormatDuration(d.Nominal))
	}
	if len(texts) == 0 {
		return "none"
	}
	return strings.Join(texts, ", ")
}

func scheduleText(b *Backoff) string {
	if len(b.Steps) > 0 {
		return stepsText(b.Steps)
	}
	text := fmt.Sprintf("base %s, factor %g", FormatDuration(b.Base), b.Factor)
	if b.Cap > 0 {
		text += ", cap " + FormatDuration(b.Cap)
	}
	return text
}

func jitterText(j Jitter) string {
	if j.Ratio == 0 {
		return string(j.Kind)
	}
	return fmt.Sprintf("%s %g", j.Kind, j.Ratio)
}

func stepsText(steps []time.Duration) string {
	texts := make([]string, len(steps))
	for i, d := range steps {
		texts[i] = FormatDuration(d)
	}
	return "[" + strings.Join(texts, ", ") + "]"
}
