package ebbtest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ebbhq/ebb"
	"github.com/ebbhq/ebb/ebbtest"
	"github.com/ebbhq/ebb/job"
)

// A test of a handler that fails twice: both delays pass at once, and the
// follow-up job is there.
func Example() {
	_ = func(t *testing.T) {
		e := ebbtest.New(t)
		ebb.Handle(e.Client, "charge", func(ctx context.Context, task *ebb.Task, order int) error {
			if task.Attempt() < 3 {
				return errors.New("bank unreachable")
			}
			_, err := e.Client.Enqueue(ctx, ebb.Job{Kind: "ship", Args: order})
			return err
		})
		id := e.Enqueue(ebb.Job{Kind: "charge", Args: 7})

		e.RunDue() // the first try, now
		ebbtest.RequireNotSettled(t, e.Client, id)
		ebbtest.RequireNotEnqueued(t, e.Client, ebb.Job{Kind: "ship"})

		e.Drain() // 30 s and 2 min later, in no time
		ebbtest.RequireSettled(t, e.Client, id, job.Succeeded)
		ebbtest.RequireEnqueued(t, e.Client, ebb.Job{Kind: "ship", Args: 7})
	}
	// Output:
}

func TestExample(t *testing.T) {
	e := ebbtest.New(t)
	ebb.Handle(e.Client, "charge", func(ctx context.Context, task *ebb.Task, order int) error {
		if task.Attempt() < 3 {
			return errors.New("bank unreachable")
		}
		_, err := e.Client.Enqueue(ctx, ebb.Job{Kind: "ship", Args: order})
		return err
	})
	id := e.Enqueue(ebb.Job{Kind: "charge", Args: 7})
	e.RunDue()
	ebbtest.RequireNotSettled(t, e.Client, id)
	ebbtest.RequireNotEnqueued(t, e.Client, ebb.Job{Kind: "ship"})
	if passed := e.Drain(); passed < 120*time.Second || passed > 180*time.Second {
		t.Errorf("%s passed, want 30 s and 2 min ±20 %%", passed)
	}
	ebbtest.RequireSettled(t, e.Client, id, job.Succeeded)
	ebbtest.RequireEnqueued(t, e.Client, ebb.Job{Kind: "ship", Args: 7})
}
