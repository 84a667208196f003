package ebbtest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebbhq/ebb"
	"github.com/ebbhq/ebb/ebbtest"
	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
)

const crm = "https://crm.test"

// down is how a target fails that is out of order.
func down() error {
	f := failure.Of(failure.Server)
	f.Status, f.Err = 503, errors.New("out of order")
	return &failure.Error{Failure: f}
}

// The breaker opens after ten failures in a row; the eleventh job waits, spends
// nothing, and is the probe when the breaker's time has passed.
func TestBreakerHoldsOnTheFakeClock(t *testing.T) {
	e := ebbtest.New(t)
	broken, starts := true, 0
	ebb.Handle(e.Client, "hook", func(context.Context, *ebb.Task, int) error {
		if starts++; broken {
			return down()
		}
		return nil
	})
	var ids []string
	for n := range 11 {
		ids = append(ids, e.Enqueue(ebb.Job{Kind: "hook", Args: n, Target: crm, Policy: "webhook"}))
	}
	e.RunDue()
	if starts != 10 {
		t.Fatalf("%d calls started, want 10: then the breaker opens", starts)
	}
	if last := ebbtest.RequireNotSettled(t, e.Client, ids[10]); last.History.Starts != 0 || last.State != job.Queued {
		t.Errorf("the eleventh: %s, %d starts; want it queued, unstarted", last.State, last.History.Starts)
	}
	broken = false
	opened := e.Now()
	for starts == 10 && e.Step() {
	}
	if waited := e.Now().Sub(opened); waited < 27*time.Second || waited > 33*time.Second {
		t.Errorf("the probe started after %s, want 30s ± 10 %%", waited)
	}
	ebbtest.RequireSettled(t, e.Client, ids[10], job.Succeeded)
	e.Drain()
	for _, id := range ids {
		ebbtest.RequireSettled(t, e.Client, id, job.Succeeded)
	}
}

// A target that was mended is called when the program says so, and not only when
// the breaker's time is over.
func TestProbedAndClosedByHandOnTheFakeClock(t *testing.T) {
	for name, order := range map[string]func(c *ebb.Client, id string) error{
		"probe":  func(c *ebb.Client, _ string) error { return c.ProbeTarget(t.Context(), crm) },
		"close":  func(c *ebb.Client, _ string) error { return c.CloseTarget(t.Context(), crm) },
		"resume": func(c *ebb.Client, _ string) error { return c.ResumeTarget(t.Context(), crm) },
		"retry":  func(c *ebb.Client, id string) error { return c.Retry(t.Context(), id) },
	} {
		t.Run(name, func(t *testing.T) {
			e := ebbtest.New(t)
			starts, broken := 0, true
			ebb.Handle(e.Client, "hook", func(context.Context, *ebb.Task, int) error {
				if starts++; broken {
					return down()
				}
				return nil
			})
			var ids []string
			for n := range 12 {
				ids = append(ids, e.Enqueue(ebb.Job{Kind: "hook", Args: n, Target: crm, Policy: "webhook"}))
			}
			e.RunDue()
			opened, before := e.Now(), starts
			broken = false
			if err := order(e.Client, ids[11]); err != nil {
				t.Fatal(err)
			}
			e.RunDue()
			if starts == before || !e.Now().Equal(opened) {
				t.Errorf("%d calls after the order and %s, want some at once", starts-before, e.Now().Sub(opened))
			}
			ebbtest.RequireSettled(t, e.Client, ids[11], job.Succeeded)
		})
	}
}

// A pause with an end is over by itself; without one it needs an order.
func TestPausedTargetOnTheFakeClock(t *testing.T) {
	e := ebbtest.New(t)
	var at []time.Duration
	ebb.Handle(e.Client, "hook", func(context.Context, *ebb.Task, int) error {
		at = append(at, e.Now().Sub(ebbtest.Epoch))
		return nil
	})
	if err := e.Client.PauseTarget(t.Context(), crm, e.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	e.Enqueue(ebb.Job{Kind: "hook", Target: crm})
	e.Advance(2 * time.Hour)
	if err := e.Client.PauseTarget(t.Context(), crm, time.Time{}); err != nil {
		t.Fatal(err)
	}
	last := e.Enqueue(ebb.Job{Kind: "hook", Target: crm})
	e.Advance(24 * time.Hour)
	ebbtest.RequireNotSettled(t, e.Client, last)
	if err := e.Client.ResumeTarget(t.Context(), crm); err != nil {
		t.Fatal(err)
	}
	e.RunDue()
	if want := []time.Duration{time.Hour, 26 * time.Hour}; !slices.Equal(at, want) {
		t.Errorf("called at %v, want %v", at, want)
	}
}

// Jobs of a key wait for the retry of the one before them.
func TestKeyWaitsForTheRetry(t *testing.T) {
	e := ebbtest.New(t)
	var ran []string
	ebb.Handle(e.Client, "apply", func(_ context.Context, task *ebb.Task, event string) error {
		ran = append(ran, fmt.Sprintf("%s %d", event, task.Attempt()))
		if event == "created" && task.Attempt() == 1 {
			return errors.New("down")
		}
		return nil
	})
	for _, event := range []string{"created", "paid"} {
		e.Enqueue(ebb.Job{Kind: "apply", Args: event, Key: "order-7"})
	}
	e.Drain()
	if want := []string{"created 1", "created 2", "paid 1"}; !slices.Equal(ran, want) {
		t.Errorf("ran %v, want %v", ran, want)
	}
}

// A limited queue starts its jobs at its rate, to the instant.
func TestQueueRateOnTheFakeClock(t *testing.T) {
	e := ebbtest.New(t, ebb.WithConcurrency(10))
	var at []time.Duration
	ebb.Handle(e.Client, "mail", func(context.Context, *ebb.Task, int) error {
		at = append(at, e.Now().Sub(ebbtest.Epoch))
		return nil
	})
	if err := e.Client.LimitQueue(t.Context(), "default", ebb.QueueLimit{Rate: 0.1}); err != nil {
		t.Fatal(err)
	}
	for n := range 4 {
		e.Enqueue(ebb.Job{Kind: "mail", Args: n})
	}
	e.Drain()
	if want := []time.Duration{0, 10 * time.Second, 20 * time.Second, 30 * time.Second}; !slices.Equal(at, want) {
		t.Errorf("started at %v, want %v", at, want)
	}
}

// A schedule fires at its times.
func TestScheduleOnTheFakeClock(t *testing.T) {
	e := ebbtest.New(t)
	var at []time.Duration
	ebb.Handle(e.Client, "report", func(context.Context, *ebb.Task, struct{}) error {
		at = append(at, e.Now().Sub(ebbtest.Epoch))
		return nil
	})
	if err := e.Client.Every(ebb.Periodic{Name: "report", Cron: "30 */6 * * *", Job: ebb.Job{Kind: "report"}}); err != nil {
		t.Fatal(err)
	}
	e.Advance(13 * time.Hour)
	want := []time.Duration{30 * time.Minute, 6*time.Hour + 30*time.Minute, 12*time.Hour + 30*time.Minute}
	if !slices.Equal(at, want) {
		t.Errorf("ran at %v, want %v", at, want)
	}
}

// What was enqueued is found by its key, and by its unique key with its scope.
func TestRequireEnqueuedKnowsKeys(t *testing.T) {
	e := ebbtest.New(t)
	wish := ebb.Job{Kind: "sync", Target: crm, Key: "k", KeyRule: ebb.KeySkip, Unique: "u", UniqueScope: ebb.UniqueInKind}
	e.Enqueue(wish)
	ebbtest.RequireEnqueued(t, e.Client, wish)
	wish.UniqueScope, wish.KeyRule = ebb.UniqueInQueue, ebb.KeyPark
	got := message(t, func(tb testing.TB) { ebbtest.RequireEnqueued(tb, e.Client, wish) })
	if want := "unique kind sync: u, key rule skip"; !strings.Contains(got, want) {
		t.Errorf("message\n%s\nlacks %q", got, want)
	}
}
