package policy

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Kind is the type of a field's value.
type Kind uint8

const (
	KindDuration  Kind = iota // "90s", "1h30m"; 0 is "0s"
	KindInt                   // a whole number
	KindFloat                 // a number
	KindBool                  // true or false
	KindSwitch                // on or off
	KindEnum                  // one of Field.Enum
	KindDurations             // a list of durations
	KindClasses               // a list of class or group names
)

// Field declares one scalar or list field of a policy once: the parser, the
// canonical print, the JSON Schema, the reference and the diff all read it.
type Field struct {
	// Path is where it stands in the file, such as "backoff.base".
	Path string
	Kind Kind
	Enum []string
	// Doc is the manual: meaning, unit, what zero means.
	Doc string

	at func(*Policy) any // pointer to the value
}

// Fields lists the fields in the order of the file. Classes and waivers,
// lists of records, are not among them.
func Fields() []Field { return fields }

// FieldAt returns the field with that path.
func FieldAt(path string) (Field, bool) {
	for _, f := range fields {
		if f.Path == path {
			return f, true
		}
	}
	return Field{}, false
}

func dur(path, doc string, at func(*Policy) any) Field {
	return Field{Path: path, Kind: KindDuration, Doc: doc, at: at}
}

func number(path, doc string, at func(*Policy) any) Field {
	return Field{Path: path, Kind: KindFloat, Doc: doc, at: at}
}

func whole(path, doc string, at func(*Policy) any) Field {
	return Field{Path: path, Kind: KindInt, Doc: doc, at: at}
}

func enum[T ~string](path, doc string, at func(*Policy) *T, values ...T) Field {
	names := make([]string, len(values))
	for i, v := range values {
		names[i] = string(v)
	}
	return Field{Path: path, Kind: KindEnum, Enum: names, Doc: doc, at: func(p *Policy) any {
		return enumValue[T]{at(p)}
	}}
}

// word is an enumeration's value, whatever its type.
type word interface {
	text() string
	set(text string)
}

type enumValue[T ~string] struct{ v *T }

func (e enumValue[T]) text() string    { return string(*e.v) }
func (e enumValue[T]) set(text string) { *e.v = T(text) }

var fields = []Field{
	enum("target", "whom the work calls; chooses the guard's floor", func(p *Policy) *Target { return &p.Target }, Endpoint, Host, Provider, Process),
	whole("attempts", "total tries, the first included; 0 = no cap, then window is required", func(p *Policy) any { return &p.Attempts }),
	dur("window", "no further attempt later than this after the first start; 0s = none", func(p *Policy) any { return &p.Window }),
	dur("max_hold", "longest total time held by an open breaker or an empty budget; a pause that the target asked for does not count; 0s = the schedule's length", func(p *Policy) any { return &p.MaxHold }),
	enum("on_hold_end", "what happens to work held longer than max_hold: park keeps its attempts until the target is well; fail is only for work whose window has passed by then", func(p *Policy) *HoldEnd { return &p.OnHoldEnd }, HoldFail, HoldPark),
	dur("backoff.base", "delay before the first retry", func(p *Policy) any { return &p.Backoff.Base }),
	number("backoff.factor", "growth from one delay to the next; 1 = fixed", func(p *Policy) any { return &p.Backoff.Factor }),
	dur("backoff.cap", "longest delay before jitter; 0s = none", func(p *Policy) any { return &p.Backoff.Cap }),
	{Path: "backoff.steps", Kind: KindDurations, Doc: "explicit delays instead of base, factor and cap; the last repeats", at: func(p *Policy) any { return &p.Backoff.Steps }},
	enum("backoff.jitter.kind", "how a delay is spread", func(p *Policy) *JitterKind { return &p.Backoff.Jitter.Kind },
		JitterNone, JitterProportional, JitterAdditive, JitterEqual, JitterFull, JitterDecorrelated),
	number("backoff.jitter.ratio", "width of proportional (± ratio) and additive (+ 0..ratio) jitter", func(p *Policy) any { return &p.Backoff.Jitter.Ratio }),
	dur("backoff.floor", "least delay after jitter", func(p *Policy) any { return &p.Backoff.Floor }),
	dur("timeout", "limit of one attempt, body included; 0s = none", func(p *Policy) any { return &p.Timeout }),
	{Path: "retry_after.honour", Kind: KindBool, Doc: "take the target's Retry-After as a floor under the delay", at: func(p *Policy) any { return &p.RetryAfter.Honour }},
	dur("retry_after.max", "longer Retry-After values are cut to this; 0s = no limit", func(p *Policy) any { return &p.RetryAfter.Max }),
	whole("concurrency", "starts at once, per process", func(p *Policy) any { return &p.Concurrency }),
	dur("spacing", "least time between starts of the process", func(p *Policy) any { return &p.Spacing }),
	whole("batch", "most claimed at once; after a downtime over 30 s, most overdue retries released per target per 30 s", func(p *Policy) any { return &p.Batch }),
	whole("per_target.concurrency", "starts at once on one target, cluster-wide; 0 = no limit", func(p *Policy) any { return &p.PerTarget.Concurrency }),
	number("per_target.rate", "starts a second on one target, cluster-wide; 0 = no limit", func(p *Policy) any { return &p.PerTarget.Rate }),
	number("first_share", "share of slots kept for first attempts of work with a target", func(p *Policy) any { return &p.FirstShare }),
	number("slow_share", "most of the slots that calls which have run for over a second may hold together, however they end; the rest is for targets that answer; 0 = no limit", func(p *Policy) any { return &p.SlowShare }),
	{Path: "gate", Kind: KindSwitch, Doc: "off: no breaker, pause or budget holds this work", at: func(p *Policy) any { return &p.Gate }},
	enum("budget.kind", "how retries are bounded", func(p *Policy) *BudgetKind { return &p.Budget.Kind },
		BudgetNone, BudgetWindow, BudgetTokens, BudgetShare, BudgetThrottle),
	number("budget.ratio", "retries per first attempt (window), tokens a success pays (tokens), share in flight (share), asked per accepted (throttle)", func(p *Policy) any { return &p.Budget.Ratio }),
	number("budget.floor", "retries always allowed in a ttl, the most in one burst; 0 allows none (window), bucket size (tokens), retries in flight always allowed (share), calls before it acts (throttle)", func(p *Policy) any { return &p.Budget.Floor }),
	dur("budget.ttl", "the window of window and throttle", func(p *Policy) any { return &p.Budget.TTL }),
	whole("breaker.consecutive", "failures in a row that open it; 0 = not by count", func(p *Policy) any { return &p.Breaker.Consecutive }),
	number("breaker.ratio", "failed share over the window that opens it; 0 = not by ratio", func(p *Policy) any { return &p.Breaker.Ratio }),
	whole("breaker.min_calls", "calls in the window before the ratio counts", func(p *Policy) any { return &p.Breaker.MinCalls }),
	dur("breaker.window", "time over which the ratio is measured", func(p *Policy) any { return &p.Breaker.Window }),
	dur("breaker.open", "first open time; doubles at each failed probe; each is spread by 10% either way, so that targets are not probed together", func(p *Policy) any { return &p.Breaker.Open }),
	dur("breaker.cap", "longest open time", func(p *Policy) any { return &p.Breaker.Cap }),
	dur("lease", "longest a started job may run; 0s = timeout + grace", func(p *Policy) any { return &p.Lease }),
	enum("slot", "where a delay is waited out: release gives the worker's slot back, keep waits in it", func(p *Policy) *Slot { return &p.Slot }, SlotRelease, SlotKeep),
	enum("safety", "what a doubled call does: nothing (idempotent), nothing thanks to a key (keyed), harm (unsafe)", func(p *Policy) *Safety { return &p.Safety }, Idempotent, Keyed, Unsafe),
	dur("guard.min_delay", "raises the built-in floor of the target's kind, never lowers it; the nominal delay must reach it, the least after jitter 80 % of it", func(p *Policy) any { return &p.Guard.MinDelay }),
	dur("expect.outage", "longest outage the policy must survive", func(p *Policy) any { return &p.Expect.Outage }),
	number("expect.arrival", "first attempts a second", func(p *Policy) any { return &p.Expect.Arrival }),
	number("expect.capacity", "calls a second the target can serve", func(p *Policy) any { return &p.Expect.Capacity }),
	dur("expect.p99", "healthy latency of the target", func(p *Policy) any { return &p.Expect.P99 }),
	number("expect.dead_letters", "accepted share of dead letters, 0 to 1", func(p *Policy) any { return &p.Expect.DeadLetters }),
	whole("waves.count", "passes over what failed, after the first; 0 = none", func(p *Policy) any { return &p.Waves.Count }),
	dur("waves.cooldown", "wait before each wave", func(p *Policy) any { return &p.Waves.Cooldown }),
	whole("waves.concurrency", "starts at once in a wave", func(p *Policy) any { return &p.Waves.Concurrency }),
	dur("waves.spacing", "least time between starts in a wave", func(p *Policy) any { return &p.Waves.Spacing }),
	{Path: "waves.classes", Kind: KindClasses, Doc: "which failures a wave tries again", at: func(p *Policy) any { return &p.Waves.Classes }},
	whole("restarts.max", "restarts after the first start; attempts is this plus 1", func(p *Policy) any { return &p.Restarts.Max }),
	{Path: "restarts.refill", Kind: KindSwitch, Doc: "on: progress gives the restarts back", at: func(p *Policy) any { return &p.Restarts.Refill }},
	whole("restarts.no_progress", "restarts in a row without progress that park the job; 0 = never", func(p *Policy) any { return &p.Restarts.NoProgress }),
	whole("thresholds.timeout", "timeouts without progress before the supervisor adapts", func(p *Policy) any { return &p.Thresholds.Timeout }),
	whole("thresholds.http", "HTTP errors without progress before the supervisor adapts", func(p *Policy) any { return &p.Thresholds.HTTP }),
}

// Text returns the field's value as the canonical form writes it.
func (f Field) Text(p *Policy) string {
	switch v := f.at(p).(type) {
	case *time.Duration:
		return FormatDuration(*v)
	case *int:
		return strconv.Itoa(*v)
	case *float64:
		return formatFloat(*v)
	case *bool:
		if f.Kind == KindSwitch {
			return map[bool]string{true: "on", false: "off"}[*v]
		}
		return strconv.FormatBool(*v)
	case word:
		return v.text()
	case *[]time.Duration:
		texts := make([]string, len(*v))
		for i, d := range *v {
			texts[i] = FormatDuration(d)
		}
		return "[" + strings.Join(texts, ", ") + "]"
	case *ClassSet:
		return "[" + strings.Join(v.Names(), ", ") + "]"
	}
	panic("policy: field " + f.Path + " has no text")
}

// formatFloat writes a number without an exponent, which YAML readers take
// for a string as often as for a number.
func formatFloat(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

// IsZero reports whether the field holds its type's zero value.
func (f Field) IsZero(p *Policy) bool {
	switch v := f.at(p).(type) {
	case *time.Duration:
		return *v == 0
	case *int:
		return *v == 0
	case *float64:
		return *v == 0
	case *bool:
		return !*v
	case word:
		return v.text() == ""
	case *[]time.Duration:
		return len(*v) == 0
	case *ClassSet:
		return *v == 0
	}
	return false
}

// Set reads the value from text: one text for scalars, any number for lists.
// The error says what would be right.
func (f Field) Set(p *Policy, texts ...string) error {
	switch v := f.at(p).(type) {
	case *[]time.Duration:
		list := make([]time.Duration, 0, len(texts))
		for _, text := range texts {
			d, err := ParseDuration(text)
			if err != nil {
				return err
			}
			list = append(list, d)
		}
		*v = list
		return nil
	case *ClassSet:
		set, err := ParseClassSet(texts)
		if err == nil {
			*v = set
		}
		return err
	default:
		if len(texts) != 1 {
			return fmt.Errorf("takes one value, not %d", len(texts))
		}
		return f.setScalar(v, texts[0])
	}
}

func (f Field) setScalar(at any, text string) (err error) {
	switch v := at.(type) {
	case *time.Duration:
		*v, err = ParseDuration(text)
		return err
	case *int:
		n, convErr := strconv.Atoi(text)
		if errors.Is(convErr, strconv.ErrRange) {
			return fmt.Errorf("%s is out of range; at most %d", text, MaxWhole)
		}
		if convErr != nil {
			return fmt.Errorf("%q is not a whole number; write one such as 5", text)
		}
		*v = n
	case *float64:
		x, convErr := strconv.ParseFloat(text, 64)
		if convErr != nil || math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("%q is not a number; write one such as 0.2", text)
		}
		*v = x
	case *bool:
		switch text {
		case "true", "on":
			*v = true
		case "false", "off":
			*v = false
		default:
			return fmt.Errorf("%q is neither on nor off", text)
		}
	case word:
		if !contains(f.Enum, text) {
			return fmt.Errorf("%q is not known; one of: %s", text, strings.Join(f.Enum, ", "))
		}
		v.set(text)
	}
	return nil
}

// ParseDuration reads "90s", "1h30m" or "2d"; a number without a unit is
// refused with a suggestion, negative durations are refused.
func ParseDuration(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 15); err == nil {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	if x, err := strconv.ParseFloat(text, 64); err == nil && x > 0 && !math.IsInf(x, 0) {
		return 0, fmt.Errorf("%q has no unit; write %ss, %sm or %sh", text, text, text, text)
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration; write one such as 30s, 2m or 1h30m", text)
	}
	if d < 0 {
		return 0, fmt.Errorf("%q is negative; a duration is 0s or more", text)
	}
	return d, nil
}

// FormatDuration writes a duration in its shortest exact form: 1m, 1h30m, 150ms.
func FormatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
