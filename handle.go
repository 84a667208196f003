package ebb

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/worker"
)

// Task is one start of a job, as its handler sees it: which try it is, and
// Progress, Checkpoint, SetResult and Complete.
type Task = worker.Task

// The causes for which a handler's context ends: see worker.Handler.
var (
	ErrTimeout   = worker.ErrTimeout
	ErrCancelled = worker.ErrCancelled
	ErrStopping  = worker.ErrStopping
	ErrLeaseLost = worker.ErrLeaseLost
)

// Handle names who does jobs of a kind. Their args are read as JSON into T;
// what cannot be read fails at once. fn returns nil when the work is done;
// Fatal, Park, Snooze, or any error to be judged by the job's policy. It may
// run more than once for a job: when the process dies before the result is
// saved, somebody starts it again.
//
// Handle panics on an empty kind, on a second handler for one, and after Run.
func Handle[T any](c *Client, kind string, fn func(ctx context.Context, t *Task, args T) error) {
	if fn == nil {
		c.HandleRaw(kind, nil) // which says what is missing
	}
	c.HandleRaw(kind, func(ctx context.Context, t *Task) error {
		var args T
		if raw := t.Args(); len(raw) > 0 {
			if err := json.Unmarshal(raw, &args); err != nil {
				return failure.New(failure.InvalidInput, "args", err)
			}
		}
		return fn(ctx, t, args)
	})
}

// HandleRaw is Handle for args that are not JSON: see Task.Args.
func (c *Client) HandleRaw(kind string, fn worker.Handler) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case kind == "" || fn == nil:
		panic(fmt.Sprintf("ebb: handle: %q: needs a kind and a function", kind))
	case c.handlers[kind] != nil:
		panic(fmt.Sprintf("ebb: handle: %q: has a handler already", kind))
	case c.worker != nil:
		panic(fmt.Sprintf("ebb: handle: %q: must be called before Run", kind))
	}
	c.handlers[kind] = fn
}
