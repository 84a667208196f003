package ebbtest_test

import (
	"context"
	"testing"
	"time"

	"github.com/ebbhq/ebb"
	"github.com/ebbhq/ebb/ebbtest"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
)

// A target that is down for long: its jobs are parked with their attempts
// unspent, nothing fails before it had all of them, and when the target is well
// the parked ones are done.
func TestDeadTargetLosesNothing(t *testing.T) {
	p := policy.MustPreset("webhook")
	e := ebbtest.New(t, ebb.WithPolicies(p))
	well := false
	ebb.Handle(e.Client, "hook", func(context.Context, *ebb.Task, int) error {
		if well {
			return nil
		}
		return down()
	})
	var ids []string
	for n := range 30 {
		ids = append(ids, e.Enqueue(ebb.Job{Kind: "hook", Args: n, Target: crm, Policy: "webhook"}))
	}
	count := func() map[job.State]int {
		states := map[job.State]int{}
		for _, id := range ids {
			j, err := e.Client.Job(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			states[j.State]++
			switch j.State {
			case job.Failed:
				if j.Cause != retry.CauseExhausted || j.History.Attempts != p.Attempts {
					t.Errorf("%s failed (%s) after %d of %d attempts", id, j.Cause, j.History.Attempts, p.Attempts)
				}
			case job.Parked:
				if j.Cause != retry.CauseTargetDown || j.History.Attempts >= p.Attempts {
					t.Errorf("%s is parked (%s) after %d attempts", id, j.Cause, j.History.Attempts)
				}
			}
		}
		return states
	}
	e.Advance(p.Span().Most + p.MaxHold)
	if states := count(); states[job.Parked] == 0 {
		t.Errorf("%v; want some that are parked", states)
	}
	well = true
	e.Advance(30 * time.Minute)
	if states := count(); states[job.Succeeded]+states[job.Failed] != len(ids) || states[job.Succeeded] == 0 {
		t.Errorf("%v half an hour after the target is well, want all of them done", states)
	}
}
