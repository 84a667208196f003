package main

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/ebbhq/ebb"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/worker"
)

// part is one comparison.
type part struct {
	name     string
	what     string // for the table
	baseName string
	withName string
	unit     string
	target   string  // of the targets; empty = a note
	least    float64 // of with ÷ base; 0 = there is a most
	most     float64
	often    bool // a noisy one: it has more rounds
	measure  func(ctx context.Context, b *bench, d database, swapped bool) (base, with measured, err error)
}

const heldTargets = 100

var parts = []part{
	{
		name: "plain", what: "plain work beside flow control", unit: "jobs/s", target: "plain_beside_flow", least: 0.97, often: true,
		baseName: "empty database", withName: "beside it", measure: besidePart,
	},
	{
		name: "targets", what: "limits over 100 targets", unit: "jobs/s", target: "limits_over_100_targets", least: 0.9, often: true,
		baseName: "plain", withName: "100 targets", measure: spread(100),
	},
	{
		name: "many", what: "limits over 1,000 targets", unit: "jobs/s",
		baseName: "plain", withName: "1,000 targets", measure: spread(1000),
	},
	{
		name: "calls", what: "limits over 100 targets, each job one call on loopback", unit: "jobs/s",
		baseName: "plain", withName: "100 targets", measure: calling(100),
	},
	{
		name: "manycalls", what: "limits over 1,000 targets, each job one call on loopback", unit: "jobs/s",
		baseName: "plain", withName: "1,000 targets", measure: calling(1000),
	},
	{
		name: "forty", what: "one target, limit 40, 10 ms each, and 40 plain workers", unit: "jobs/s",
		baseName: "40 plain workers", withName: "limit 40", measure: fortyPart,
	},
	{
		name: "one", what: "one target, limit 40, 10 ms each", unit: "jobs/s", target: "one_target_limit_40", least: 0.9,
		baseName: "its handlers allow", withName: "limit 40", measure: onePart,
	},
	{
		name: "dead", what: "p99 start lag beside a target that times out", unit: "ms", target: "lag_beside_timeouts", most: 1.5,
		baseName: "alone", withName: "beside it", measure: deadPart(true),
	},
	{
		name: "deadopen", what: "… without its breaker, limit 40", unit: "ms",
		baseName: "alone", withName: "beside it", measure: deadPart(false),
	},
	{
		name: "old", what: "plain work, the code before flow control", unit: "jobs/s",
		baseName: "before", withName: "now", measure: oldPart,
	},
}

func partNames() []string {
	names := make([]string, len(parts))
	for i, p := range parts {
		names[i] = p.name
	}
	return names
}

// drained fills an empty database and drains it.
func drained(ctx context.Context, d database, targets int, how drain, before func(*crowd) error) (m measured, err error) {
	c, err := enter(ctx, d)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	if before != nil {
		if err := before(c); err != nil {
			return m, err
		}
	}
	shape := ebb.Job{Policy: plainName}
	if targets > 0 {
		shape = ebb.Job{Policy: aimedName, Target: "host-"}
	}
	how.label = shape.Policy
	if err := c.fill(ctx, how.jobs, targets, shape); err != nil {
		return m, err
	}
	return c.run(ctx, how)
}

// besidePart drains plain work in an empty database, and in one where flow
// control is in use: targets that are held with a backlog in the same queue,
// their gates, a limited queue whose work is due tomorrow. The drain is a long
// one, so that what a worker does once when it starts, such as a look at every
// target for work that was held too long, weighs little.
func besidePart(ctx context.Context, b *bench, d database, swapped bool) (measured, measured, error) {
	how := drain{jobs: b.plan.jobs, slots: slots, policies: []policy.Policy{plain(), aimed()}, handle: nothing}
	inUse := func(c *crowd) error {
		if err := c.client.LimitQueue(ctx, limited, ebb.QueueLimit{Concurrency: 10}); err != nil {
			return err
		}
		for i := range heldTargets {
			if err := c.client.PauseTarget(ctx, hostName("held-", i), time.Now().Add(time.Hour)); err != nil {
				return err
			}
		}
		if err := c.fill(ctx, heldTargets*b.plan.backlog, heldTargets, ebb.Job{Policy: aimedName, Target: "held-"}); err != nil {
			return err
		}
		return c.fill(ctx, b.plan.backlog, 0, ebb.Job{Policy: plainName, Queue: limited, DueAt: time.Now().Add(24 * time.Hour)})
	}
	return inTurn(swapped,
		func() (measured, error) { return drained(ctx, d, 0, how, nil) },
		func() (measured, error) { return drained(ctx, d, 0, how, inUse) })
}

// spread drains the same jobs without and with targets.
func spread(targets int) func(context.Context, *bench, database, bool) (measured, measured, error) {
	return func(ctx context.Context, b *bench, d database, swapped bool) (measured, measured, error) {
		how := drain{jobs: b.plan.jobs, slots: slots, policies: []policy.Policy{plain(), aimed()}, handle: nothing}
		return bothWays(ctx, d, targets, how, swapped)
	}
}

// bothWays does the same drain without targets and with so many.
func bothWays(ctx context.Context, d database, targets int, how drain, swapped bool) (measured, measured, error) {
	return inTurn(swapped,
		func() (measured, error) { return drained(ctx, d, 0, how, nil) },
		func() (measured, error) { return drained(ctx, d, targets, how, nil) })
}

// tenMillis is a load of handlers that take 10 ms.
func (b *bench) tenMillis(atOnce int, handle worker.Handler) drain {
	return drain{jobs: b.plan.slow, slots: atOnce, policies: []policy.Policy{plain(), aimed()}, handle: handle}
}

const pause = 10 * time.Millisecond

// onePart runs one target that allows 40 at once, with 400 slots. Its handlers
// allow 40 ÷ the time that they took.
func onePart(ctx context.Context, b *bench, d database, _ bool) (base, with measured, err error) {
	var spent atomic.Int64
	handle := func(context.Context, *ebb.Task) error {
		began := time.Now()
		time.Sleep(pause)
		spent.Add(int64(time.Since(began)))
		return nil
	}
	with, err = drained(ctx, d, 1, b.tenMillis(10*targetLimit, handle), nil)
	mean := time.Duration(spent.Load()).Seconds() / float64(b.plan.slow)
	return measured{value: targetLimit / mean}, with, err
}

// fortyPart runs 40 at once because there are 40 workers, and because the only
// target allows no more of 400.
func fortyPart(ctx context.Context, b *bench, d database, swapped bool) (measured, measured, error) {
	handle := func(context.Context, *ebb.Task) error { time.Sleep(pause); return nil }
	return inTurn(swapped,
		func() (measured, error) { return drained(ctx, d, 0, b.tenMillis(targetLimit, handle), nil) },
		func() (measured, error) { return drained(ctx, d, 1, b.tenMillis(10*targetLimit, handle), nil) })
}
