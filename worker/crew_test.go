package worker

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
)

// TestNobodyWaitsBehindASlowHandler: all of a claim begin although none of
// them ends, whatever those between them do.
func TestNobodyWaitsBehindASlowHandler(t *testing.T) {
	for name, between := range map[string]func(){
		"all are slow":            nil,
		"quick ones between them": func() {},
		"panics between them":     func() { panic("quick") },
		"ends of their goroutine": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const n = 500
				var slow, quick atomic.Int32
				open := make(chan struct{})
				r := newRig(t, newStore(), Config{
					Concurrency: n, Policies: []policy.Policy{wide("wide", nil)},
					Handlers: map[string]Handler{"k": func(_ context.Context, task *Task) error {
						if between != nil && task.Job().Seq%3 != 0 {
							quick.Add(1)
							between()
							return nil
						}
						slow.Add(1)
						<-open
						return nil
					}},
				})
				r.enqueue(times(n, job.New{Kind: "k", Policy: "wide"})...)
				pass(time.Second)
				if got := slow.Load() + quick.Load(); got != n {
					t.Errorf("%d began, want all %d", got, n)
				}
				close(open)
				pass(time.Second)
				if got := len(r.seen(Settled)); got != n {
					t.Errorf("%d settled, want all %d", got, n)
				}
			})
		})
	}
}

// TestCrewGoesHome: of many hands a few stay, they are used again, and all
// are gone after close; the bubble would not end otherwise.
func TestCrewGoesHome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := make(chan struct{})
		w := idleWorker(t, func(context.Context, *Task) error { <-open; return nil })
		c := newCrew(w.mail)
		for range 3 * maxParked {
			c.start([]*run{w.startOf(t.Context())})
		}
		synctest.Wait()
		if c.parked != 0 || len(c.waiting) != 0 {
			t.Errorf("%d parked, %d waiting; want all at work", c.parked, len(c.waiting))
		}
		close(open)
		synctest.Wait()
		if runs, _ := w.mail.take(nil, nil); len(runs) != 3*maxParked || c.parked != maxParked {
			t.Errorf("%d ended, %d parked; want %d and %d", len(runs), c.parked, 3*maxParked, maxParked)
		}
		c.start([]*run{w.startOf(t.Context()), w.startOf(t.Context())})
		synctest.Wait()
		if runs, _ := w.mail.take(nil, nil); len(runs) != 2 || c.parked != maxParked {
			t.Errorf("%d ended, %d parked; want 2 and %d: the parked ones do it", len(runs), c.parked, maxParked)
		}
		c.close()
	})
}

// TestGivenUpBeforeItBegan: a start that the loop has settled by the time a
// hand comes for it is not begun.
func TestGivenUpBeforeItBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := idleWorker(t, func(context.Context, *Task) error { t.Error("it began"); return nil })
		c := newCrew(w.mail)
		r := w.startOf(t.Context())
		r.ended.Store(true)
		c.start([]*run{r})
		synctest.Wait()
		runs, posts := w.mail.take(nil, nil)
		l := &loop{strays: 1}
		for _, f := range posts {
			f(l)
		}
		if len(runs) != 0 || l.strays != 0 {
			t.Errorf("%d results, %d strays; want none", len(runs), l.strays)
		}
		c.close()
	})
}

// idleWorker has one handler and does not run.
func idleWorker(t *testing.T, h Handler) *Worker {
	t.Helper()
	w, err := New(newStore(), Config{Handlers: map[string]Handler{"k": h}})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// startOf makes a run as the loop does.
func (w *Worker) startOf(parent context.Context) *run {
	l := &loop{Worker: w, runs: parent, limits: newLimits(w.policies, w.config.Queues, w.kinds)}
	j := job.Job{Seq: 1, New: job.New{Kind: "k"}, Epoch: 1, Begun: true}
	r := l.newRun(&j, l.routeOf(&j))
	r.begun, r.startedAt = true, w.now()
	return r
}

// TestClaimDoesNotWaitForResults: while the results of a large claim gather,
// the other half of the slots is claimed for.
func TestClaimDoesNotWaitForResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 4 * gatherFrom
		var began atomic.Int32
		open := make(chan struct{})
		s := newStore()
		enqueue(t, s, times(n, job.New{Kind: "k"})...)
		start := time.Now()
		r := newRig(t, s, Config{
			Concurrency: n, Turns: 2, Policies: []policy.Policy{wide(policy.DefaultName, nil)},
			Handlers: map[string]Handler{"k": func(context.Context, *Task) error { began.Add(1); <-open; return nil }},
		})
		synctest.Wait()
		if got, after := began.Load(), time.Since(start); got != n || after != 0 {
			t.Errorf("%d began after %s, want all %d at once", got, after, n)
		}
		close(open)
		pass(time.Second)
		if got := len(r.seen(Settled)); got != n {
			t.Errorf("%d settled, want all %d", got, n)
		}
	})
}
