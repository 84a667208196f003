package scenario

import (
	"context"
	"fmt"
	"time"

	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/simulate"
)

// A guard may delay an attempt, never replace it. The ladder plays a policy as
// it is against the same policy with its gate off, the bare schedule, in
// outages from short to long and beside work that is bad for good.
const (
	ladderRate    = 0.5 // jobs a second
	ladderTargets = 3
	ladderBatch   = 882 // pages of a policy with waves
	ladderLead    = 5 * time.Minute
	ladderBad     = 1000 // jobs of which some are bad
	// NoticedWithin is how soon after an outage's end a call must succeed.
	NoticedWithin = 90 * time.Second
)

var (
	ladderOutages = []time.Duration{time.Minute, 10 * time.Minute, 35 * time.Minute, 2 * time.Hour, 12 * time.Hour}
	ladderBads    = []int{1, 5, 55}
)

// Rung is one step of the ladder: what became of the work under the policy, and
// under its bare schedule.
type Rung struct {
	Name   string        `json:"name"`
	Outage time.Duration `json:"-"` // 0 = some of the work is bad for good
	Jobs   int64         `json:"jobs"`
	Policy Outcome       `json:"policy"`
	Bare   Outcome       `json:"bare"`
}

// Outcome is what one run of a rung gave.
type Outcome struct {
	Dead   int64 `json:"dead"`
	Calls  int64 `json:"calls"`
	Failed int64 `json:"failed_calls"`
	// Noticed is how long after the outage's end a call to the last of the
	// targets succeeded, in seconds; negative where none had to.
	Noticed float64 `json:"noticed_s"`
}

// OK reports whether the guard lost nothing, called no more often than the bare
// schedule, and noticed in time that the target was well.
func (r *Rung) OK() bool {
	return r.Policy.Dead <= r.Bare.Dead && r.Policy.Calls <= r.Bare.Calls && r.Policy.Noticed <= NoticedWithin.Seconds()
}

// Ladder plays all rungs.
func Ladder(ctx context.Context, p policy.Policy) ([]Rung, error) {
	var rungs []Rung
	for _, outage := range ladderOutages {
		rungs = append(rungs, Rung{Name: "outage of " + policy.FormatDuration(outage), Outage: outage})
	}
	for _, bad := range ladderBads {
		rungs = append(rungs, Rung{Name: fmt.Sprintf("%d of %d bad for good", bad, ladderBad)})
	}
	bare := p
	bare.Gate = false
	for i := range rungs {
		r := &rungs[i]
		var err error
		if r.Policy, r.Jobs, err = r.play(ctx, p, i); err == nil {
			r.Bare, _, err = r.play(ctx, bare, i)
		}
		if err != nil {
			return nil, fmt.Errorf("simulate: %s: %s: %w", p.Name, r.Name, err)
		}
	}
	return rungs, nil
}

// play runs a rung under one policy.
func (r *Rung) play(ctx context.Context, p policy.Policy, number int) (Outcome, int64, error) {
	s := r.scenario(p, number)
	end := s.Downstreams[0].Faults[0].Until
	first := map[string]time.Duration{} // success after the outage, by target
	result, err := simulate.Run(ctx, s, simulate.Options{Trace: func(e simulate.Event) {
		if e.Kind == simulate.Ended && e.OK && e.At >= end && first[e.Target] == 0 {
			first[e.Target] = e.At
		}
	}})
	if err != nil {
		return Outcome{}, 0, err
	}
	t := result.Runs[0].Callers[0].Totals
	o := Outcome{Dead: t.Dead, Calls: t.Calls, Failed: t.Failed, Noticed: -1}
	if r.Outage > 0 {
		for _, at := range first {
			o.Noticed = max(o.Noticed, (at - end).Seconds())
		}
	}
	return o, t.Jobs, nil
}

// scenario is the rung for one policy.
func (r *Rung) scenario(p policy.Policy, number int) simulate.Scenario {
	fault := simulate.Fault{Kind: simulate.FaultError, From: ladderLead, Until: ladderLead + r.Outage, Answer: simulate.Answer{Status: 503}}
	if r.Outage == 0 {
		bad := ladderBads[number-len(ladderOutages)]
		fault = simulate.Fault{Kind: simulate.FaultError, PerJob: true, Probability: simulate.Constant(float64(bad) / ladderBad), Answer: simulate.Answer{Status: 500}}
	}
	c := simulate.Caller{
		Name: "caller", Mode: simulate.Durable,
		Client:   simulate.Client{Policy: p, Gate: simulate.GateShared, Targets: []simulate.Target{{Downstream: "target", Names: ladderTargets}}},
		Arrivals: []simulate.Arrivals{{Kind: simulate.Regular, Rate: simulate.Constant(ladderRate)}},
	}
	length := simulate.Length{Time: fault.Until + 30*time.Minute, End: simulate.Drain, MaxTime: 14 * 24 * time.Hour}
	switch {
	case r.Outage == 0:
		c.Targets[0].Names = 1
		length = simulate.Length{Jobs: ladderBad, End: simulate.Drain, MaxTime: 14 * 24 * time.Hour}
	case p.Waves.Count > 0:
		c.Mode, c.Targets[0].Names = simulate.Waves, 1
		c.Arrivals = []simulate.Arrivals{{Kind: simulate.Batch, Jobs: ladderBatch}}
		fault.From, fault.Until = 40*time.Second, 40*time.Second+r.Outage
		length = simulate.Length{}
	}
	return simulate.Scenario{
		Name: p.Name, Seed: 1, Length: length, Callers: []simulate.Caller{c},
		Downstreams: []simulate.Downstream{{Name: "target", Service: simulate.Always(50 * time.Millisecond), Faults: []simulate.Fault{fault}}},
	}
}
