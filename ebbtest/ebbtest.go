// Package ebbtest runs jobs in tests: an engine on a clock that stands still
// until it is told to move, so that 30, 120 and 480 seconds pass in
// milliseconds, and checks with messages that say what happened instead.
//
//	e := ebbtest.New(t)
//	ebb.Handle(e.Client, "welcome", …)
//	id := e.Enqueue(ebb.Job{Kind: "welcome"})
//	e.Drain()
//	ebbtest.RequireSettled(t, e.Client, id, job.Succeeded)
package ebbtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ebbhq/ebb"
	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/memory"
	"github.com/ebbhq/ebb/worker"
)

// Epoch is where the clock of an Engine starts.
var Epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Seed is what the delays of an Engine derive from: the same test has the
// same jitter every time.
const Seed = 1

// patience is how long handlers may take in real time before a test fails
// instead of hanging.
const patience = 10 * time.Second

// Engine is a client whose jobs run when the test says so, one at a time
// unless WithConcurrency says otherwise, on a fake clock and in memory.
type Engine struct {
	// Client is where handlers are named and jobs are enqueued.
	Client *ebb.Client
	// Clock stands still but for Step, Advance and Drain.
	Clock *clock.Fake

	t       testing.TB
	store   store.Store
	running bool
	ready   chan struct{} // receives when the worker takes part
	ended   chan error
	observe func(worker.Event) // tells who watched before
}

// New returns an engine that ends with the test. Options come after its own.
func New(t testing.TB, options ...ebb.Option) *Engine {
	t.Helper()
	e := &Engine{t: t, Clock: clock.NewFake(Epoch), ready: make(chan struct{}, 1), ended: make(chan error, 1)}
	e.store = memory.New(memory.Config{Clock: e.Clock})
	own := []ebb.Option{
		ebb.WithClock(e.Clock), ebb.WithConcurrency(1),
		ebb.WithWorker(func(c *worker.Config) { c.Seed, c.Turns = Seed, 1 }),
	}
	client, err := ebb.New(e.store, append(append(own, options...), ebb.WithWorker(e.watch))...)
	if err != nil {
		t.Fatalf("ebbtest: %v", err)
	}
	e.Client = client
	t.Cleanup(e.end)
	return e
}

// watch learns when the worker takes part, and tells whoever watched before.
func (e *Engine) watch(c *worker.Config) {
	others := c.Observe
	e.observe = func(event worker.Event) {
		if others != nil {
			others(event)
		}
	}
	c.Observe = func(event worker.Event) {
		if event.What == worker.Registered {
			select {
			case e.ready <- struct{}{}:
			default:
			}
		}
		e.observe(event)
	}
}

// Enqueue adds a job and returns its id.
func (e *Engine) Enqueue(j ebb.Job) string {
	e.t.Helper()
	answer, err := e.Client.Enqueue(e.t.Context(), j)
	if err != nil {
		e.t.Fatalf("ebbtest: %v", err)
	}
	return answer.ID
}

// Now returns where the clock stands.
func (e *Engine) Now() time.Time { return e.Clock.Now() }

// RunDue runs everything that is due now, and what that enqueues for now,
// until nothing is. The clock stands still.
func (e *Engine) RunDue() {
	e.t.Helper()
	e.start()
	ctx, cancel := context.WithTimeout(e.t.Context(), patience)
	defer cancel()
	for more := true; more; {
		done, err := e.store.Maintain(ctx, store.Maintenance{Now: e.Now(), Limit: 1000})
		if err != nil {
			e.t.Fatalf("ebbtest: %v", err)
		}
		more = done.More
		for _, event := range worker.ExpiredEvents(done.Expired) {
			event.At = e.Now()
			e.observe(event)
		}
	}
	if err := e.Client.Worker().Quiet(ctx); err != nil {
		e.t.Fatalf("ebbtest: handlers still run after %s of real time: %s\nA handler that waits for the clock waits for ever: let it return ebb.Snooze, or move the clock from another goroutine.",
			patience, e.runningJobs())
	}
}

// Step runs everything due, then moves the clock to the next instant at which
// anything happens and runs what is due there. It returns false, and moves
// nothing, if nothing is left to happen.
func (e *Engine) Step() bool {
	e.t.Helper()
	e.RunDue()
	next, ok := e.Clock.Next()
	if !ok {
		return false
	}
	e.Clock.Advance(next.Sub(e.Now()))
	e.RunDue()
	return true
}

// Advance moves the clock by d. What becomes due on the way runs at its own
// instant, not at the end.
func (e *Engine) Advance(d time.Duration) {
	e.t.Helper()
	e.RunDue()
	end := e.Now().Add(d)
	for {
		next, ok := e.Clock.Next()
		if !ok || next.After(end) {
			break
		}
		e.Clock.Advance(next.Sub(e.Now()))
		e.RunDue()
	}
	e.Clock.Advance(end.Sub(e.Now()))
	e.RunDue()
}

// maxSteps is when Drain gives up on work that never ends.
const maxSteps = 5_000

// Drain steps until nothing is left to happen: every job has succeeded,
// failed, is parked, cancelled, or waits for something else than time. It
// returns how much time has passed. With a schedule something is always left:
// use Advance.
func (e *Engine) Drain() time.Duration {
	e.t.Helper()
	began := e.Now()
	for range maxSteps {
		if !e.Step() {
			return e.Now().Sub(began)
		}
	}
	e.t.Fatalf("ebbtest: work goes on after %d steps and %s; a job that always comes back, or a schedule, never drains: use Advance", maxSteps, e.Now().Sub(began))
	return 0
}

// start runs the client, once.
func (e *Engine) start() {
	e.t.Helper()
	if e.running {
		return
	}
	e.running = true
	go func() { e.ended <- e.Client.Run(context.Background()) }()
	select {
	case <-e.ready:
	case err := <-e.ended:
		e.ended <- err
		if err == nil {
			err = errors.New("the client was stopped")
		}
		e.t.Fatalf("ebbtest: %v", err)
	}
}

// end stops what still runs and closes the store.
func (e *Engine) end() {
	if e.running {
		e.Client.Stop()
		e.Client.Stop()
		<-e.ended
	}
	if err := e.Client.Close(); err != nil {
		e.t.Errorf("ebbtest: %v", err)
	}
}

func (e *Engine) runningJobs() string {
	jobs, err := e.store.List(context.WithoutCancel(e.t.Context()), store.Filter{State: job.Running}, store.Page{Limit: 10})
	if err != nil || len(jobs) == 0 {
		return "none of them holds a lease any more"
	}
	var names []string
	for i := range jobs {
		names = append(names, fmt.Sprintf("%s (%s)", jobs[i].ID(), jobs[i].Kind))
	}
	return strings.Join(names, ", ")
}
