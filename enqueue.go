package ebb

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// Job is a job to be enqueued. Only Kind is required.
type Job struct {
	// Kind says which handler does it.
	Kind string
	// Args is what the handler gets, as JSON; []byte and json.RawMessage are
	// taken as they are.
	Args any
	// Queue it waits in; "default" if empty.
	Queue string
	// Policy by which it is retried; "default" if empty. A name that no worker
	// knows parks the job.
	Policy string
	// Priority from 0, which goes first, to 9.
	Priority int
	// DueAt is its earliest start; zero = now.
	DueAt time.Time
	// DeadlineAt is its latest start; zero = none.
	DeadlineAt time.Time
	// Unique refuses a second job of the same value while the first is queued,
	// running or parked.
	Unique string
	// Target is whom the work calls: a host, an endpoint.
	Target string
	// Key keeps the order of jobs of the same key.
	Key string
	// Batch names jobs that belong together.
	Batch string
	// Trace is the caller's W3C traceparent.
	Trace string
}

// Enqueued is the answer to one Job.
type Enqueued struct {
	ID string
	// Existing is set where a living job holds the same Unique: ID is that
	// job's, and nothing was added.
	Existing bool
}

// Enqueue adds a job. When it returns, the job is durable.
func (c *Client) Enqueue(ctx context.Context, j Job) (Enqueued, error) {
	answers, err := c.EnqueueMany(ctx, []Job{j})
	if err != nil {
		return Enqueued{}, err
	}
	return answers[0], nil
}

// EnqueueMany adds jobs in one transaction, all or none, and answers in their
// order.
func (c *Client) EnqueueMany(ctx context.Context, jobs []Job) ([]Enqueued, error) {
	list, err := news(jobs)
	if err != nil {
		return nil, err
	}
	answers, err := c.store.Enqueue(ctx, c.now(), list)
	if err != nil {
		return nil, fmt.Errorf("ebb: enqueue: %w", err)
	}
	c.wake()
	return enqueued(answers), nil
}

// EnqueueTx adds jobs inside the caller's own transaction: they exist if and
// only if it commits. On SQLite it is a *sql.Tx of Client.DB; on PostgreSQL a
// pgx.Tx, or a *sql.Tx of pgx's stdlib, on the same database. Any other is
// refused with store.ErrForeignTx and a reason.
func (c *Client) EnqueueTx(ctx context.Context, tx any, jobs ...Job) ([]Enqueued, error) {
	list, err := news(jobs)
	if err != nil {
		return nil, err
	}
	answers, err := c.store.EnqueueTx(ctx, tx, c.now(), list)
	if err != nil {
		return nil, fmt.Errorf("ebb: enqueue: %w", err)
	}
	return enqueued(answers), nil
}

func news(jobs []Job) ([]job.New, error) {
	list := make([]job.New, len(jobs))
	for i, j := range jobs {
		args, err := encode(j.Args)
		if err != nil {
			return nil, fmt.Errorf("ebb: enqueue: %s: args: %w", j.Kind, err)
		}
		list[i] = job.New{
			Kind: j.Kind, Args: args, Queue: j.Queue, Policy: j.Policy, Priority: j.Priority,
			DueAt: j.DueAt, DeadlineAt: j.DeadlineAt, Unique: j.Unique,
			Target: j.Target, Key: j.Key, Batch: j.Batch, Trace: j.Trace,
		}
	}
	return list, nil
}

func encode(args any) ([]byte, error) {
	switch a := args.(type) {
	case nil:
		return nil, nil
	case []byte:
		return a, nil
	case json.RawMessage:
		return a, nil
	}
	return json.Marshal(args)
}

func enqueued(answers []store.Enqueued) []Enqueued {
	size := len(job.FormatID(0))
	var text strings.Builder // one for all ids: thousands are enqueued at once
	text.Grow(size * len(answers))
	for _, a := range answers {
		text.WriteString(job.FormatID(a.Seq))
	}
	ids := text.String()
	list := make([]Enqueued, len(answers))
	for i, a := range answers {
		list[i] = Enqueued{ID: ids[i*size : (i+1)*size], Existing: a.Existing}
	}
	return list
}
