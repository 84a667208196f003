package worker

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

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
	task Task
	ctx  runContext
	// startedAt is when the loop let the handler begin: what its timeout is
	// counted from.
	startedAt time.Time
	// ended is set by whoever settles the start: the handler's return or, if
	// it does not come, the loop. The other one is late and changes nothing.
	ended atomic.Bool

	// What follows is written by the one who set ended, before the run is
	// handed over to the loop.
	endedAt time.Time
	verdict verdict
	settle  *store.Settle // nil where the start succeeded: see settling

	// What follows belongs to the loop.
	begun  bool // the handler was let begin
	batch  int  // the claim it came with
	link   link
	entry  *entry    // of work that must pass a gate; nil = none
	killAt time.Time // when a handler whose context ended is given up

	beginAt  time.Time // when a kept lease may begin
	holds    bool      // it ended, and its slot is kept until that is saved
	refusals int       // of its begin, in a row
}

// outcome is what came of a handler.
type outcome struct {
	err   error
	stack string // of a panic
}

var errGoexit = errors.New("the handler ended its goroutine without returning")

// call runs the handler and turns a panic into an error with its stack. One
// that was given up before it could begin is left alone.
func (r *run) call(now time.Time, out *outcome) {
	*out = outcome{}
	if r.ended.Load() {
		return
	}
	r.mu.Lock()
	r.beganAt = now
	r.mu.Unlock()
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
	out.err = r.handler(&r.ctx, &r.task)
	returned = true
}

// finish decides what becomes of a start that ended.
func (r *run) finish(now time.Time, cause error, out *outcome) {
	r.endedAt = now
	switch {
	case out.err == nil && !r.hasCompleted():
		r.verdict.to = job.Succeeded
	case out.err == nil:
		// If it was committed, the lease is gone and this is refused.
		r.failed(now, errUncommitted, "")
		r.verdict.completed = true
	case errors.Is(cause, ErrCancelled):
		r.cancelled(now, out.err)
	default:
		r.failed(now, because(cause, out.err, r.worker.config.Classifiers), out.stack)
	}
}

// settling writes the settle of a run that ended. a is where the ledger's row
// of a success may be written.
func (r *run) settling(s *store.Settle, a *job.Attempt) {
	if r.settle != nil {
		*s = *r.settle
		return
	}
	r.succeeded(r.endedAt, s, a)
}

// took is how long the handler of a run that ended was at work; 0 where none
// began.
func (r *run) took() time.Duration {
	if !r.begun {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.endedAt.Sub(r.began())
}
