package worker

import (
	"context"
	"testing"
	"time"

	"github.com/ebbhq/ebb/dispatch"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
)

// TestSeats: what comes together need not line up where each finds a slot. Where
// some do not, the first may start only if all are alike, and none if anybody
// waits for a slot. Who waits for a permit, which only a turn can bring, holds
// nobody up, until others have had all slots once.
func TestSeats(t *testing.T) {
	const slots, come = 100, 60
	now := time.Now()
	waiter := dispatch.Item{ID: 1, Target: "y", Policy: "default", DueAt: now}
	refused := func(l *loop, _ []job.Job) {
		l.lanes.floor.Add(waiter)
		l.lanes.floor.Next(now, func(dispatch.Item) dispatch.Answer { return dispatch.Answer{} })
	}
	for name, tc := range map[string]struct {
		busy   int // slots that are taken
		change func(l *loop, jobs []job.Job)
		want   int
	}{
		"all find a slot":                {40, nil, 60},
		"all of them, of two priorities": {40, func(_ *loop, jobs []job.Job) { jobs[9].Priority = 1 }, 60},
		"alike":                          {41, nil, 59},
		"none is free":                   {100, nil, 0},
		"of two priorities":              {41, func(_ *loop, jobs []job.Job) { jobs[59].Priority = 1 }, 0},
		"of two kinds":                   {41, func(_ *loop, jobs []job.Job) { jobs[9].Kind = "other" }, 0},
		"of two policies":                {41, func(_ *loop, jobs []job.Job) { jobs[9].Policy = "other" }, 0},
		"with a retry":                   {41, func(_ *loop, jobs []job.Job) { jobs[0].History = retry.History{FirstStartAt: now} }, 0},
		"somebody waits":                 {0, func(l *loop, _ []job.Job) { l.lanes.floor.Add(waiter) }, 0},
		"somebody waits for a permit":    {40, refused, 60},
		"and all slots were had once":    {40, func(l *loop, jobs []job.Job) { refused(l, jobs); l.lanes.passing, l.lanes.passed = true, slots }, 59},
		"on its way out":                 {0, func(l *loop, _ []job.Job) { l.phase = leaving }, 0},
		"plain work waits too":           {0, func(l *loop, _ []job.Job) { l.limits.lanes[0].hungry = true }, 50},
	} {
		t.Run(name, func(t *testing.T) {
			w := idleWorker(t, func(context.Context, *Task) error { return nil })
			w.config.Concurrency = slots
			l := &loop{Worker: w, limits: newLimits(w.policies, w.config.Queues, w.kinds), running: tc.busy}
			for _, lane := range l.limits.lanes {
				lane.hungry = false
			}
			l.lanes = l.newLanes(now)
			jobs := make([]job.Job, come)
			for i := range jobs {
				jobs[i].New = job.New{Kind: "k", Target: "x"}
			}
			if tc.change != nil {
				tc.change(l, jobs)
			}
			if got := min(l.seats(jobs, now), come); got != tc.want {
				t.Errorf("%d of %d may start as they come, want %d", got, come, tc.want)
			}
		})
	}
}
