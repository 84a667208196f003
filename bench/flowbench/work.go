package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/ebbhq/ebb"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/worker"
)

const (
	kind      = "noop"
	plainName = "plain"
	aimedName = "aimed"
	limited   = "limited" // a queue
	slots     = 4000      // handlers at once
	batch     = 5000      // jobs of an enqueue
	// targetLimit times 100 targets are all slots: no limit binds, and only
	// its cost is seen.
	targetLimit = 40
)

// plain is the policy of work that calls nobody.
func plain() policy.Policy {
	p := policy.Base(plainName)
	p.Target = policy.Process
	p.Concurrency, p.Batch = slots, slots
	p.Timeout = time.Minute
	return p
}

// aimed is the policy of work with a target: breaker and budget as in the
// default, and 40 starts of a target at once.
func aimed() policy.Policy {
	p := policy.Base(aimedName)
	p.Concurrency, p.Batch = slots, slots
	p.Timeout = time.Minute
	p.PerTarget.Concurrency = targetLimit
	return p
}

// counted is a store that tells how many jobs are durably settled, so that
// nobody has to ask the database while it works.
type counted struct {
	store.Store
	settled atomic.Int64
	want    int64
	all     chan struct{} // closed when want are settled
}

// Turn counts what was settled.
func (c *counted) Turn(ctx context.Context, t store.Turn) (store.Turned, error) {
	answer, err := c.Store.Turn(ctx, t)
	if err != nil {
		return answer, err
	}
	n := int64(0)
	for _, ok := range answer.Settled {
		if ok {
			n++
		}
	}
	if now := c.settled.Add(n); n > 0 && now >= c.want && now-n < c.want {
		close(c.all)
	}
	return answer, nil
}

// crowd is a database in use.
type crowd struct {
	client *ebb.Client
	db     database
}

// enter opens an empty database.
func enter(ctx context.Context, d database) (*crowd, error) {
	dsn, err := d.fresh(ctx)
	if err != nil {
		return nil, err
	}
	client, err := ebb.Open(ctx, d.scheme()+dsn)
	return &crowd{client, d}, err
}

func (c *crowd) close() error { return c.client.Close() }

// fill enqueues n jobs, in turns over so many targets; 0 = plain ones.
func (c *crowd) fill(ctx context.Context, n, targets int, shape ebb.Job) error {
	shape.Kind = kind
	jobs := make([]ebb.Job, 0, batch)
	for i := range n {
		j := shape
		j.Args = map[string]int{"n": i}
		if targets > 0 {
			j.Target = hostName(j.Target, i%targets)
		}
		if jobs = append(jobs, j); len(jobs) == batch || i == n-1 {
			if _, err := c.client.EnqueueMany(ctx, jobs); err != nil {
				return err
			}
			jobs = jobs[:0]
		}
	}
	return nil
}

func hostName(prefix string, i int) string { return prefix + strconv.Itoa(i) + ".example.com" }

// measured is what one side of a comparison gave.
type measured struct {
	value float64 // jobs a second, or milliseconds
	cpu   float64 // µs of processor time a job, the database's included; 0 = not measured
}

// drain is how one is done.
type drain struct {
	jobs     int
	slots    int
	policies []policy.Policy
	handle   worker.Handler
	label    string // plain or aimed
}

// run works until so many jobs are durably settled. Stopping is not timed.
func (c *crowd) run(ctx context.Context, d drain) (m measured, err error) {
	if err := c.db.ready(ctx); err != nil {
		return m, err
	}
	s := &counted{Store: c.client.Store(), want: int64(d.jobs), all: make(chan struct{})}
	runner, err := ebb.New(s, ebb.WithPolicies(d.policies...), ebb.WithConcurrency(d.slots), ebb.WithQueues("default", limited))
	if err != nil {
		return m, err
	}
	runner.HandleRaw(kind, d.handle)
	runtime.GC()
	before, err := c.db.cpu()
	if err != nil {
		return m, err
	}
	ended := make(chan error, 1)
	began := time.Now()
	pprof.Do(ctx, pprof.Labels("drain", d.label), func(ctx context.Context) { // in a profile: -tagfocus
		go func() { ended <- runner.Run(ctx) }()
	})
	select {
	case <-s.all:
	case err := <-ended:
		return m, fmt.Errorf("the worker ended early: %w", err)
	case <-time.After(2 * time.Minute):
		return m, fmt.Errorf("only %d of %d jobs were settled within 2 minutes", s.settled.Load(), d.jobs)
	}
	took := time.Since(began)
	after, err := c.db.cpu()
	if err != nil {
		return m, err
	}
	runner.Stop()
	return measured{value: float64(d.jobs) / took.Seconds(), cpu: (after - before) * 1e6 / float64(d.jobs)}, <-ended
}

// nothing is a handler.
func nothing(context.Context, *ebb.Task) error { return nil }

// inTurn runs two measurements, the second one first if it is asked for.
func inTurn(swapped bool, base, with func() (measured, error)) (b, w measured, err error) {
	order := []func() error{
		func() (err error) { b, err = base(); return err },
		func() (err error) { w, err = with(); return err },
	}
	if swapped {
		slices.Reverse(order)
	}
	for _, f := range order {
		if err := f(); err != nil {
			return b, w, err
		}
	}
	return b, w, nil
}
