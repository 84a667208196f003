package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store"
)

// run is one lease and, once it began, one start.
type run struct {
	worker  *Worker
	job     job.Job
	process int64
	policy  *policy.Policy
	pace    *pace // of the policy
	handler Handler

	handlerState
	startedAt time.Time
	cancel    context.CancelCauseFunc
	// ended is set by whoever settles the start: the handler's return or, if
	// it does not come, the loop. The other one is late and changes nothing.
	ended atomic.Bool

	// settle and verdict are written by the one who set ended, before the run
	// is handed over to the loop.
	settle  store.Settle
	verdict verdict

	// What follows belongs to the loop.
	batch  int // the claim it came with
	link   link
	killAt time.Time // when a handler whose context ended is given up
}

// runContext gives the handler the deadline where it means the machine's
// time, and DeadlineExceeded where the timeout ended it.
type runContext struct {
	context.Context
	deadline time.Time
}

func (c runContext) Deadline() (time.Time, bool) {
	if c.deadline.IsZero() {
		return c.Context.Deadline()
	}
	return c.deadline, true
}

func (c runContext) Err() error {
	err := c.Context.Err()
	if err != nil && errors.Is(context.Cause(c.Context), ErrTimeout) {
		return context.DeadlineExceeded
	}
	return err
}

// begin starts the handler on a goroutine of its own.
func (r *run) begin(parent context.Context, now time.Time) {
	r.startedAt = now
	ctx, cancel := context.WithCancelCause(parent)
	r.cancel = cancel
	own := runContext{Context: ctx}
	if _, machine := r.worker.clock.(clock.System); machine && r.policy.Timeout > 0 {
		own.deadline = r.worker.clock.Now().Add(r.policy.Timeout)
	}
	go func() {
		var out outcome
		defer func() { // also when the handler ends its goroutine
			r.concluded(context.Cause(ctx), out)
			cancel(nil)
		}()
		r.call(own, &out) //nolint:contextcheck // own is ctx with the timeout's deadline and error
	}()
}

// concluded takes what the handler left behind, unless it was given up.
func (r *run) concluded(cause error, out outcome) {
	if r.ended.CompareAndSwap(false, true) {
		r.finish(cause, out)
		r.worker.mail.finished(r)
	} else {
		r.worker.mail.post(func(l *loop) { l.strays-- })
	}
}

// outcome is what came of a handler.
type outcome struct {
	err   error
	stack string // of a panic
}

var errGoexit = errors.New("the handler ended its goroutine without returning")

// call runs the handler and turns a panic into an error with its stack.
func (r *run) call(ctx context.Context, out *outcome) {
	returned := false
	defer func() {
		if returned {
			return
		}
		v := recover()
		out.stack = string(debug.Stack())
		switch v := v.(type) {
		case nil:
			out.err = panicked(errGoexit)
		case error:
			out.err = panicked(v)
		default:
			out.err = panicked(fmt.Errorf("%v", v))
		}
	}()
	out.err = r.handler(ctx, &Task{run: r})
	returned = true
}

// finish builds the settle of a start that ended.
func (r *run) finish(cause error, out outcome) {
	now := r.worker.now()
	r.mu.Lock()
	completed := r.completed
	r.mu.Unlock()
	switch {
	case out.err == nil && completed:
		// If it was committed, the lease is gone and this is refused.
		r.failed(now, errUncommitted, "")
		r.verdict.completed = true
	case out.err == nil:
		r.settle = r.succeeded(now)
		r.verdict.to = job.Succeeded
	case errors.Is(cause, ErrCancelled):
		r.cancelled(now, out.err)
	default:
		r.failed(now, because(cause, out.err, r.worker.config.Classifiers), out.stack)
	}
}
