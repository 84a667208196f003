package queue

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/worker"
)

// Ebb is a worker over one of its stores, as the root package runs it.
type Ebb struct {
	Open  func(ctx context.Context, dsn string) (store.Store, error)
	store store.Store
}

const ebbPolicy = "bench"

// noDelay is the policy of the load: a retry follows at once. The contract
// forbids that for real work, so the rule is waived.
func noDelay() policy.Policy {
	p := policy.Base(ebbPolicy)
	p.Target = policy.Process
	p.Concurrency, p.Batch = AllWorkers*ebbPrefetch, AllWorkers*ebbPrefetch
	p.Timeout = time.Minute
	p.Backoff = policy.Backoff{Base: time.Microsecond, Factor: 1}
	p.Waivers = []policy.Waiver{{Rule: "floor", Reason: "measures the queue, calls nobody", Expires: time.Now().AddDate(0, 0, 1)}}
	return p
}

// ebbPrefetch: handlers are goroutines, so more of them than AllWorkers cost
// little where jobs are short.
const ebbPrefetch = 4

// Setup opens the store; an empty database is migrated.
func (e *Ebb) Setup(ctx context.Context, dsn string) (err error) {
	e.store, err = e.Open(ctx, dsn)
	return err
}

// Insert enqueues a batch.
func (e *Ebb) Insert(ctx context.Context, jobs []Job) error {
	batch := make([]job.New, len(jobs))
	for i, j := range jobs {
		batch[i] = job.New{Kind: "noop", Queue: job.DefaultQueue, Policy: ebbPolicy, Args: j.Args, DueAt: j.Due}
	}
	_, err := e.store.Enqueue(ctx, time.Time{}, batch)
	return err
}

// Work runs a worker.
func (e *Ebb) Work(ctx context.Context, workers int, handle Handler) (func() error, error) {
	if workers == AllWorkers {
		workers *= ebbPrefetch
	}
	w, err := worker.New(e.store, worker.Config{
		Handlers:    map[string]worker.Handler{"noop": func(ctx context.Context, t *worker.Task) error { return handle(ctx, t.Args()) }},
		Policies:    []policy.Policy{noDelay()},
		Concurrency: workers,
		Observe: func(e worker.Event) {
			if e.What == worker.Erred {
				fmt.Fprintln(os.Stderr, "ebb:", e.Text, e.Err)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	return func() error { w.Stop(); return <-ended }, nil
}

// Left looks at the least due time of a job that is queued, and for leases.
func (e *Ebb) Left(ctx context.Context) (bool, error) {
	for _, state := range []job.State{job.Running, job.Queued} {
		jobs, err := e.store.List(ctx, store.Filter{State: state}, store.Page{Limit: 1})
		if err != nil {
			return false, err
		}
		if len(jobs) > 0 && !jobs[0].DueAt.After(time.Now()) {
			return true, nil
		}
	}
	return false, nil
}

// Close closes the store.
func (e *Ebb) Close() {
	if err := e.store.Close(); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "ebb: close:", err)
	}
}
