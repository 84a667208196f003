package worker

import (
	"errors"
	"fmt"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/policy"
)

// doom ends a handler's context; if it does not return, it is given up.
func (l *loop) doom(r *run, cause error) {
	if _, already := l.doomed[r]; already {
		return
	}
	r.unwatch()
	r.ctx.end(cause)
	r.killAt = l.now().Add(l.config.Grace)
	if errors.Is(cause, ErrTimeout) && r.policy.Timeout > 0 && r.policy.Lease > 0 {
		r.killAt = r.startedAt.Add(max(r.policy.Lease, r.policy.Timeout))
	}
	l.doomed[r] = cause
}

// giveUp settles a start whose handler does not return. What it returns later
// is refused: here, and by the store for its epoch.
func (l *loop) giveUp(r *run, cause error) {
	if !r.ended.CompareAndSwap(false, true) {
		delete(l.doomed, r) // it returns at this moment
		return
	}
	l.strays++
	now := l.now()
	r.endedAt = now
	err := fmt.Errorf("the handler ran for %s and did not return after its context ended", now.Sub(r.startedAt))
	switch {
	case errors.Is(cause, ErrTimeout):
		r.failed(now, failure.New(failure.Timeout, "stuck", err), "")
	case errors.Is(cause, ErrCancelled):
		r.cancelled(now, err)
	default:
		r.failed(now, failure.New(failure.Interrupted, "stuck", err), "")
	}
	l.observe(r, Event{What: Stuck, Took: now.Sub(r.startedAt), Count: l.strays})
	l.finished(r, now)
}

// softLimit is when a handler's context ends; 0 = never.
func softLimit(p *policy.Policy) time.Duration {
	if p.Timeout > 0 {
		return p.Timeout
	}
	return p.Lease
}
