package simulate_test

import (
	"context"
	"testing"
	"time"

	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/simulate"
)

// BenchmarkEvents measures the kernel: events a second on one core, and what
// an event allocates. The run's length is the benchmark's, so that a run of
// ten times the events shows the same memory.
func BenchmarkEvents(b *testing.B) {
	for _, c := range []struct {
		name  string
		build func(testing.TB) simulate.Scenario
	}{
		{"queue", busyQueue},
		{"retries", busyRetries},
		{"durable", busyDurable},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := c.build(b)
			s.Length.Jobs = 200_000
			b.ReportAllocs()
			var events int64
			for b.Loop() {
				r, err := simulate.Run(context.Background(), s, simulate.Options{})
				if err != nil {
					b.Fatal(err)
				}
				events += r.Runs[0].Events
			}
			b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
			b.ReportMetric(float64(events)/float64(b.N), "events/op")
		})
	}
}

// busyQueue is M/M/4 under load.
func busyQueue(tb testing.TB) simulate.Scenario {
	s := queue(tb, 360, simulate.Downstream{Servers: 4, Service: simulate.Exp(10 * time.Millisecond)})
	s.Length, s.WarmUp = simulate.Length{End: simulate.Drain}, 0
	return s
}

// busyRetries fails a third of the calls, with timeouts, jitter, network legs
// and a gate.
func busyRetries(tb testing.TB) simulate.Scenario {
	p := tries(tb, 4, 100*time.Millisecond, func(p *policy.Policy) {
		p.Backoff.Factor, p.Backoff.Jitter.Kind = 2, policy.JitterFull
		p.Timeout = time.Second
		p.Gate = true
		p.Budget = policy.Budget{Kind: policy.BudgetTokens, Ratio: 0.9, Floor: 100}
	})
	s := busyQueue(tb)
	s.Callers[0].Client = calls(p, "server")
	s.Callers[0].Gate = simulate.GateCaller
	s.Downstreams[0].Servers = 10
	s.Downstreams[0].Network = simulate.Network{There: simulate.Exp(time.Millisecond), Back: simulate.Exp(time.Millisecond)}
	s.Downstreams[0].Faults = []simulate.Fault{{Kind: simulate.FaultServed, Probability: simulate.Constant(0.33)}}
	return s
}

// busyDurable is the same through the engine's dispatch.
func busyDurable(tb testing.TB) simulate.Scenario {
	s := busyRetries(tb)
	s.Callers[0].Mode, s.Callers[0].Workers = simulate.Durable, 64
	return s
}
