package ebb

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// Job is a job to be enqueued. Only Kind is required.
type Job struct {
	// Kind says which handler does it.
	Kind string
	// Args is what the handler gets, as JSON; []byte and json.RawMessage are
	// taken as they are. At most MaxArgs bytes.
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
	// DeadlineAt is its latest start, not before DueAt; zero = none.
	DeadlineAt time.Time
	// Target is whom the work calls: a host, an endpoint. What the policy says
	// of a target (breaker, Retry-After, limits, retry budget) then holds the
	// job back, over all processes, and spends no attempt.
	Target string
	// Key makes jobs of the same key and queue run one at a time, in the order
	// of their enqueue; one that waits for its retry holds up the others.
	// KeyRule says what a failed one does to those behind it.
	Key     string
	KeyRule KeyRule
	// Unique is a key that only one living job (queued, running or parked) of
	// the scope may have. UniqueFor keeps it taken for so long after the
	// enqueue, though the job has ended. OnConflict says what an enqueue does
	// whose key is taken.
	Unique      string
	UniqueScope UniqueScope
	UniqueFor   time.Duration
	OnConflict  Conflict
	// Batch names jobs that belong together.
	Batch string
	// Trace is the caller's W3C traceparent.
	Trace string
}

// MaxArgs is the most that a job's arguments may take, in bytes: every start
// reads them. What is larger belongs elsewhere, and where it is into the
// arguments.
const MaxArgs = 16 << 20

// Enqueued is the answer to one Job.
type Enqueued struct {
	ID string
	// Existing is set where another job holds the same Unique: ID is that
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
	list, err := c.news(jobs)
	if err != nil {
		return nil, err
	}
	answers, err := c.store.Enqueue(ctx, c.now(), list.jobs)
	if err != nil {
		return nil, fmt.Errorf("ebb: enqueue: %w", err)
	}
	list.free()
	c.wake()
	return enqueued(answers), nil
}

// EnqueueTx adds jobs inside the caller's own transaction: they exist if and
// only if it commits. On SQLite it is a *sql.Tx of Client.DB; on PostgreSQL a
// pgx.Tx, or a *sql.Tx of pgx's stdlib, on the same database. Any other is
// refused with store.ErrForeignTx and a reason.
func (c *Client) EnqueueTx(ctx context.Context, tx any, jobs ...Job) ([]Enqueued, error) {
	list, err := c.news(jobs)
	if err != nil {
		return nil, err
	}
	answers, err := c.store.EnqueueTx(ctx, tx, c.now(), list.jobs)
	if err != nil {
		return nil, fmt.Errorf("ebb: enqueue: %w", err)
	}
	list.free()
	return enqueued(answers), nil
}

// listed is what is to be enqueued. Lists are used again: one of thousands of
// jobs takes more than a megabyte, and to clear and collect that anew for each
// batch was most of the client's part of it. One that nobody uses any more goes,
// with what it refers to, by the second garbage collection.
type listed struct {
	jobs []job.New
	used int // places that refer to something
}

var lists = sync.Pool{New: func() any { return new(listed) }}

// maxListed is how many jobs a list that is kept may have room for.
const maxListed = 10_000

// newList returns a list of n places, which may hold what others left there.
func newList(n int) *listed {
	l := lists.Get().(*listed) //nolint:forcetypeassert // nothing else is put
	l.jobs = slices.Grow(l.jobs[:0], n)[:n]
	if n < l.used {
		clear(l.jobs[n:l.used])
	}
	l.used = n
	return l
}

// free gives the list back. Only one that was enqueued may be: after a failure
// a connection that was cut off may still be reading it.
func (l *listed) free() {
	if cap(l.jobs) <= maxListed {
		lists.Put(l)
	}
}

// news makes what is to be enqueued, of a client that is open.
func (c *Client) news(jobs []Job) (*listed, error) {
	if err := c.usable(); err != nil {
		return nil, err
	}
	list := newList(len(jobs))
	for i := range jobs {
		j := &jobs[i]
		args, err := encode(j.Args)
		if err != nil {
			return nil, fmt.Errorf("ebb: enqueue: %s: args: %w", j.Kind, err)
		}
		if !j.DueAt.IsZero() && !j.DeadlineAt.IsZero() && j.DeadlineAt.Before(j.DueAt) {
			return nil, fmt.Errorf("ebb: enqueue: %s: its deadline %s is before it is due, %s: it could never start",
				j.Kind, j.DeadlineAt.Format(time.RFC3339), j.DueAt.Format(time.RFC3339))
		}
		j.put(&list.jobs[i], args)
	}
	return list, nil
}

// put writes every field of n.
func (j *Job) put(n *job.New, args []byte) {
	n.Kind, n.Args, n.Queue, n.Policy, n.Priority = j.Kind, args, j.Queue, j.Policy, j.Priority
	n.DueAt, n.DeadlineAt = j.DueAt, j.DeadlineAt
	n.Target, n.Key, n.KeyRule = j.Target, j.Key, j.KeyRule
	n.Unique, n.UniqueScope, n.UniqueFor, n.Conflict = j.Unique, j.UniqueScope, j.UniqueFor, j.OnConflict
	n.Batch, n.Trace = j.Batch, j.Trace
}

func encode(args any) (text []byte, err error) {
	switch a := args.(type) {
	case nil:
		return nil, nil
	case []byte:
		text = a
	case json.RawMessage:
		text = a
	default:
		if text, err = json.Marshal(args); err != nil {
			return nil, err
		}
	}
	if len(text) > MaxArgs {
		return nil, fmt.Errorf("have %d bytes, at most %d; keep what is large elsewhere and give where it is", len(text), MaxArgs)
	}
	return text, nil
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
