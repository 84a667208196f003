package policy

import (
	"fmt"
	"math"
	"time"
)

// judge says what a change of one field does and whether it is risky.
type judge interface {
	judge(c *Change, f Field, old, new *Policy)
}

type judgeFunc func(c *Change, f Field, old, new *Policy)

func (j judgeFunc) judge(c *Change, f Field, old, new *Policy) { j(c, f, old, new) }

// zeroMeaning says how a field's 0 compares with its other values.
type zeroMeaning uint8

const (
	zeroPlain     zeroMeaning = iota // 0 is just the least value
	zeroUnlimited                    // 0 is more than any value
	zeroAbsent                       // 0 says nothing: adding a value is safe, removing one is not
)

// side judges a number by the direction in which it moved.
type side struct {
	more   bool // more is risky; else less is
	zero   zeroMeaning
	word   string // how 0 reads
	effect string // %[1]s is the new value, %[2]s the old
	why    string
}

func (s side) judge(c *Change, f Field, old, new *Policy) {
	c.Effect = fmt.Sprintf(s.effect, s.text(f, new), s.text(f, old))
	if s.risky(f.number(old), f.number(new)) {
		c.Risky, c.Why = true, s.why
	}
}

func (s side) text(f Field, p *Policy) string {
	if f.IsZero(p) && s.word != "" {
		return s.word
	}
	return f.Text(p)
}

func (s side) risky(old, new float64) bool {
	switch s.zero {
	case zeroAbsent:
		if old == 0 || new == 0 {
			return new == 0
		}
	case zeroUnlimited:
		if old == 0 {
			old = math.Inf(1)
		}
		if new == 0 {
			new = math.Inf(1)
		}
	}
	if s.more {
		return new > old
	}
	return new < old
}

// number returns a numeric field's value; durations in nanoseconds.
func (f Field) number(p *Policy) float64 {
	switch v := f.at(p).(type) {
	case *time.Duration:
		return float64(*v)
	case *int:
		return float64(*v)
	case *float64:
		return *v
	}
	panic("policy: field " + f.Path + " is no number")
}

// choice judges a switch or enumeration: risky tells why moving from old to new
// is, or nothing; effects says what a value does.
func choice(effects map[string]string, risky func(old, new string) string) judge {
	return judgeFunc(func(c *Change, _ Field, _, _ *Policy) {
		c.Effect = effects[c.New]
		c.Why = risky(c.Old, c.New)
		c.Risky = c.Why != ""
	})
}

// onlyTo is the risk of moving to that value.
func onlyTo(value, why string) func(old, new string) string {
	return func(_, new string) string {
		if new == value {
			return why
		}
		return ""
	}
}

const (
	moreLoad  = "targets that already fail get more calls at once"
	fasterWhy = "failing targets are called again sooner"
	goneGuard = "lint and simulation judge the policy by less"
	laterOpen = "a failing target is called more often before the breaker protects it"
)

// judges has one entry for every field; a test compares it with Fields.
var judges = map[string]judge{
	"target":      judgeFunc(judgeTarget),
	"attempts":    judgeFunc(judgeTries),
	"window":      judgeFunc(judgeWindow),
	"max_hold":    side{word: "none", effect: "held work waits at most %[1]s instead of %[2]s", why: "work held by an open breaker or an empty budget is parked sooner"},
	"on_hold_end": choice(map[string]string{"fail": "work held too long is dead-lettered instead of parked", "park": "work held too long is parked instead of dead-lettered"}, onlyTo("fail", "work is given up where it waited for a person")),

	"backoff.base":         judgeFunc(judgeSchedule),
	"backoff.factor":       judgeFunc(judgeSchedule),
	"backoff.cap":          judgeFunc(judgeSchedule),
	"backoff.steps":        judgeFunc(judgeSchedule),
	"backoff.jitter.kind":  judgeFunc(judgeSchedule),
	"backoff.jitter.ratio": judgeFunc(judgeSchedule),
	"backoff.floor":        judgeFunc(judgeSchedule),

	"timeout":            judgeFunc(judgeTimeout),
	"retry_after.honour": choice(map[string]string{"true": "the target's Retry-After is a floor under the delay", "false": "the target's Retry-After is ignored"}, onlyTo("false", "a target that asks for time does not get it")),
	"retry_after.max":    judgeFunc(judgeRetryAfterMax),

	"concurrency":            side{more: true, effect: "each process has up to %[1]s calls in flight instead of %[2]s", why: moreLoad},
	"spacing":                side{effect: "starts of a process are at least %[1]s apart instead of %[2]s", why: moreLoad},
	"batch":                  side{more: true, effect: "up to %[1]s jobs are claimed at once, and after a downtime reach one target within 30s, instead of %[2]s", why: "a bigger burst reaches targets that just recovered"},
	"per_target.concurrency": side{more: true, zero: zeroUnlimited, word: "any number of", effect: "one target gets %[1]s calls at once instead of %[2]s", why: moreLoad},
	"per_target.rate":        side{more: true, zero: zeroUnlimited, word: "any number of", effect: "one target gets %[1]s starts a second instead of %[2]s", why: moreLoad},
	"slow_share":             side{more: true, zero: zeroUnlimited, word: "all", effect: "calls that run long may hold a share of %[1]s of the slots instead of %[2]s", why: "targets that hang can take the slots of those that answer"},
	"first_share":            side{effect: "a share of %[1]s of the slots is kept for first attempts instead of %[2]s", why: "retries of one dead target can take the slots of everybody's first attempts"},

	"gate":         choice(map[string]string{"on": "breaker, Retry-After pauses and budget hold this work back", "off": "no breaker, Retry-After pause or budget holds this work back any more"}, onlyTo("off", "nothing protects a failing target but the delays")),
	"budget.kind":  judgeFunc(judgeBudget),
	"budget.ratio": judgeFunc(judgeBudgetField(true)),
	"budget.floor": judgeFunc(judgeBudgetField(true)),
	"budget.ttl":   judgeFunc(judgeBudgetField(false)),

	"breaker.consecutive": side{more: true, zero: zeroUnlimited, word: "no number of", effect: "%[1]s failures in a row open the breaker instead of %[2]s", why: laterOpen},
	"breaker.ratio":       side{more: true, zero: zeroUnlimited, word: "no share", effect: "%[1]s of failed calls opens the breaker instead of %[2]s", why: laterOpen},
	"breaker.min_calls":   side{more: true, effect: "the ratio counts from %[1]s calls on instead of %[2]s", why: laterOpen},
	"breaker.window":      side{effect: "the ratio is measured over %[1]s instead of %[2]s", why: "failures are forgotten sooner, so the breaker opens later"},
	"breaker.open":        side{effect: "an open breaker probes after %[1]s instead of %[2]s", why: fasterWhy},
	"breaker.cap":         side{zero: zeroUnlimited, word: "no limit", effect: "a target that stays down is probed at least every %[1]s instead of %[2]s", why: fasterWhy},

	"lease":  judgeFunc(judgeLease),
	"slot":   judgeFunc(judgeSlot),
	"safety": judgeFunc(judgeSafety),

	"guard.min_delay": side{effect: "lint refuses delays under %[1]s instead of %[2]s, never under the floor of the target's kind", why: "a guard is lowered"},

	"expect.outage":       side{zero: zeroAbsent, word: "the default", effect: "the retries must survive an outage of %[1]s instead of %[2]s", why: goneGuard},
	"expect.arrival":      side{zero: zeroAbsent, word: "an unknown number of", effect: "load is judged by %[1]s first attempts a second instead of %[2]s", why: goneGuard},
	"expect.capacity":     side{more: true, zero: zeroAbsent, word: "an unknown number of", effect: "the target is taken to serve %[1]s calls a second instead of %[2]s", why: goneGuard},
	"expect.p99":          side{zero: zeroAbsent, word: "unknown", effect: "the target's healthy latency is taken to be %[1]s instead of %[2]s", why: goneGuard},
	"expect.dead_letters": side{more: true, zero: zeroAbsent, word: "any", effect: "a share of %[1]s dead letters is accepted instead of %[2]s", why: goneGuard},

	"waves.count":       judgeFunc(judgeTries),
	"waves.cooldown":    side{effect: "each wave starts %[1]s after the pass before it instead of %[2]s", why: "a host that buckled gets less time to recover"},
	"waves.concurrency": side{more: true, effect: "a wave has up to %[1]s calls in flight instead of %[2]s", why: moreLoad},
	"waves.spacing":     side{effect: "starts of a wave are at least %[1]s apart instead of %[2]s", why: moreLoad},
	"waves.classes":     judgeFunc(judgeWaveClasses),

	"restarts.max":         judgeFunc(judgeTries),
	"restarts.refill":      choice(map[string]string{"on": "progress gives the restarts back, so their number has no limit", "off": "progress gives no restarts back"}, onlyTo("on", "a process that crashes after a little progress restarts for ever")),
	"restarts.no_progress": side{more: true, zero: zeroUnlimited, word: "any number of", effect: "%[1]s restarts without progress park the job instead of %[2]s", why: "a process that gets nowhere is restarted more often"},
	"thresholds.timeout":   side{zero: zeroAbsent, word: "no number of", effect: "%[1]s timeouts without progress make the supervisor adapt instead of %[2]s", why: "a noisy but progressing run is disturbed sooner, or a stuck one never"},
	"thresholds.http":      side{zero: zeroAbsent, word: "no number of", effect: "%[1]s HTTP errors without progress make the supervisor adapt instead of %[2]s", why: "a noisy but progressing run is disturbed sooner, or a stuck one never"},
}
