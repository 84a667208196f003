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

// A target that never comes back: all its jobs end within the schedule's
// length, max_hold and the timeouts, and nothing is left.
func TestDeadTargetIsGivenUp(t *testing.T) {
	for _, end := range []struct {
		policy.HoldEnd
		state job.State
		cause job.Cause
	}{{policy.HoldFail, job.Failed, retry.CauseExpired}, {policy.HoldPark, job.Parked, retry.CauseTargetDown}} {
		t.Run(string(end.HoldEnd), func(t *testing.T) {
			p := policy.MustPreset("webhook")
			p.OnHoldEnd = end.HoldEnd
			e := ebbtest.New(t, ebb.WithPolicies(p))
			ebb.Handle(e.Client, "hook", func(context.Context, *ebb.Task, int) error { return down() })
			var ids []string
			for n := range 30 {
				ids = append(ids, e.Enqueue(ebb.Job{Kind: "hook", Args: n, Target: crm, Policy: "webhook"}))
			}
			e.Advance(p.Span().Most + p.MaxHold + time.Duration(p.Attempts)*p.Timeout)
			held := 0
			for _, id := range ids {
				j, err := e.Client.Job(t.Context(), id)
				switch {
				case err != nil:
					t.Error(err)
				case j.State == end.state && j.Cause == end.cause:
					held++
				case j.State != job.Failed || j.Cause != retry.CauseExhausted:
					t.Errorf("%s: %s (%s)", id, j.State, j.Cause)
				}
			}
			if held == 0 {
				t.Error("no job was given up for being held too long")
			}
		})
	}
}
