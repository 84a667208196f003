package crashtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/worker"
)

// A target is a file in Config.Targets that says how it answers calls; all
// processes read it. Without one, it is well.

// Mood is how a target answers.
type Mood string

const (
	Well Mood = "well"
	Down Mood = "down" // every call fails, by the target's fault
)

// Later is the mood of a target that asks for a pause.
func Later(pause time.Duration) Mood { return Mood(later + pause.String()) }

const later = "later "

// SetMood changes how a target answers from now on.
func SetMood(dir, target string, m Mood) error {
	path := filepath.Join(dir, target)
	if err := os.WriteFile(path+".new", []byte(m), 0o600); err != nil {
		return fmt.Errorf("crashtest: mood: %w", err)
	}
	return os.Rename(path+".new", path) // nobody reads half of it
}

// call takes as long as the order says and returns the target's answer.
func (p *program) call(ctx context.Context, t *worker.Task, o Order) error {
	if err := clock.Sleep(ctx, p.clock, time.Duration(o.Millis)*time.Millisecond); err != nil {
		return err
	}
	if t.Attempt() <= o.Fails {
		return &failure.Error{Failure: failure.Status(http.StatusInternalServerError)}
	}
	if o.Target == "" {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(p.targets, o.Target))
	switch mood := Mood(text); {
	case errors.Is(err, fs.ErrNotExist), mood == Well:
		return nil
	case err != nil:
		return failure.Fatal(err)
	case mood == Down:
		return &failure.Error{Failure: failure.Status(http.StatusServiceUnavailable)}
	default:
		f := failure.Status(http.StatusTooManyRequests)
		wait, _ := strings.CutPrefix(string(mood), later)
		if f.RetryAfter, err = time.ParseDuration(wait); err != nil {
			return failure.Fatal(err)
		}
		return &failure.Error{Failure: f}
	}
}

// Names of the policies for work with a target, each with one limit.
const (
	Limited  = "limited"  // LimitedTo calls at once
	Rated    = "rated"    // RatedTo starts a second
	Budgeted = "budgeted" // Allowance
	Pausing  = "pausing"  // honours Retry-After
	Breaking = "breaking" // a breaker
	Parking  = "parking"  // the same, with a short max_hold
	Batched  = "batched"  // BatchedTo overdue retries per target, process and 30 s
	Lasting  = "lasting"  // a breaker that stays open for long
	Saving   = "saving"   // Savings, a budget over a longer time
	Unheld   = "unheld"   // no limit at all
)

// Figures of the policies.
const (
	LimitedTo = 3
	RatedTo   = 20
	BatchedTo = 4
	// OpenFor is longer than a grant's life, so that nobody goes on by what it
	// knew before the breaker opened when its time is over.
	OpenFor = 1500 * time.Millisecond
	// OpenCap is the longest that it stays open.
	OpenCap = 3 * time.Second
	// LastingFor is how long Lasting stays open: a fleet can be started anew
	// meanwhile.
	LastingFor = 6 * time.Second

	HeldDelay   = time.Second
	HeldTimeout = time.Second
	HeldMost    = 3 * time.Second
	// BatchedDelay is how long a failed call of Batched waits.
	BatchedDelay = 20 * time.Second
)

// Allowance is the budget of Budgeted.
var Allowance = policy.Budget{Kind: policy.BudgetWindow, Ratio: 0.2, Floor: 6, TTL: 3 * time.Second}

// Savings is the budget of Saving.
var Savings = policy.Budget{Kind: policy.BudgetWindow, Ratio: 0.2, Floor: 6, TTL: 5 * time.Second}

// flowPolicies are for work with a target: delays far below what lint allows,
// which is waived, and attempts that do not run out unless the name says so.
func flowPolicies(concurrency int) []policy.Policy {
	change := map[string]func(p *policy.Policy){
		Limited:  func(p *policy.Policy) { p.PerTarget.Concurrency = LimitedTo },
		Rated:    func(p *policy.Policy) { p.PerTarget.Rate = RatedTo },
		Budgeted: func(p *policy.Policy) { p.Budget = Allowance },
		Pausing:  func(p *policy.Policy) { p.RetryAfter = policy.RetryAfter{Honour: true, Max: time.Minute} },
		Breaking: func(p *policy.Policy) {
			p.PerTarget.Concurrency = LimitedTo
			p.Breaker = policy.Breaker{Consecutive: 3, Open: OpenFor, Cap: OpenCap}
		},
		Parking: func(p *policy.Policy) {
			p.PerTarget.Concurrency = LimitedTo
			p.Breaker = policy.Breaker{Consecutive: 3, Open: OpenFor, Cap: OpenCap}
			p.Timeout, p.Backoff.Base, p.MaxHold = HeldTimeout, HeldDelay, HeldMost
		},
		Batched: func(p *policy.Policy) { p.Batch, p.Backoff.Base = BatchedTo, BatchedDelay },
		Lasting: func(p *policy.Policy) {
			p.RetryAfter = policy.RetryAfter{Honour: true, Max: time.Minute}
			p.Breaker = policy.Breaker{Consecutive: 3, Open: LastingFor, Cap: LastingFor}
		},
		Saving: func(p *policy.Policy) { p.Budget = Savings },
		Unheld: func(*policy.Policy) {},
	}
	var all []policy.Policy
	for _, name := range []string{Limited, Rated, Budgeted, Pausing, Breaking, Parking, Batched, Lasting, Saving, Unheld} {
		p := policy.Base(name)
		p.Target = policy.Process
		p.Concurrency, p.FirstShare = concurrency, 0
		p.Attempts, p.Timeout, p.MaxHold = 1000, 10*time.Second, 24*time.Hour
		p.Backoff = policy.Backoff{Base: 200 * time.Millisecond, Factor: 1, Jitter: policy.Jitter{Kind: policy.JitterProportional, Ratio: 0.2}}
		p.Breaker, p.Budget, p.Gate = policy.Breaker{}, policy.Budget{}, true
		p.Classes = []policy.Rule{freeCrashes()}
		for _, rule := range []string{
			policy.RuleFloor, policy.RuleJitter, policy.RuleGrowth, policy.RuleWindow, policy.RuleUnbounded, policy.RuleTimeout,
			policy.RuleMetastable, policy.RuleBudget, policy.RuleCatchUp,
		} {
			p.Waivers = append(p.Waivers, policy.Waiver{Rule: rule, Reason: "short figures", Expires: time.Now().AddDate(0, 1, 0)})
		}
		change[name](&p)
		all = append(all, p)
	}
	return all
}
