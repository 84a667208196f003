package ebb_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ebbhq/ebb"
	"github.com/ebbhq/ebb/job"
)

// Lists of jobs are used again by later batches: none takes anything from
// another, also where many enqueue at once and the lists differ in length.
func TestBatchesShareNothing(t *testing.T) {
	due := time.Now().Add(time.Hour).Truncate(time.Second)
	full := func(who string, n int) ebb.Job {
		return ebb.Job{
			Kind: "full-" + who, Args: []byte(fmt.Sprintf(`"%s %d"`, who, n)), Queue: "q-" + who, Policy: "p-" + who, Priority: 3,
			DueAt: due, DeadlineAt: due.Add(time.Hour), Target: "t-" + who, Key: fmt.Sprint("k-", who, n), KeyRule: ebb.KeyPark,
			Unique: fmt.Sprint("u-", who, n), Batch: "b-" + who, Trace: "r-" + who,
		}
	}
	databases(t, func(t *testing.T, open func(...ebb.Option) *ebb.Client) {
		c := open()
		var all sync.WaitGroup
		for worker := range 4 {
			all.Go(func() {
				for round := range 6 {
					who := fmt.Sprintf("%d-%d", worker, round)
					list := make([]ebb.Job, 3+worker+(round+worker)%3)
					for n := range list {
						list[n] = ebb.Job{Kind: "plain", Args: n}
						if round%2 == 0 {
							list[n] = full(who, n)
						}
					}
					added, err := c.EnqueueMany(t.Context(), list)
					if err != nil {
						t.Error(err)
						return
					}
					for n, a := range added {
						check(t, c, a.ID, &list[n], n)
					}
				}
			})
		}
		all.Wait()
	})
}

// check compares a stored job, the nth of its batch, with what was enqueued.
func check(t *testing.T, c *ebb.Client, id string, want *ebb.Job, n int) {
	t.Helper()
	got, err := c.Job(t.Context(), id)
	if err != nil {
		t.Error(err)
		return
	}
	args, queue, policy, due := fmt.Sprint(n), job.DefaultQueue, "default", got.EnqueuedAt
	if want.Kind != "plain" {
		args, queue, policy, due = string(want.Args.([]byte)), want.Queue, want.Policy, want.DueAt //nolint:forcetypeassert // full gives bytes
	}
	if !got.DueAt.Equal(due) || got.KeyRule != want.KeyRule || (got.Unique == "") != (want.Unique == "") {
		t.Errorf("enqueued %+v, stored %+v, due at %s", want, got, got.DueAt)
	}
	if got.Kind != want.Kind || string(got.Args) != args || got.Queue != queue || got.Policy != policy || got.Priority != want.Priority ||
		!got.DeadlineAt.Equal(want.DeadlineAt) || got.Target != want.Target || got.Key != want.Key || got.Batch != want.Batch || got.Trace != want.Trace {
		t.Errorf("enqueued %+v, stored %+v", want, got)
	}
}
