// Package ebb finishes work that fails, without hammering what is failing.
// It is the library's front door: durable jobs in SQLite, PostgreSQL or
// memory, run by handlers, retried by policy.
//
//	c, err := ebb.Open(ctx, "sqlite:app.db")
//	ebb.Handle(c, "welcome", func(ctx context.Context, t *ebb.Task, to Welcome) error { … })
//	c.Enqueue(ctx, ebb.Job{Kind: "welcome", Args: Welcome{…}})
//	c.Run(ctx)
//
// Every failure takes the same way through the module: package failure says
// what went wrong, package policy what was promised, and package retry
// decides once what happens next, with its reason. docs/architecture.md
// names every package and the question it answers.
package ebb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/worker"
)

// Client enqueues jobs and, once Run, does them. It is safe for concurrent
// use.
type Client struct {
	store  store.Store
	config worker.Config

	mu        sync.Mutex
	handlers  map[string]worker.Handler
	periodics []engine.Periodic // put into the store when Run begins
	worker    *worker.Worker    // while it runs, and after
	stops     int               // calls of Stop before Run
	ended     chan struct{}     // closed when Run has returned
	closed    bool
}

// Open opens the database that the URL names: sqlite:PATH, postgres://… or
// memory:, which forgets everything when the process ends. An empty database
// gets its schema.
func Open(ctx context.Context, url string, options ...Option) (*Client, error) {
	s, err := openStore(ctx, url)
	if err != nil {
		return nil, err
	}
	c, err := New(s, options...)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return c, nil
}

// New is Open over a store that is open already. Close closes it.
func New(s store.Store, options ...Option) (*Client, error) {
	if s == nil {
		return nil, errors.New("ebb: new: no store; Open a URL, or open one of store/sqlite, store/postgres or store/memory")
	}
	c := &Client{store: s, handlers: make(map[string]worker.Handler)}
	for _, o := range options {
		if err := o(&c.config); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// ErrClosed is returned by calls of a client after Close.
var ErrClosed = errors.New("ebb: the client is closed")

// Run does jobs of the kinds that have a handler until ctx ends, then lets
// running handlers finish; see Stop. A client runs once. To only enqueue, do
// not call it.
func (c *Client) Run(ctx context.Context) error {
	w, err := c.start()
	if err != nil {
		return err
	}
	defer close(c.ended)
	if err := c.schedule(ctx); err != nil && ctx.Err() == nil {
		return err
	}
	return w.Run(ctx)
}

func (c *Client) start() (*worker.Worker, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return nil, ErrClosed
	case c.worker != nil:
		return nil, fmt.Errorf("ebb: run: %w", worker.ErrRunning)
	case len(c.handlers) == 0:
		return nil, errors.New("ebb: run: no handlers; Handle a kind first")
	}
	config := c.config
	config.Handlers = maps.Clone(c.handlers)
	w, err := worker.New(c.store, config)
	if err != nil {
		return nil, err
	}
	for range c.stops {
		w.Stop()
	}
	c.worker, c.ended = w, make(chan struct{})
	return w, nil
}

// Stop ends Run in two steps. The first call claims nothing more and lets
// running handlers finish, as the end of Run's context does. A second call,
// or the drain time, ends their contexts: what they do then is an
// interruption, and their jobs run again elsewhere. Stop does not wait; Run
// returns when everything is settled.
func (c *Client) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.worker == nil {
		c.stops++
		return
	}
	c.worker.Stop()
}

// Close stops a running worker, waits for it and closes the database. Closing
// twice is no error.
func (c *Client) Close() error {
	c.mu.Lock()
	closed, w, ended := c.closed, c.worker, c.ended
	c.closed = true
	c.mu.Unlock()
	if closed {
		return nil
	}
	if w != nil {
		select {
		case <-ended:
		default:
			w.Stop()
			<-ended
		}
	}
	return c.store.Close()
}

// Store returns what the client works on, for what it does not offer itself.
func (c *Client) Store() store.Store { return c.store }

// Worker returns the worker that Run made; nil before that.
func (c *Client) Worker() *worker.Worker {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.worker
}

// DB returns a handle on the database for your own tables where Ebb opened it
// for you to share: on SQLite. Transactions that EnqueueTx or Task.Complete
// join must come from it. On PostgreSQL it is nil: use your own pool on the
// same database.
func (c *Client) DB() *sql.DB {
	if shared, ok := c.store.(interface{ DB() *sql.DB }); ok {
		return shared.DB()
	}
	return nil
}

// Job returns what is remembered of a job.
func (c *Client) Job(ctx context.Context, id string) (job.Job, error) {
	seq, err := c.find(id)
	if err != nil {
		return job.Job{}, err
	}
	j, err := c.store.Job(ctx, seq)
	if err != nil {
		return job.Job{}, fmt.Errorf("ebb: job: %s: %w", id, err)
	}
	return j, nil
}

// Cancel ends a job that waits, and tells one that runs to stop through its
// handler's context. It returns the state it left behind: job.Running means
// that the order is on its way.
func (c *Client) Cancel(ctx context.Context, id string) (job.State, error) {
	seq, err := c.find(id)
	if err != nil {
		return "", err
	}
	left, err := c.store.Cancel(ctx, c.now(), actor, seq)
	if err != nil {
		return left, fmt.Errorf("ebb: cancel: %s: %w", id, err)
	}
	return left, nil
}

// Retry queues a failed or parked job again with fresh attempts, or makes one
// that waits due now. If breaker or Retry-After hold its target, that is called
// now, as the probe.
func (c *Client) Retry(ctx context.Context, id string) error {
	seq, err := c.find(id)
	if err != nil {
		return err
	}
	if err := c.store.Retry(ctx, c.now(), actor, seq); err != nil {
		return fmt.Errorf("ebb: retry: %s: %w", id, err)
	}
	j, err := c.store.Job(ctx, seq)
	if err != nil {
		return fmt.Errorf("ebb: retry: %s: %w", id, err)
	}
	if _, err := c.ops().ProbeFor(ctx, j.Target, "retry of job "+id); err != nil {
		return told(err)
	}
	c.wake()
	return nil
}

// usable returns ErrClosed after Close.
func (c *Client) usable() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	return nil
}

// find reads the id of a job of a client that is open.
func (c *Client) find(id string) (int64, error) {
	if err := c.usable(); err != nil {
		return 0, err
	}
	return job.ParseID(id)
}

// now is what store calls take: zero for the store's own clock.
func (c *Client) now() time.Time {
	if c.config.Clock == nil {
		return time.Time{}
	}
	return c.config.Clock.Now()
}

// wake spares a worker in the same process the way through the store.
func (c *Client) wake() {
	if w := c.Worker(); w != nil {
		w.Wake()
	}
}

// Fatal marks err as not worth a retry: the job fails at once, whatever the
// policy says.
func Fatal(err error) error { return failure.Fatal(err) }

// Park marks err as something a person must mend: the job waits, parked, and
// spends no attempt.
func Park(err error) error { return failure.Park(err) }

// Snooze is no failure: the job comes back after d, or at once if d is not
// above 0, and spends no attempt. Nothing but a deadline or the policy's window
// bounds how often.
func Snooze(d time.Duration) error { return failure.Snooze(d) }
