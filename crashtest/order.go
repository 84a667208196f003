package crashtest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
)

// Kind is what a handler of the worker program does.
type Kind string

const (
	Quick    Kind = "quick"    // returns at once
	Slow     Kind = "slow"     // takes Millis
	Flaky    Kind = "flaky"    // fails its first attempt, then succeeds
	Fatal    Kind = "fatal"    // says that no retry will help
	Hopeless Kind = "hopeless" // fails every attempt
	Steps    Kind = "steps"    // reports progress three times, over Millis
	Nap      Kind = "nap"      // takes Millis whatever its context says, then reports progress
	Hold     Kind = "hold"     // returns when its context ends
	Stay     Kind = "stay"     // reports progress, then returns when its context ends
	Bomb     Kind = "bomb"     // kills its own process
	Call     Kind = "call"     // takes Millis, then gets the target's answer
)

// Kinds are all that the worker program knows.
var Kinds = []Kind{Quick, Slow, Flaky, Fatal, Hopeless, Steps, Nap, Hold, Stay, Bomb, Call}

// Order is one job that the driver asks for.
type Order struct {
	Name   string    `json:"name"` // unlike any other's; it is the job's result
	Kind   Kind      `json:"kind"`
	Millis int       `json:"millis,omitempty"`
	Cargo  []byte    `json:"cargo,omitempty"` // args to fill a disk with
	Target string    `json:"target,omitempty"`
	Fails  int       `json:"fails,omitempty"` // so many attempts of a call fail, whatever the target says
	Key    string    `json:"-"`
	Policy string    `json:"-"` // PolicyName if empty
	DueAt  time.Time `json:"-"` // zero = now
}

// New returns the order as a job.
func (o Order) New() job.New {
	args, err := json.Marshal(o)
	if err != nil {
		panic(err) // of strings and numbers
	}
	if o.Policy == "" {
		o.Policy = PolicyName
	}
	return job.New{Kind: string(o.Kind), Policy: o.Policy, Args: args, DueAt: o.DueAt, Target: o.Target, Key: o.Key}
}

func parseOrder(args []byte) (Order, error) {
	var o Order
	if err := json.Unmarshal(args, &o); err != nil {
		return o, fmt.Errorf("crashtest: order %q: %w", args, err)
	}
	return o, nil
}

// end is how an order must end, however often its workers die.
type end struct {
	state    job.State
	cause    job.Cause
	attempts int // spent; anySpent = as many as it took
}

const anySpent = -1

func (o Order) end() end {
	switch o.Kind {
	case Fatal:
		return end{job.Failed, retry.CauseFatal, 1}
	case Hopeless:
		return end{job.Failed, retry.CauseExhausted, attempts}
	case Bomb:
		return end{job.Failed, retry.CausePoison, 0}
	case Hold, Stay:
		return end{job.Cancelled, "", 0} // the driver cancels what it held
	case Flaky:
		return end{job.Succeeded, "", 2}
	case Call:
		return end{job.Succeeded, "", anySpent}
	}
	return end{job.Succeeded, "", 1}
}

const (
	// PolicyName is the policy of all orders that name none.
	PolicyName = "crashtest"
	// attempts is its budget.
	attempts = 3
)

// Policies are those of the worker program: PolicyName, with delays as short
// as lint allows and a cap of crashes that random kills do not reach, and
// "poison", the same with the built-in cap; and those for work with a target.
func Policies(concurrency int) []policy.Policy {
	p := policy.Base(PolicyName)
	p.Target = policy.Process
	p.Attempts = attempts
	p.Backoff = policy.Backoff{Base: time.Second, Factor: 1, Jitter: policy.Jitter{Kind: policy.JitterProportional, Ratio: 0.2}}
	p.Concurrency = concurrency
	p.Timeout = 10 * time.Minute
	poison := p
	poison.Name = "poison"
	p.Classes = []policy.Rule{freeCrashes()}
	return append(flowPolicies(concurrency), p, poison)
}

// freeCrashes is a cap that random kills do not reach.
func freeCrashes() policy.Rule {
	return policy.Rule{
		Match: policy.Match{Classes: policy.SetOf(failure.Crash)}, Action: policy.Retry, Counts: policy.CountsFree, Max: 50,
		Backoff: &policy.Backoff{Base: 10 * time.Millisecond, Factor: 1, Jitter: policy.Jitter{Kind: policy.JitterNone}},
	}
}

// Mixed returns n orders of all kinds that end by themselves: mostly quick
// ones, a fifth slow, some that fail, some due later.
func Mixed(rng *rand.Rand, prefix string, n int, now time.Time) []Order {
	orders := make([]Order, n)
	for i := range orders {
		o := Order{Name: fmt.Sprintf("%s-%d", prefix, i), Kind: Quick}
		switch p := rng.IntN(100); {
		case p < 20:
			o.Kind, o.Millis = Slow, 1+rng.IntN(60)
		case p < 30:
			o.Kind, o.Millis = Steps, 3+rng.IntN(60)
		case p < 38:
			o.Kind = Flaky
		case p < 41:
			o.Kind = Fatal
		case p < 43:
			o.Kind = Hopeless
		}
		if rng.IntN(20) == 0 {
			o.DueAt = now.Add(time.Duration(rng.IntN(2000)) * time.Millisecond)
		}
		orders[i] = o
	}
	return orders
}
