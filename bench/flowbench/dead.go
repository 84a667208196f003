package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ebbhq/ebb"
	"github.com/ebbhq/ebb/bench/report"
	"github.com/ebbhq/ebb/policy"
)

const (
	deadHost    = "dead"
	liveHost    = "live.example.com"
	deadName    = "dead"
	deadSlots   = 200
	deadTimeout = 200 * time.Millisecond
	trickleStep = 5 * time.Millisecond
	// warm starts of the trickle, those of its first half second, do not count:
	// connections and statements are made then, and the first calls of the dead
	// target, before any of them has timed out, have all slots that its policy
	// allows.
	warm = 100
)

// deadPart measures how late the jobs of a healthy target start, alone and
// beside a target all of whose jobs time out.
func deadPart(breaker bool) func(context.Context, *bench, database, bool) (measured, measured, error) {
	return func(ctx context.Context, b *bench, d database, swapped bool) (measured, measured, error) {
		return inTurn(swapped,
			func() (measured, error) { return lag(ctx, b.plan, d, breaker, 0) },
			func() (measured, error) { return lag(ctx, b.plan, d, breaker, b.plan.dead) })
	}
}

// dying is the policy of the target that times out. Its times are a
// hundredth of usual ones, so that a short run sees many probes.
func dying(breaker bool) policy.Policy {
	p := policy.Base(deadName)
	p.Concurrency, p.Batch = deadSlots, deadSlots
	p.Timeout = deadTimeout
	p.Breaker.Open, p.Breaker.Cap = 300*time.Millisecond, time.Second
	if !breaker {
		p.Breaker = policy.Breaker{}
		p.PerTarget.Concurrency = targetLimit
	}
	return p
}

// lag returns the 99th percentile of the milliseconds from before an enqueue
// to the handler's start.
func lag(ctx context.Context, p plan, d database, breaker bool, dead int) (m measured, err error) {
	c, err := enter(ctx, d)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	if dead > 0 {
		if err := c.fill(ctx, dead, 1, ebb.Job{Policy: deadName, Target: deadHost}); err != nil {
			return m, err
		}
	}
	if err := d.ready(ctx); err != nil {
		return m, err
	}
	live := aimed()
	live.Concurrency = deadSlots
	runner, err := ebb.New(c.client.Store(), ebb.WithPolicies(live, dying(breaker)), ebb.WithConcurrency(deadSlots))
	if err != nil {
		return m, err
	}
	var mu sync.Mutex
	var lags []float64
	var started sync.WaitGroup
	runner.HandleRaw(kind, func(ctx context.Context, _ *ebb.Task) error {
		<-ctx.Done()
		return ctx.Err()
	})
	ebb.Handle(runner, "trickle", func(_ context.Context, _ *ebb.Task, at int64) error {
		late := float64(time.Now().UnixMicro()-at) / 1000
		mu.Lock()
		lags = append(lags, late)
		mu.Unlock()
		started.Done()
		return nil
	})
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(ctx) }()
	tick := time.NewTicker(trickleStep)
	defer tick.Stop()
	for until := time.Now().Add(p.trickle); time.Now().Before(until); <-tick.C {
		started.Add(1)
		_, err := runner.Enqueue(ctx, ebb.Job{Kind: "trickle", Policy: aimedName, Target: liveHost, Args: time.Now().UnixMicro()})
		if err != nil {
			return m, err
		}
	}
	started.Wait()
	runner.Stop()
	return measured{value: report.Quantile(lags[min(warm, len(lags)/2):], 0.99)}, <-ended
}
