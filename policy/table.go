package policy

import (
	"time"

	"github.com/ebbhq/ebb/failure"
)

// CrashCap is how many crashes in a row are free under the built-in rule.
const CrashCap = 3

// localBackoff is how work waits for its own machine: disk, descriptors.
var localBackoff = Backoff{
	Base: 5 * time.Second, Factor: 2, Cap: time.Minute,
	Jitter: Jitter{Kind: JitterProportional, Ratio: 0.2},
}

// immediate is no wait at all: the process was at fault, not the target, and
// a crashed process's jobs must be claimable again at once.
var immediate = Backoff{Factor: 1, Jitter: Jitter{Kind: JitterNone}}

// Local reports whether waits for the class are counted apart, bounded by
// the job's deadline or window alone: our own machine's faults.
func (r *Rule) Local() bool { return r.Counts == CountsFree && r.Max == 0 && r.Window == 0 }

// builtin is the table that follows a policy's own rules: one row a class,
// so nothing is retried because no rule thought of it.
var builtin = func() [failure.NumClasses]Rule {
	var t [failure.NumClasses]Rule
	for _, c := range failure.Classes() {
		r := Rule{Match: Match{Classes: SetOf(c)}, Action: Fail, Counts: CountsAttempt, Label: "builtin/" + c.String()}
		switch c.Group() {
		case failure.Transient, failure.TimedOut, failure.Connection:
			r.Action = Retry
		case failure.Misconfig:
			r.Action, r.Counts = Park, CountsFree
		case failure.Local:
			r.Action, r.Counts = Retry, CountsFree
		}
		switch c {
		case failure.Crash:
			r.Max, r.Backoff = CrashCap, &immediate
		case failure.Interrupted:
			r.Backoff = &immediate
		case failure.LocalIO, failure.DiskFull:
			r.Backoff = &localBackoff
		}
		t[c] = r
	}
	t[failure.Unknown] = Rule{Action: Fail, Counts: CountsAttempt, Label: "builtin/unmatched"}
	return t
}()

// Builtin returns the built-in rule of a class.
func Builtin(c failure.Class) Rule {
	if int(c) >= failure.NumClasses {
		c = failure.Unknown
	}
	return builtin[c]
}

// RuleFor returns the rule that decides on f: the first of the policy's own
// that covers it, else the built-in row of its class.
func (p *Policy) RuleFor(f failure.Failure) *Rule {
	for i := range p.Classes {
		if p.Classes[i].Match.covers(&f) {
			return &p.Classes[i]
		}
	}
	if int(f.Class) >= failure.NumClasses {
		return &builtin[failure.Unknown]
	}
	return &builtin[f.Class]
}
