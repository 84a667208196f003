package postgres

import (
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
)

var copyColumns = []string{
	"seq", "due_at", "enqueued_at", "deadline_at", "priority", "queue", "kind", "policy", "target", "key", "batch", "trace", "args",
}

// copySource gives jobs to COPY, one a row.
type copySource struct {
	jobs []job.New
	seqs []int64
	now  time.Time
	next int
	row  [13]any
}

func (c *copySource) Next() bool {
	c.next++
	return c.next <= len(c.jobs)
}

func (c *copySource) Values() ([]any, error) {
	i := c.next - 1
	n := &c.jobs[i]
	due := any(n.DueAt)
	if n.DueAt.IsZero() {
		due = c.now
	}
	deadline := any(nil)
	if !n.DeadlineAt.IsZero() {
		deadline = n.DeadlineAt
	}
	chosen := n.Policy
	if chosen == policy.DefaultName {
		chosen = ""
	}
	args := any(nil)
	if n.Args != nil {
		args = n.Args
	}
	c.row = [13]any{
		c.seqs[i], due, c.now, deadline, int16(n.Priority), n.Queue, n.Kind, orNull(chosen), orNull(n.Target), orNull(n.Key),
		orNull(n.Batch), orNull(n.Trace), args,
	}
	return c.row[:], nil
}

func (c *copySource) Err() error { return nil }

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}
