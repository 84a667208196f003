package telemetry

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// Source is what of a store is read for gauges. Where it is also a
// store.Gates, targets are told of too.
type Source interface {
	Now(ctx context.Context) (time.Time, error)
	Queues(ctx context.Context) ([]store.QueueState, error)
	Processes(ctx context.Context) ([]store.Process, error)
}

const (
	// readTimeout bounds one reading: a scrape must not wait for a store that
	// hangs.
	readTimeout = 5 * time.Second
	// targetPage is how many targets are read at once, maxTargets how many in
	// all: later ones by name are not told of.
	targetPage = 500
	maxTargets = 20_000
	// idleAfter is how long after the end of its open time, or after the order
	// for a probe, a breaker counts as open: one that nothing was left to probe
	// with stays as it is.
	idleAfter = 5 * time.Minute
)

var (
	upDesc = prometheus.NewDesc("ebb_store_up",
		"1 if the store could be read for this scrape; at 0 the gauges of queues, processes and targets are missing.", nil, nil)
	jobsDesc = prometheus.NewDesc("ebb_queue_jobs",
		"Jobs of a queue by state, from the store's maintained counts; ended ones until retention drops them.", []string{"queue", "state"}, nil)
	lagDesc = prometheus.NewDesc("ebb_queue_due_lag_seconds",
		"How long the earliest waiting job of a queue has been due; 0 if none is.", []string{"queue"}, nil)
	pausedDesc = prometheus.NewDesc("ebb_queue_paused",
		"1 if an operator paused the queue.", []string{"queue"}, nil)
	serversDesc = prometheus.NewDesc("ebb_queue_processes",
		"Living processes that take jobs from the queue.", []string{"queue"}, nil)
	processesDesc = prometheus.NewDesc("ebb_processes",
		"Processes that the store knows: alive, or silent for longer than the lease.", []string{"state"}, nil)
	targetsDesc = prometheus.NewDesc("ebb_targets",
		"Targets by what their gate says: disabled, paused by an operator, or the phase of the breaker.", []string{"state"}, nil)
	openDesc = prometheus.NewDesc("ebb_target_breaker_open",
		"Open breakers, by target: 1, or under other how many further ones.", []string{"target"}, nil)
)

// reading is the collector of what the store tells.
type reading struct {
	store   Source
	gates   store.Gates // nil = no targets are told of
	clock   clock.Clock // policy time; nil = the store's
	machine clock.Clock
	fresh   time.Duration
	lease   time.Duration
	queues  *names
	targets *names

	mu     sync.Mutex // one reading at a time: others wait and share it
	readAt time.Time  // machine time; zero = never
	last   []prometheus.Metric
}

func newReading(c *Config, m *metrics) *reading {
	r := &reading{
		store: c.Store, clock: c.Clock, machine: c.Machine, fresh: c.Fresh, lease: c.Lease,
		queues: m.queues, targets: m.targets,
	}
	r.gates, _ = c.Store.(store.Gates)
	return r
}

// Describe is of prometheus.Collector.
func (r *reading) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{upDesc, jobsDesc, lagDesc, pausedDesc, serversDesc, processesDesc, targetsDesc, openDesc} {
		out <- d
	}
}

// Collect is of prometheus.Collector.
func (r *reading) Collect(out chan<- prometheus.Metric) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.machine.Now(); r.readAt.IsZero() || now.Sub(r.readAt) >= r.fresh {
		r.last, r.readAt = r.read(), now
	}
	for _, m := range r.last {
		out <- m
	}
}

// read asks the store. What cannot be read is not told: an old number would
// look like a quiet queue.
func (r *reading) read() []prometheus.Metric {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	f, err := r.facts(ctx)
	if err != nil {
		return []prometheus.Metric{sample(upDesc, 0)}
	}
	list := []prometheus.Metric{sample(upDesc, 1)}
	list = append(list, r.tellQueues(f)...)
	alive := 0
	for i := range f.processes {
		if f.alive(&f.processes[i], r.lease) {
			alive++
		}
	}
	list = append(list, sample(processesDesc, float64(alive), "alive"), sample(processesDesc, float64(len(f.processes)-alive), "silent"))
	if r.gates != nil {
		list = append(list, r.tellTargets(f)...)
	}
	return list
}

// facts is one reading of the store.
type facts struct {
	now       time.Time // policy time
	queues    []store.QueueState
	processes []store.Process
	targets   []store.Gate
}

func (f *facts) alive(p *store.Process, lease time.Duration) bool {
	return f.now.Sub(p.SeenAt) <= lease
}

func (r *reading) facts(ctx context.Context) (f *facts, err error) {
	f = new(facts)
	if r.clock != nil {
		f.now = r.clock.Now()
	} else if f.now, err = r.store.Now(ctx); err != nil {
		return nil, err
	}
	if f.queues, err = r.store.Queues(ctx); err != nil {
		return nil, err
	}
	if f.processes, err = r.store.Processes(ctx); err != nil {
		return nil, err
	}
	for after := ""; r.gates != nil && len(f.targets) < maxTargets; {
		page, err := r.gates.Targets(ctx, after, targetPage)
		if err != nil {
			return nil, err
		}
		f.targets = append(f.targets, page...)
		if len(page) < targetPage {
			break
		}
		after = page[len(page)-1].Target
	}
	return f, nil
}

// queueSum is a queue, or all beyond the limit together.
type queueSum struct {
	counts  map[job.State]int64
	lag     time.Duration // the longest
	paused  bool          // all of them
	servers int           // of the one with fewest
}

func (r *reading) tellQueues(f *facts) []prometheus.Metric {
	sums := make(map[string]*queueSum)
	for i := range f.queues {
		q := &f.queues[i]
		name := r.queues.fold(q.Name)
		servers := 0
		for p := range f.processes {
			if f.alive(&f.processes[p], r.lease) && slices.Contains(f.processes[p].Queues, q.Name) {
				servers++
			}
		}
		s := sums[name]
		if s == nil {
			s = &queueSum{counts: make(map[job.State]int64), paused: true, servers: servers}
			sums[name] = s
		}
		for state, n := range q.Counts {
			s.counts[state] += n
		}
		if !q.DueAt.IsZero() {
			s.lag = max(s.lag, f.now.Sub(q.DueAt))
		}
		s.paused = s.paused && q.Paused
		s.servers = min(s.servers, servers)
	}
	var list []prometheus.Metric
	for name, s := range sums {
		for _, state := range job.States() {
			list = append(list, sample(jobsDesc, float64(s.counts[state]), name, string(state)))
		}
		paused := 0.0
		if s.paused {
			paused = 1
		}
		list = append(list, sample(lagDesc, seconds(s.lag), name), sample(pausedDesc, paused, name),
			sample(serversDesc, float64(s.servers), name))
	}
	return list
}

// targetStates are all values of the label.
var targetStates = []string{"disabled", "paused", gate.Closed.String(), gate.Open.String(), gate.HalfOpen.String(), gate.Ramping.String()}

func (r *reading) tellTargets(f *facts) []prometheus.Metric {
	states, open := make(map[string]int), make(map[string]int)
	for i := range f.targets {
		g := &f.targets[i]
		if strings.HasPrefix(g.Target, store.QueuePrefix) {
			continue // the limits of a queue, not somebody who is called
		}
		state := targetState(g, f.now)
		states[state]++
		if state == gate.Open.String() || state == gate.HalfOpen.String() {
			open[r.targets.fold(g.Target)]++
		}
	}
	var list []prometheus.Metric
	for _, s := range targetStates {
		list = append(list, sample(targetsDesc, float64(states[s]), s))
	}
	for target, n := range open {
		list = append(list, sample(openDesc, float64(n), target))
	}
	return list
}

// targetState is what a gate says now, in one word.
func targetState(g *store.Gate, now time.Time) string {
	s := &g.State
	stopped := s.Stopped && (s.StopUntil == 0 || s.StopUntil.Time().After(now))
	switch {
	case g.Disabled != "":
		return "disabled"
	case stopped:
		return "paused"
	case s.Phase == gate.Open && now.Sub(s.OpenUntil.Time()) > idleAfter,
		s.Phase == gate.HalfOpen && !s.Probing && now.Sub(s.SeenAt.Time()) > idleAfter:
		return gate.Closed.String() // nothing was left to probe with
	}
	return s.Phase.String()
}

func sample(d *prometheus.Desc, v float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}
