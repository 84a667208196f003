package gate

import (
	"fmt"
	"time"

	"github.com/ebbhq/ebb/failure"
)

// Hold names what keeps a call from starting. The set is closed.
type Hold uint8

const (
	NotHeld         Hold = iota
	HeldOperator         // an operator paused the target
	HeldRetryAfter       // the target asked for a pause
	HeldBreaker          // the breaker is open, or half-open with its probe out
	HeldRamp             // the target is recovering: few calls at once
	HeldBudget           // the retry budget is empty, or the throttle refused
	HeldConcurrency      // as many calls in flight as the target may get
	HeldRate             // the next start is not due yet
)

var holdNames = [...]string{
	NotHeld: "none", HeldOperator: "operator", HeldRetryAfter: "retry_after", HeldBreaker: "breaker",
	HeldRamp: "ramp", HeldBudget: "budget", HeldConcurrency: "concurrency", HeldRate: "rate",
}

// Holds lists every hold but NotHeld.
func Holds() []Hold {
	return []Hold{HeldOperator, HeldRetryAfter, HeldBreaker, HeldRamp, HeldBudget, HeldConcurrency, HeldRate}
}

func (h Hold) String() string {
	if int(h) < len(holdNames) {
		return holdNames[h]
	}
	return "unknown"
}

// MarshalText writes the hold by name.
func (h Hold) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText reads the hold by name.
func (h *Hold) UnmarshalText(text []byte) error {
	for i, name := range holdNames {
		if name == string(text) {
			*h = Hold(i)
			return nil
		}
	}
	return fmt.Errorf("gate: unknown hold %q", text)
}

// Counts reports whether the time spent in this hold counts towards
// max_hold. An open breaker and an empty budget do; a pause that the target
// asked for, limits, pacing, the ramp (work flows again) and an operator's
// pause do not.
func (h Hold) Counts() bool { return h == HeldBreaker || h == HeldBudget }

// Verdict is the answer to an Ask.
type Verdict struct {
	Admit bool // the call may start now; its permit is out
	Probe bool // it is the breaker's one probe
	Retry bool // as asked
	// Held says what kept it back; NotHeld when admitted. Of several holds
	// the operator's is named first, then the later of pause and breaker.
	Held Hold
	// Until is the earliest instant at which asking again can help by the
	// passing of time alone. It is zero if that depends on something else:
	// a call that ends, a success that pays, an operator who resumes.
	Until time.Time
}

// CountsHold reports whether the time until the next ask counts towards
// max_hold.
func (v Verdict) CountsHold() bool { return !v.Admit && v.Held.Counts() }

// Success is the event that ends the admitted call well.
func (v Verdict) Success() Done { return Done{OK: true, Retry: v.Retry, Probe: v.Probe} }

// Failure is the event that ends the admitted call with a failure.
func (v Verdict) Failure(f failure.Failure) Done {
	return Done{Failure: f, Retry: v.Retry, Probe: v.Probe}
}

// Unused is the event that gives the permit back without a call.
func (v Verdict) Unused() Abandon {
	return Abandon{Retry: v.Retry, Probe: v.Probe, Unused: true}
}

// String tells the verdict to a person.
func (v Verdict) String() string {
	timed := !v.Until.IsZero()
	until := v.Until.UTC().Format(time.RFC3339)
	switch {
	case v.Admit && v.Probe:
		return "may start, as the probe that decides whether the target is back"
	case v.Admit:
		return "may start"
	case v.Held == HeldOperator && timed:
		return "held: an operator paused the target until " + until
	case v.Held == HeldOperator:
		return "held: an operator paused the target until it is resumed"
	case v.Held == HeldRetryAfter:
		return "held: the target asked for a pause until " + until
	case v.Held == HeldBreaker && timed:
		return "held: the target keeps failing and its breaker is open until " + until
	case v.Held == HeldBreaker:
		return "held: the breaker waits for the outcome of its probe"
	case v.Held == HeldRamp:
		return "held: the target is recovering and gets few calls at once; the next starts when one ends"
	case v.Held == HeldBudget && timed:
		return "held: the retry budget is empty; it has room again at " + until
	case v.Held == HeldBudget:
		return "held: the retry budget is empty until other calls pay into it"
	case v.Held == HeldConcurrency:
		return "held: the target has as many calls in flight as it may get; the next starts when one ends"
	case v.Held == HeldRate:
		return "held: the target's rate allows the next start at " + until
	}
	return "no verdict"
}
