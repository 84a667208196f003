package simulate

import (
	"context"
	"encoding/json"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/policy"
)

// TestNothingIsLost: whatever a scenario is composed of, every job and every
// request ends exactly once, everything that was taken is given back, and the
// same seed gives the same.
func TestNothingIsLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawScenario(t)
		if err := Check(&s); err != nil {
			t.Fatal(err)
		}
		k := newKernel(&s, 1, nil)
		if err := k.run(context.Background(), 300_000); err != nil {
			t.Fatal(err)
		}
		o := k.outcome()
		if !o.CutShort {
			judgeRest(t, k)
		}
		judgeCounts(t, &o)
		first, _ := json.Marshal(o)
		again := newKernel(&s, 1, nil)
		if err := again.run(context.Background(), 300_000); err != nil {
			t.Fatal(err)
		}
		if second, _ := json.Marshal(again.outcome()); string(first) != string(second) {
			t.Fatal("the same seed gave another result")
		}
	})
}

// judgeRest checks that a drained run holds nothing.
func judgeRest(t *rapid.T, k *kernel) {
	if k.jobs.used != 0 || k.requests.used != 0 {
		t.Fatalf("%d jobs and %d requests are left", k.jobs.used, k.requests.used)
	}
	for i := range k.procs {
		p := &k.procs[i]
		if p.busy != 0 || p.open != 0 || p.waiting.n != 0 || p.line.n != 0 || len(p.items) != 0 {
			t.Fatalf("process %d: %d busy, %d connections, %d and %d wait, %d on the floor", i, p.busy, p.open, p.waiting.n, p.line.n, len(p.items))
		}
		if p.floor != nil && p.floor.Free() != slots(p) {
			t.Fatalf("process %d: %d slots free", i, p.floor.Free())
		}
	}
	for i := range k.gates {
		if s := k.gates[i].state; s.InFlight != 0 || s.Retries != 0 || s.Probing {
			t.Fatalf("gate %d: %d in flight", i, s.InFlight)
		}
	}
	for i := range k.lanes {
		if k.lanes[i].jobs.n != 0 {
			t.Fatalf("lane %d holds %d", i, k.lanes[i].jobs.n)
		}
	}
	for i := range k.nodes {
		n := &k.nodes[i]
		if n.waiting.n+n.serving.n+n.away.n+len(n.share.heap) != 0 || n.meter.inSystem.n != 0 || n.meter.busy.n != 0 || n.meter.queue.n != 0 {
			t.Fatalf("%s: %d wait, %d are served, %d away, level %d", n.name, n.waiting.n, n.serving.n, n.away.n, n.meter.inSystem.n)
		}
	}
	for i := range k.clients {
		m := &k.clients[i].meter
		if m.depth.n != 0 || m.inFlight.n != 0 || m.inSystem.n != 0 {
			t.Fatalf("%s: depth %d, in flight %d, in system %d", k.clients[i].name, m.depth.n, m.inFlight.n, m.inSystem.n)
		}
	}
}

// slots is how many slots the floor of a process has.
func slots(p *process) int {
	if p.workers == 0 {
		return unlimited
	}
	return p.workers
}

// judgeCounts checks that counters add up.
func judgeCounts(t *rapid.T, o *Outcome) {
	for i := range o.Callers {
		c := &o.Callers[i]
		v := c.Totals
		if v.Starts != v.Firsts+v.Retries || v.Jobs != v.Succeeded+v.Dead+v.Unfinished || v.OK != v.Succeeded {
			t.Fatalf("%s: %+v", c.Name, v)
		}
		if !o.CutShort && !c.Layer {
			if v.OK+v.Failed != v.Starts || v.Unfinished != 0 {
				t.Fatalf("%s: %+v", c.Name, v)
			}
			if sum := c.Calls.Mean * float64(c.Calls.Count); math.Abs(v.InFlightMean*o.EndedAt-sum) > 1e-9*sum {
				t.Fatalf("%s: Little's law: %v and %v", c.Name, v.InFlightMean*o.EndedAt, sum)
			}
		}
		dead := int64(0)
		for _, d := range c.DeadLetters {
			dead += d.Jobs
		}
		if dead != v.Dead {
			t.Fatalf("%s: %d dead letters listed of %d", c.Name, dead, v.Dead)
		}
	}
	for i := range o.Downstreams {
		d := o.Downstreams[i].Totals
		ends := d.OK + d.Errors + d.Full + d.Overdue + d.Throttled + d.Refused + d.Hung + d.Collapsed + d.Wasted + d.Dropped
		if !o.CutShort && ends != d.Requests {
			t.Fatalf("%s: %d requests, %d ends: %+v", o.Downstreams[i].Name, d.Requests, ends, d)
		}
	}
}

func drawScenario(t *rapid.T) Scenario {
	s := Scenario{Name: "any"}
	if rapid.Bool().Draw(t, "bounded") {
		s.Length = Length{Time: drawTime(t, "length"), End: rapid.SampledFrom([]End{Cut, Drain}).Draw(t, "end")}
	}
	s.Length.MaxTime = 10 * time.Minute
	layers := rapid.IntRange(1, 3).Draw(t, "layers")
	for n := range layers {
		d := drawDownstream(t, string(rune('a'+n)))
		if n+1 < layers && d.Row == nil && d.Order != PS {
			d.Calls = []Dependency{{Client: drawClient(t, string(rune('a'+n+1))), Calls: rapid.IntRange(0, 3).Draw(t, "calls"), Parallel: rapid.Bool().Draw(t, "parallel")}}
			d.ReleaseServer = rapid.Bool().Draw(t, "release")
		}
		s.Downstreams = append(s.Downstreams, d)
	}
	for n := range rapid.IntRange(1, 2).Draw(t, "callers") {
		c := Caller{
			Name: string(rune('x' + n)), Client: drawClient(t, "a"),
			Mode:    rapid.SampledFrom([]Mode{InProcess, Durable, Waves}).Draw(t, "mode"),
			Clients: rapid.IntRange(0, 3).Draw(t, "clients"),
		}
		c.Arrivals = []Arrivals{{Kind: Batch, Jobs: rapid.Int64Range(1, 30).Draw(t, "jobs")}}
		if c.Mode != Waves {
			c.Workers = rapid.IntRange(0, 4).Draw(t, "workers")
			c.MaxWaiting = rapid.SampledFrom([]int{0, 0, 5}).Draw(t, "max waiting")
			c.Arrivals = append(c.Arrivals,
				Arrivals{Kind: Closed, Users: rapid.IntRange(1, 4).Draw(t, "users"), Jobs: 20, Think: drawDist(t, "think")},
				Arrivals{Kind: Poisson, Rate: Constant(5), Jobs: 20, Size: 3})
		}
		if rapid.Bool().Draw(t, "deadline?") {
			c.Deadline = drawDist(t, "deadline")
		}
		s.Callers = append(s.Callers, c)
	}
	return s
}

func drawTime(t *rapid.T, what string) time.Duration {
	return time.Duration(rapid.Int64Range(1, 200).Draw(t, what)) * 100 * time.Millisecond
}

func drawDist(t *rapid.T, what string) Dist {
	return rapid.SampledFrom([]Dist{
		{},
		Always(time.Second), Exp(300 * time.Millisecond),
		{Kind: Uniform, Max: 2 * time.Second},
		{Kind: Pareto, Min: 10 * time.Millisecond, Shape: 1.2},
	}).Draw(t, what)
}

func drawClient(t *rapid.T, downstream string) Client {
	p := policy.Base("any")
	p.Attempts = rapid.IntRange(1, 4).Draw(t, "attempts")
	p.Backoff = policy.Backoff{Base: drawTime(t, "base"), Factor: 2, Jitter: policy.Jitter{Kind: rapid.SampledFrom([]policy.JitterKind{policy.JitterNone, policy.JitterFull, policy.JitterDecorrelated}).Draw(t, "jitter")}}
	p.Timeout = drawTime(t, "timeout")
	p.Concurrency = rapid.IntRange(1, 8).Draw(t, "concurrency")
	p.Spacing = rapid.SampledFrom([]time.Duration{0, 50 * time.Millisecond}).Draw(t, "spacing")
	p.Slot = rapid.SampledFrom([]policy.Slot{policy.SlotKeep, policy.SlotRelease}).Draw(t, "slot")
	p.FirstShare = rapid.SampledFrom([]float64{0, 0.5}).Draw(t, "first share")
	p.PerTarget = policy.PerTarget{Concurrency: rapid.IntRange(0, 3).Draw(t, "per target"), Rate: rapid.SampledFrom([]float64{0, 10}).Draw(t, "rate")}
	p.MaxHold = drawTime(t, "max hold")
	p.Budget = rapid.SampledFrom([]policy.Budget{
		{Kind: policy.BudgetNone},
		{Kind: policy.BudgetTokens, Ratio: 0.1, Floor: 5},
		{Kind: policy.BudgetShare, Ratio: 0.2, Floor: 1},
		{Kind: policy.BudgetWindow, Ratio: 0.2, Floor: 3, TTL: 5 * time.Second},
		{Kind: policy.BudgetThrottle, Ratio: 2, TTL: 5 * time.Second},
	}).Draw(t, "budget")
	p.Breaker = rapid.SampledFrom([]policy.Breaker{{}, {Consecutive: 3, Open: time.Second}}).Draw(t, "breaker")
	p.Classes = rapid.SampledFrom([][]policy.Rule{
		nil, {{Match: policy.Match{Status: []int{429}}, Action: policy.PauseTarget}}, {{Match: policy.Match{Classes: policy.SetOf(failure.Refused)}, Action: policy.DisableTarget}},
	}).Draw(t, "classes")
	p, err := policy.Seal(p)
	if err != nil {
		t.Fatal(err)
	}
	c := Client{Policy: p, Targets: []Target{{Downstream: downstream, Names: rapid.IntRange(0, 2).Draw(t, "names")}}}
	c.Gate = rapid.SampledFrom([]GateScope{GateNone, GateShared, GateCaller, GateClient}).Draw(t, "gate")
	c.Pick = rapid.SampledFrom([]Pick{RoundRobin, Random, Least, TwoChoices}).Draw(t, "pick")
	c.Connections = rapid.IntRange(0, 3).Draw(t, "connections")
	return c
}

func drawDownstream(t *rapid.T, name string) Downstream {
	d := Downstream{
		Name: name, Copies: rapid.IntRange(0, 2).Draw(t, "copies"), Servers: rapid.IntRange(1, 3).Draw(t, "servers"),
		Service: drawDist(t, "service"), Order: rapid.SampledFrom([]Order{FIFO, LIFO, PS}).Draw(t, "order"),
		Abandoned: rapid.SampledFrom([]Abandoned{Serve, Skip, Remove, Cancel}).Draw(t, "abandoned"),
		Network:   Network{There: drawDist(t, "there"), Back: drawDist(t, "back")},
	}
	if d.Order != PS && rapid.Bool().Draw(t, "queue?") {
		n := rapid.IntRange(0, 3).Draw(t, "queue")
		d.Queue = &n
		d.MaxWait = drawDist(t, "max wait")
	}
	for range rapid.IntRange(0, 2).Draw(t, "faults") {
		from := drawTime(t, "from")
		d.Faults = append(d.Faults, Fault{
			Kind: rapid.SampledFrom([]FaultKind{FaultError, FaultServed, FaultRefuse, FaultHang}).Draw(t, "fault"),
			From: from, Until: from + drawTime(t, "for"), Probability: Constant(rapid.SampledFrom([]float64{0.3, 1}).Draw(t, "probability")),
			Kills: rapid.Bool().Draw(t, "kills"), PerJob: rapid.Bool().Draw(t, "per job"),
		})
	}
	if rapid.Bool().Draw(t, "comes and goes?") {
		d.Faults = append(d.Faults, Fault{Kind: FaultRefuse, Up: Exp(time.Second), Down: Exp(time.Second), Kills: true})
	}
	if rapid.Bool().Draw(t, "capacity?") {
		d.Capacity = Steps(1, Point{At: drawTime(t, "falls"), Value: 0}, Point{At: 20 * time.Second, Value: 1})
		d.Speed = Curve{Points: []Point{{At: 0, Value: 1}, {At: 10 * time.Second, Value: 0.2}, {At: 20 * time.Second, Value: 2}}}
	}
	if rapid.Bool().Draw(t, "loss?") {
		d.Network.LossThere, d.Network.LossBack = Constant(0.1), Constant(0.1)
	}
	if rapid.Bool().Draw(t, "limit?") {
		d.Limit = &RateLimit{Rate: 5, Burst: 3, Exact: true}
	}
	if rapid.Bool().Draw(t, "collapse?") {
		d.Collapse = &Collapse{InSystem: 4, Speed: 0.5, Recovery: 5 * time.Second, Quiet: time.Second}
		if rapid.Bool().Draw(t, "kills") {
			d.Collapse.Answer, d.Collapse.Kills = &Answer{Status: 503}, true
		}
	}
	if rapid.Bool().Draw(t, "row?") {
		d.Row = &Row{Work: drawDist(t, "work")}
	}
	return d
}
