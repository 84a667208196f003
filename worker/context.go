package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ebbhq/ebb/clock"
)

// runContext is the context of one start. Most handlers that end at once never
// wait for it, so the real one, with its channel and its place among the
// children of the loop's, is made when somebody waits for it or ends it.
type runContext struct {
	run    *run
	parent context.Context

	mu     sync.Mutex
	inner  context.Context // nil until it is made
	cancel context.CancelCauseFunc
	over   bool // the handler has returned
}

// made returns the real context. The caller holds mu.
func (c *runContext) made() context.Context {
	if c.inner == nil {
		c.inner, c.cancel = context.WithCancelCause(c.parent)
		if c.over {
			c.cancel(nil)
		}
	}
	return c.inner
}

// Deadline is given where it means the machine's time: that of the timeout.
func (c *runContext) Deadline() (time.Time, bool) {
	w, timeout := c.run.worker, c.run.policy.Timeout
	if _, machine := w.clock.(clock.System); !machine || timeout <= 0 {
		return c.parent.Deadline()
	}
	// The loop counts the timeout in the store's time.
	return c.run.startedAt.Add(timeout - w.offset()), true
}

func (c *runContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.made().Done()
}

// Err is DeadlineExceeded where the timeout ended it.
func (c *runContext) Err() error {
	c.mu.Lock()
	inner, over := c.inner, c.over
	c.mu.Unlock()
	switch {
	case inner == nil && over:
		return context.Canceled
	case inner == nil:
		return c.parent.Err()
	}
	err := inner.Err()
	if err != nil && errors.Is(context.Cause(inner), ErrTimeout) {
		return context.DeadlineExceeded
	}
	return err
}

// Value also answers context.Cause and those who derive from this context:
// they ask for the real one. As long as there is none, what they want to know
// is the parent's.
func (c *runContext) Value(key any) any {
	c.mu.Lock()
	inner := c.inner
	c.mu.Unlock()
	if inner == nil {
		return c.parent.Value(key)
	}
	return inner.Value(key)
}

// end ends the context for a cause; a second cause changes nothing.
func (c *runContext) end(cause error) {
	c.mu.Lock()
	c.made()
	cancel := c.cancel
	c.mu.Unlock()
	cancel(cause)
}

// returned ends the context because its handler is done, and returns for what
// cause it had ended before; nil if it had not.
func (c *runContext) returned() error {
	c.mu.Lock()
	c.over = true
	inner, cancel := c.inner, c.cancel
	c.mu.Unlock()
	if inner == nil {
		return context.Cause(c.parent)
	}
	cause := context.Cause(inner)
	cancel(nil)
	return cause
}
