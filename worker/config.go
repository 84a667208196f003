package worker

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
)

// Config says what a worker does and how. New fills what is not given with the
// defaults named here.
type Config struct {
	// Handlers does the work, by kind. A worker claims only kinds that it
	// knows: jobs of others wait for a worker that does. One without handlers
	// does the upkeep alone: dead processes, redrives, schedules, retention.
	Handlers map[string]Handler
	// Queues to claim from; they take turns. Default: job.DefaultQueue alone.
	Queues []string
	// Policies by which jobs are judged, next to the presets; one with a
	// preset's name replaces it. New seals them and refuses those that
	// policy.Enforce refuses. A job whose policy is not known is parked.
	Policies []policy.Policy
	// Enforced: another worker of this process was made with the same policies,
	// so that lint need not be asked again.
	Enforced bool
	// Classifiers are asked for the class of an error before the built-in ones.
	Classifiers []failure.Classifier

	// Concurrency is how many handlers run at once in this process. A policy's
	// own concurrency and spacing hold within it. Default 100.
	Concurrency int
	// Turns is how many round trips to the store may be under way at once.
	// One settles what ended and claims what is next; while it waits for the
	// database, a second can be prepared. Where work of many targets ends
	// faster than that, there may be one more than here, unless this is 1.
	// Default 2.
	Turns int

	// Lease is how long a process may go without a heartbeat before others
	// take it for dead, by their own clocks. All processes on a store must
	// agree. Machine time, as are Beat, Poll and Drain. Default 20 s.
	Lease time.Duration
	// Beat is the time between heartbeats. Cancel orders arrive with them.
	// Default a quarter of Lease; it must be less than half.
	Beat time.Duration
	// Poll is the longest time between two looks for work. It is a safety net:
	// work is found by wake-ups and by due times. Default 15 s.
	Poll time.Duration
	// Drain is how long running handlers may go on after the first stop.
	// Then, or at a second stop, their contexts end. Default 30 s.
	Drain time.Duration
	// Grace is how long a handler may take to return after its context ended.
	// Then its job is settled without it, its slot is free and what it returns
	// later is refused. Policy time after a timeout or a cancel, machine time
	// at a stop. Default 5 s.
	Grace time.Duration

	// SucceededKept is how long succeeded and cancelled jobs are kept.
	// Default 72 h; negative = for ever.
	SucceededKept time.Duration
	// FailedKept is how long dead letters are kept. Default 0 = for ever.
	FailedKept time.Duration

	// Seed of the draws: the jitter of a delay derives from it, the job's
	// sequence and the number of the start. Default: drawn for this process.
	Seed uint64
	// Clock is policy time: delays, due times, timeouts, spacing. Default: the
	// machine's clock for waiting and the store's own for due times.
	Clock clock.Clock
	// Machine is the time of heartbeats, leases and stops. Default: the
	// machine's clock.
	Machine clock.Clock
	// Observe is told what happens, in the order it happens for any one job.
	// It is called from several goroutines and must return quickly. Nothing
	// the worker does depends on it. Default: nobody is told.
	Observe func(Event)

	// Settings is a fingerprint of the program's own configuration. Jobs that
	// were parked for their configuration are queued again by a worker that
	// starts with another one, or with other policies.
	Settings string
	// Detached says that the work goes on when this process dies, because the
	// handlers only wait for others who do it. Then its leases end when its
	// heartbeat has stood still for the lease, and never sooner. A process
	// whose work ends with it is taken for dead as soon as another one on its
	// host sees that it is gone (on Linux).
	Detached bool
	// Host and Version describe the process to operators. Default: the host's
	// name, and nothing.
	Host, Version string
}

const (
	defaultConcurrency = 100
	defaultTurns       = 2
	defaultLease       = 20 * time.Second
	defaultPoll        = 15 * time.Second
	defaultDrain       = 30 * time.Second
	defaultGrace       = 5 * time.Second
	defaultKept        = 72 * time.Hour
)

func (c *Config) fill() {
	c.Handlers = maps.Clone(c.Handlers)
	if len(c.Queues) == 0 {
		c.Queues = []string{job.DefaultQueue}
	}
	c.Queues = slices.Clone(c.Queues)
	if len(c.Handlers) == 0 {
		c.Queues = nil // it serves none
	}
	c.Concurrency = cmp.Or(c.Concurrency, defaultConcurrency)
	c.Turns = cmp.Or(c.Turns, defaultTurns)
	c.Lease = cmp.Or(c.Lease, defaultLease)
	c.Beat = cmp.Or(c.Beat, c.Lease/4)
	c.Poll = cmp.Or(c.Poll, defaultPoll)
	c.Drain = cmp.Or(c.Drain, defaultDrain)
	c.Grace = cmp.Or(c.Grace, defaultGrace)
	c.SucceededKept = max(0, cmp.Or(c.SucceededKept, defaultKept))
	c.FailedKept = max(0, c.FailedKept)
	for c.Seed == 0 {
		c.Seed = rand.Uint64()
	}
	if c.Machine == nil {
		c.Machine = clock.System{}
	}
	if c.Host == "" {
		c.Host, _ = os.Hostname() // shown to operators only
	}
}

func (c *Config) validate() error {
	for kind, h := range c.Handlers {
		if kind == "" || h == nil {
			return fmt.Errorf("worker: config: handler %q: needs a kind and a function", kind)
		}
	}
	seen := map[string]bool{}
	for _, q := range c.Queues {
		if q == "" || seen[q] {
			return fmt.Errorf("worker: config: queue %q: name each queue once", q)
		}
		seen[q] = true
	}
	if c.Concurrency < 1 || c.Turns < 1 {
		return fmt.Errorf("worker: config: concurrency %d, turns %d: must be 1 or more", c.Concurrency, c.Turns)
	}
	for _, d := range []struct {
		name string
		d    time.Duration
	}{{"lease", c.Lease}, {"beat", c.Beat}, {"poll", c.Poll}, {"drain", c.Drain}, {"grace", c.Grace}} {
		if d.d <= 0 {
			return fmt.Errorf("worker: config: %s %s: must be more than 0s", d.name, d.d)
		}
	}
	if c.Beat >= c.Lease/2 {
		return fmt.Errorf("worker: config: beat %s: must be less than half of the lease, %s, or a late one costs the process its leases", c.Beat, c.Lease)
	}
	return nil
}

// seal returns the presets and the given policies, sealed and enforced, by
// name.
func (c *Config) seal(today time.Time) (map[string]*policy.Policy, error) {
	all := make(map[string]*policy.Policy)
	for _, name := range policy.PresetNames() {
		p := policy.MustPreset(name)
		all[name] = &p
	}
	given := map[string]bool{}
	for _, p := range c.Policies {
		if p.Name == "" || given[p.Name] {
			return nil, fmt.Errorf("worker: config: policy %q: name each policy once", p.Name)
		}
		given[p.Name] = true
		sealed, err := policy.Seal(p)
		if err != nil {
			return nil, fmt.Errorf("worker: config: policy %s: %w", p.Name, err)
		}
		if !c.Enforced {
			if err := policy.Enforce(sealed, today); err != nil {
				return nil, fmt.Errorf("worker: config: %w", err)
			}
		}
		all[p.Name] = &sealed
	}
	return all, nil
}

// fingerprint names this configuration for jobs parked under it.
func fingerprint(settings string, policies map[string]*policy.Policy) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q\n", settings)
	for _, name := range slices.Sorted(maps.Keys(policies)) {
		fmt.Fprintf(h, "%q %s\n", name, policies[name].Version)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}
