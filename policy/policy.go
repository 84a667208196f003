// Package policy answers "what was promised?": retry policies as plain,
// validated values, with presets, lint and diff. The YAML form is in
// policy/file.
//
// A Policy is built from a preset or from a file, then sealed: Seal checks
// it, fills what is derived (max_hold, rule labels) and stamps its version,
// the hash of its canonical form. Durations of 0 mean "none" unless the
// field says otherwise.
package policy

import (
	"time"

	"github.com/ebbhq/ebb/failure"
)

// Policy is one retry contract.
type Policy struct {
	Name string
	// Version is the hash of the canonical form, set by Seal.
	Version string

	Target   Target
	Attempts int           // total tries, the first included; 0 = no cap, then Window is required
	Window   time.Duration // no further attempt later than this after the first start

	MaxHold   time.Duration // longest total time held by breaker and budget; 0 = the schedule's length
	OnHoldEnd HoldEnd

	Backoff    Backoff
	Timeout    time.Duration // one attempt, body included
	RetryAfter RetryAfter

	Concurrency int           // starts at once, per process
	Spacing     time.Duration // between starts of the process
	Batch       int           // most claimed at once; most overdue retries per target per 30 s
	PerTarget   PerTarget
	FirstShare  float64 // share of slots kept for first attempts
	SlowShare   float64 // most of the slots that calls which have run long may hold together; 0 = all

	Gate    bool // false: no breaker, pause or budget holds this work
	Budget  Budget
	Breaker Breaker

	Classes []Rule // overrides, first match wins; the built-in table follows

	Lease  time.Duration // longest a started job may run; 0 = timeout + grace
	Slot   Slot
	Safety Safety

	Guard   Guard
	Expect  Expect
	Waivers []Waiver

	Waves      Waves
	Restarts   Restarts
	Thresholds Thresholds
}

// Backoff is the schedule of delays between attempts.
type Backoff struct {
	Base   time.Duration
	Factor float64         // 1 = fixed delay
	Cap    time.Duration   // applied before jitter
	Steps  []time.Duration // instead of Base, Factor and Cap; the last repeats
	Jitter Jitter
	Floor  time.Duration // applied after jitter
}

// Jitter spreads a delay. Ratio is used by proportional and additive only.
type Jitter struct {
	Kind  JitterKind
	Ratio float64
}

// RetryAfter says whether the target's wish is a floor under the delay.
type RetryAfter struct {
	Honour bool
	Max    time.Duration // longer wishes are cut to this; 0 = no limit
}

// PerTarget limits one target across all processes that share a store.
type PerTarget struct {
	Concurrency int     // 0 = no limit
	Rate        float64 // starts a second; 0 = no limit
}

// Budget bounds retries in proportion to first attempts.
//
//	window    retries in any TTL ≤ Ratio × first attempts in it + Floor
//	tokens    a success pays Ratio tokens into a bucket of Floor, a retry takes 1
//	share     retries in flight ≤ Ratio × all in flight, at least Floor
//	throttle  calls are refused with the probability that Ratio × accepted falls short of asked over TTL
type Budget struct {
	Kind  BudgetKind
	Ratio float64
	Floor float64
	TTL   time.Duration
}

// Breaker opens a target's gate. Only work that has not failed before counts
// against the target.
type Breaker struct {
	Consecutive int           // failures in a row that open it; 0 = not by count
	Ratio       float64       // failed share over Window that opens it; 0 = not by ratio
	MinCalls    int           // calls in Window before Ratio counts
	Window      time.Duration // over which Ratio is measured
	Open        time.Duration // first open time, doubled at each failed probe
	Cap         time.Duration // longest open time
}

// On reports whether the breaker can open at all.
func (b Breaker) On() bool { return b.Consecutive > 0 || b.Ratio > 0 }

// Rule overrides what a class of failures does.
type Rule struct {
	Match  Match
	Action Action
	Counts Counts
	Max    int           // most free starts; needed by free unless Window is set
	Window time.Duration // free only this long after the first start
	// Backoff replaces the policy's schedule for this rule; nil = the policy's.
	Backoff *Backoff
	// Label names the rule in decisions; set by Seal.
	Label string
}

// Match selects failures. Every non-empty part must match; an empty Match
// matches everything.
type Match struct {
	Classes ClassSet
	Status  []int
	Reason  []string
}

// Guard may only raise the built-in floor of the target's kind.
type Guard struct {
	MinDelay time.Duration
}

// Expect states what the policy must survive; lint and simulation judge by it.
type Expect struct {
	Outage      time.Duration // longest outage without loss
	Arrival     float64       // first attempts a second
	Capacity    float64       // calls a second the target can serve
	P99         time.Duration // healthy latency of the target
	DeadLetters float64       // accepted share of dead letters
}

// Waiver silences one lint rule for a stated reason until a date.
type Waiver struct {
	Rule    string    `json:"rule"`
	Reason  string    `json:"reason"`
	Expires time.Time `json:"expires"` // a date, UTC midnight; the waiver holds through that day
}

// Waves retries all failures of a pass together, more gently.
type Waves struct {
	Count       int
	Cooldown    time.Duration // before each wave
	Concurrency int
	Spacing     time.Duration
	Classes     ClassSet // which failures are tried again
}

// Restarts bounds a supervised process.
type Restarts struct {
	Max        int  // restarts after the first start; Attempts is Max + 1
	Refill     bool // progress gives the restarts back
	NoProgress int  // starts in a row without progress that park the job; 0 = never
}

// Thresholds are the error counts without progress that make a supervisor adapt.
type Thresholds struct {
	Timeout int
	HTTP    int
}

// Covers reports whether the match selects f.
func (m Match) Covers(f failure.Failure) bool { return m.covers(&f) }

func (m *Match) covers(f *failure.Failure) bool {
	if m.Classes != 0 && !m.Classes.Has(f.Class) {
		return false
	}
	if len(m.Status) > 0 && !contains(m.Status, f.Status) {
		return false
	}
	return len(m.Reason) == 0 || contains(m.Reason, f.Reason)
}

func contains[T comparable](list []T, v T) bool {
	for _, x := range list {
		if x == v {
			return true
		}
	}
	return false
}
