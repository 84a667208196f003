package queue

import (
	"context"
	"encoding/json"
	"time"

	"github.com/ebbhq/ebb"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store"
)

// Ebb is used through its front door, as a program would.
type Ebb struct {
	// Scheme is put before a database's name to make it a URL.
	Scheme string

	client *ebb.Client
	probe  *probe // nil on SQLite
}

const ebbPolicy = "bench"

// ebbSlots is how many handlers run at once where the load does not say: they
// are goroutines, and a claim takes half of the slots.
const ebbSlots = 4 * AllWorkers

// noDelay is the policy of the load: a retry follows at once. The contract
// forbids that for real work, so the rule is waived.
func noDelay() policy.Policy {
	p := policy.Base(ebbPolicy)
	p.Target = policy.Process
	p.Concurrency, p.Batch = ebbSlots, ebbSlots
	p.Timeout = time.Minute
	p.Backoff = policy.Backoff{Base: time.Microsecond, Factor: 1}
	p.Waivers = []policy.Waiver{{Rule: "floor", Reason: "measures the queue, calls nobody", Expires: time.Now().AddDate(0, 0, 1)}}
	return p
}

// ebbLeft follows the index of claims, where running jobs stand as well.
const ebbLeft = `SELECT EXISTS (SELECT FROM ebb_job
	WHERE queue_number = (SELECT number FROM ebb_queue WHERE name = 'default') AND priority = 0 AND due_at <= now()
	  AND lane IS NULL AND blocked IS NULL)`

// Setup opens the database; an empty one is migrated.
func (e *Ebb) Setup(ctx context.Context, dsn string) (err error) {
	if e.client, err = ebb.Open(ctx, e.Scheme+dsn); err != nil {
		return err
	}
	if e.Scheme == "" {
		e.probe, err = newProbe(ctx, dsn, ebbLeft)
	}
	return err
}

// Insert enqueues a batch.
func (e *Ebb) Insert(ctx context.Context, jobs []Job) error {
	batch := make([]ebb.Job, len(jobs))
	for i, j := range jobs {
		batch[i] = ebb.Job{Kind: "noop", Policy: ebbPolicy, Args: json.RawMessage(j.Args), DueAt: j.Due}
	}
	_, err := e.client.EnqueueMany(ctx, batch)
	return err
}

// Work runs a client over the same store.
func (e *Ebb) Work(ctx context.Context, workers int, handle Handler) (func() error, error) {
	if workers == AllWorkers {
		workers = ebbSlots
	}
	runner, err := ebb.New(e.client.Store(), ebb.WithPolicies(noDelay()), ebb.WithConcurrency(workers))
	if err != nil {
		return nil, err
	}
	runner.HandleRaw("noop", func(ctx context.Context, t *ebb.Task) error { return handle(ctx, t.Args()) })
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(ctx) }()
	return func() error { runner.Stop(); return <-ended }, nil
}

// Left looks for a job that is due or leased.
func (e *Ebb) Left(ctx context.Context) (bool, error) {
	if e.probe != nil {
		return e.probe.left(ctx)
	}
	leased, err := e.client.Store().List(ctx, store.Filter{State: job.Running}, store.Page{Limit: 1})
	if err != nil || len(leased) > 0 {
		return true, err
	}
	due, err := e.client.Store().NextDue(ctx, []string{job.DefaultQueue}, []string{"noop"})
	return !due.IsZero() && !due.After(time.Now()), err
}

// Close closes the database.
func (e *Ebb) Close() {
	if e.probe != nil {
		e.probe.close()
	}
	must(e.client.Close())
}
