package ebbtest_test

import (
	"context"
	"testing"
	"time"

	"github.com/ebbhq/ebb"
	"github.com/ebbhq/ebb/ebbtest"
	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
)

// Work with a target runs on the clock that stands still: retries at their
// instants, the breaker's probes at theirs, and what is held too long ends.
func TestWorkWithATarget(t *testing.T) {
	p := policy.Base("calls")
	p.Breaker = policy.Breaker{Consecutive: 2, Open: time.Minute, Cap: time.Minute}
	p.MaxHold = 20 * time.Minute
	e := ebbtest.New(t, ebb.WithPolicies(p))
	down := true
	var calls []time.Time
	ebb.Handle(e.Client, "call", func(context.Context, *ebb.Task, struct{}) error {
		calls = append(calls, e.Now())
		if down {
			return failure.New(failure.Server, "", nil)
		}
		return nil
	})
	var ids []string
	for range 5 {
		ids = append(ids, e.Enqueue(ebb.Job{Kind: "call", Target: "crm", Policy: "calls"}))
	}
	e.RunDue()
	if len(calls) != 2 {
		t.Fatalf("%d calls before the breaker opened, want 2", len(calls))
	}
	e.Advance(90 * time.Second)
	if len(calls) != 3 {
		t.Fatalf("%d calls after a minute and a half, want one probe", len(calls)-2)
	}
	if open := calls[2].Sub(calls[1]); open < 54*time.Second || open > 66*time.Second {
		t.Errorf("the probe came %s after the breaker opened, want a minute and up to a tenth", open)
	}
	down = false
	e.Drain()
	for _, id := range ids {
		ebbtest.RequireSettled(t, e.Client, id, job.Succeeded)
	}
	down = true
	held := e.Enqueue(ebb.Job{Kind: "call", Target: "crm", Policy: "calls"})
	for range 3 {
		e.Enqueue(ebb.Job{Kind: "call", Target: "crm", Policy: "calls"})
	}
	e.Advance(3 * time.Hour)
	ebbtest.RequireSettled(t, e.Client, held, job.Failed)
}
