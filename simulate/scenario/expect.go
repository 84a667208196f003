package scenario

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/simulate"
)

// The names of the two callers of an expected outage: the jobs that arrive
// while it lasts, and those before and after it.
const (
	during = "during the outage"
	around = "around it"
)

// What an expect block leaves open.
const (
	usualArrival = 10.0 // first attempts a second
	usualP99     = time.Second
	batchJobs    = 500 // of a policy with waves
	maxJobs      = 50_000
)

// Expected is what a simulation of a policy's expect block gave.
type Expected struct {
	Outage   time.Duration `json:"-"`
	Accepted float64       `json:"accepted"` // share of dead letters
	// DeadShare is the share of dead letters of the jobs that arrived during
	// the outage, HealthyDeadShare of the others.
	DeadShare        float64 `json:"dead_share"`
	HealthyDeadShare float64 `json:"healthy_dead_share"`
	// Recovered says that the share of successful calls came back, After how
	// long after the outage's end, in seconds.
	Recovered     bool    `json:"recovered"`
	After         float64 `json:"recovered_after"`
	Amplification float64 `json:"amplification"`
	PeakCalls     int64   `json:"peak_calls"`
	// Scale is how much of the stated arrival and capacity was simulated, to
	// keep the number of jobs in bounds.
	Scale float64 `json:"scale"`
}

// OK reports whether everything that was expected held.
func (e *Expected) OK() bool {
	return e.DeadShare <= e.Accepted && e.HealthyDeadShare <= e.Accepted && e.Recovered
}

// Expect runs a policy against its own expect block; false where it has none.
func Expect(ctx context.Context, p policy.Policy) (*Expected, bool, error) {
	if p.Expect.Outage <= 0 {
		return nil, false, nil
	}
	s, scale := Outage(p)
	r, err := simulate.Run(ctx, s, simulate.Options{})
	if err != nil {
		return nil, true, fmt.Errorf("simulate: %s: %w", p.Name, err)
	}
	e := &Expected{Outage: p.Expect.Outage, Accepted: p.Expect.DeadLetters, Scale: scale}
	var calls, firsts int64
	run := &r.Runs[0]
	for i := range run.Callers {
		c := &run.Callers[i]
		calls, firsts = calls+c.Totals.Calls, firsts+c.Totals.Firsts
		if c.Name == during {
			e.DeadShare = c.Totals.DeadShare
		} else {
			e.HealthyDeadShare = c.Totals.DeadShare
		}
		if c.Name == around || len(run.Callers) == 1 {
			e.Recovered, e.After = c.Recovery.Recovered, c.Recovery.After
		}
	}
	if firsts > 0 {
		e.Amplification = float64(calls) / float64(firsts)
	}
	for i := range run.Downstreams {
		e.PeakCalls = max(e.PeakCalls, run.Downstreams[i].Totals.PeakRequests)
	}
	return e, true, nil
}

// Outage is the scenario of a policy's expect block: first attempts at
// expect.arrival against a target that serves expect.capacity calls a second,
// exponentially with the expected p99, and answers 503 to everything for
// expect.outage. There are as many processes, and as many names of the
// target, as the policy's own limits need to carry twice the healthy load.
func Outage(p policy.Policy) (s simulate.Scenario, scale float64) {
	arrival, p99 := p.Expect.Arrival, p.Expect.P99
	if arrival == 0 {
		arrival = usualArrival
	}
	if p99 == 0 {
		p99 = usualP99
	}
	mean := time.Duration(float64(p99) / math.Log(100))
	lead := max(2*time.Minute, 5*p99)
	after := max(p.Expect.Outage, min(p.Reach().Most, time.Hour)) + 5*time.Minute
	end := lead + p.Expect.Outage
	scale = min(1, maxJobs/(arrival*(end+after).Seconds()))
	load := arrival * scale * mean.Seconds() // calls under way
	d := simulate.Downstream{
		Name: "target", Service: simulate.Exp(mean),
		Faults: []simulate.Fault{{Kind: simulate.FaultError, From: lead, Until: end, Answer: simulate.Answer{Status: 503}}},
	}
	if p.Expect.Capacity > 0 {
		d.Servers = max(1, int(math.Ceil(p.Expect.Capacity*scale*mean.Seconds())))
	}
	c := simulate.Caller{
		Name: around, Mode: simulate.Durable,
		Clients: max(1, int(math.Ceil(2*load/float64(max(p.Concurrency, 1))))),
		Client:  simulate.Client{Policy: p, Gate: simulate.GateShared, Targets: []simulate.Target{{Downstream: d.Name, Names: targetNames(p, load, arrival*scale)}}},
	}
	s = simulate.Scenario{
		Name: p.Name, About: "the policy's own expect block", Seed: 1,
		Length:      simulate.Length{Time: end + after, End: simulate.Drain, MaxTime: 24 * time.Hour},
		Recovery:    simulate.Recovery{BeganAt: lead, EndedAt: end, For: time.Minute},
		Downstreams: []simulate.Downstream{d},
	}
	rate := simulate.Constant(arrival * scale)
	c.Arrivals = []simulate.Arrivals{
		{Kind: simulate.Poisson, Name: "before", Rate: rate, Until: lead},
		{Kind: simulate.Poisson, Name: "after", Rate: rate, From: end},
	}
	inside := c
	inside.Name = during
	inside.Arrivals = []simulate.Arrivals{{Kind: simulate.Poisson, Rate: rate, From: lead, Until: end}}
	s.Callers = []simulate.Caller{c, inside}
	if p.Waves.Count > 0 {
		inWaves(&s, p)
	}
	return s, scale
}

// targetNames is how many targets share the load so that no limit of a target binds
// below twice of it.
func targetNames(p policy.Policy, load, arrival float64) int {
	n := 1.0
	if p.PerTarget.Concurrency > 0 {
		n = max(n, 2*load/float64(p.PerTarget.Concurrency))
	}
	if p.PerTarget.Rate > 0 {
		n = max(n, 2*arrival/p.PerTarget.Rate)
	}
	return int(math.Ceil(n))
}

// inWaves makes one batch of it, which the outage hits from its beginning.
func inWaves(s *simulate.Scenario, p policy.Policy) {
	const begin = time.Second
	c := s.Callers[1]
	c.Mode, c.Clients = simulate.Waves, 0
	c.Targets = []simulate.Target{{Downstream: s.Downstreams[0].Name}}
	c.Arrivals = []simulate.Arrivals{{Kind: simulate.Batch, Jobs: batchJobs}}
	s.Callers = []simulate.Caller{c}
	s.Length = simulate.Length{}
	f := &s.Downstreams[0].Faults[0]
	f.From, f.Until = begin, begin+p.Expect.Outage
	s.Recovery = simulate.Recovery{BeganAt: f.From, EndedAt: f.Until, For: time.Minute}
}
