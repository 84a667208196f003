package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/worker"
)

// LeasesConfig is how jobs are handed to workers of any language.
type LeasesConfig struct {
	// Policies, Lease, Settings, Version, Clock and Observe are those of the
	// server's own worker.Config.
	Policies []policy.Policy
	Lease    time.Duration
	Settings string
	Version  string
	Clock    clock.Clock
	Observe  func(worker.Event)
	// Silence is how long a remote worker may be silent before its start
	// counts as crashed. Default 30 s.
	Silence time.Duration
	Log     *slog.Logger
}

// Leases hands jobs to workers of any language. Each claim is a worker of
// this process with as many slots as were asked for, whose handlers wait for
// the remote one to settle: leases, timeouts, gates, policies and cancel
// orders are the worker's own. It claims while somebody waits and drains from
// then on.
//
// A lease lives in the process that gave it: heartbeats and settles must go to
// the same server.
type Leases struct {
	store  store.Store
	config LeasesConfig
	group  sync.WaitGroup

	enforced atomic.Bool // a claim was made: lint let the policies pass

	mu      sync.Mutex
	stopped bool
	workers map[*worker.Worker]bool
	held    map[string]*held // by job id
}

// NewLeases returns a source of leases over the store. Stop it before the
// store is closed.
func NewLeases(s store.Store, c LeasesConfig) *Leases {
	if c.Silence <= 0 {
		c.Silence = 30 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return &Leases{store: s, config: c, workers: map[*worker.Worker]bool{}, held: map[string]*held{}}
}

// Stop ends all leases, free of charge, and waits until the store knows.
func (l *Leases) Stop() {
	l.mu.Lock()
	l.stopped = true
	for w := range l.workers {
		w.Stop()
		w.Stop() // handlers wait for others: nothing to drain
	}
	l.mu.Unlock()
	l.group.Wait()
}

// held is one lease that a remote worker has, or is about to get.
type held struct {
	job     job.Job
	task    *worker.Task
	outcome chan error // what its handler returns

	mu     sync.Mutex
	beatAt time.Time
	told   bool // it was settled

	saved chan LeaseAnswer // what the store made of it
}

func (h *held) beat(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.beatAt = now
}

// quietFor is how long nothing was heard of it.
func (h *held) quietFor(now time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return now.Sub(h.beatAt)
}

// tell gives the outcome; false if it was given before.
func (h *held) tell(err error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.told {
		return false
	}
	h.told = true
	h.outcome <- err
	return true
}

// poll is one claim that waits.
type poll struct {
	leases *Leases
	limit  int
	first  chan struct{} // closed when a lease arrived
	full   chan struct{} // closed when all have

	mu     sync.Mutex
	closed bool
	got    []*held
}

// errUnclaimed sends a job back whose claim has gone.
var errUnclaimed = failure.Snooze(0)

// run is the handler of a claim's worker: it waits for the remote one.
func (p *poll) run(ctx context.Context, t *worker.Task) error {
	l := p.leases
	h := &held{job: t.Job(), task: t, outcome: make(chan error, 1), saved: make(chan LeaseAnswer, 1), beatAt: time.Now()}
	if !p.offer(h) {
		return errUnclaimed
	}
	silence := time.NewTimer(l.config.Silence)
	defer silence.Stop()
	for {
		select {
		case err := <-h.outcome:
			return err
		case <-ctx.Done():
			if cause := context.Cause(ctx); errors.Is(cause, worker.ErrLeaseLost) {
				l.end(h, stale(h.ref(), cause)) // no settle will be heard of
			}
			return context.Cause(ctx)
		case now := <-silence.C:
			quiet := h.quietFor(now)
			if quiet >= l.config.Silence {
				return failure.New(failure.Crash, "silent", fmt.Errorf("nothing was heard of the remote worker for %s", l.config.Silence))
			}
			silence.Reset(l.config.Silence - quiet)
		}
	}
}

// offer gives a lease to the claim; false if that has gone.
func (p *poll) offer(h *held) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.leases.keep(h)
	p.got = append(p.got, h)
	if len(p.got) == 1 {
		close(p.first)
	}
	if len(p.got) == p.limit {
		close(p.full)
	}
	return true
}

func (p *poll) close() []*held {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	return p.got
}

func (l *Leases) keep(h *held) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[h.job.ID()] = h
}

// end forgets a lease and answers who waits for it.
func (l *Leases) end(h *held, a LeaseAnswer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[h.job.ID()] == h {
		delete(l.held, h.job.ID())
		h.saved <- a
	}
}

// find returns the lease; nil if it is over.
func (l *Leases) find(ref LeaseRef) *held {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.held[ref.ID]; h != nil && h.job.Epoch == ref.Epoch {
		return h
	}
	return nil
}

// gather is how long a claim that has got a job waits for more.
const gather = 10 * time.Millisecond

// claim waits for work and returns what came.
func (l *Leases) claim(ctx context.Context, c Claim) (Claimed, error) {
	p := &poll{leases: l, limit: c.Limit, first: make(chan struct{}), full: make(chan struct{})}
	w, err := l.start(ctx, c, p)
	if err != nil {
		return Claimed{}, err
	}
	wait, cancel := context.WithTimeout(ctx, time.Duration(c.Wait*float64(time.Second)))
	defer cancel()
	select {
	case <-p.first:
		select {
		case <-p.full:
		case <-time.After(gather):
		case <-wait.Done():
		}
	case <-wait.Done():
	}
	got := p.close()
	w.Stop() // claims nothing more; what it gave runs on
	out := Claimed{Leases: []Lease{}, Silence: l.config.Silence.Seconds()}
	for _, h := range got {
		if ctx.Err() != nil {
			h.tell(errUnclaimed)
			continue
		}
		out.Leases = append(out.Leases, leaseOf(h, w))
	}
	return out, ctx.Err()
}

// drain is for ever: each remote start has its own limits.
const drain = 10 * 365 * 24 * time.Hour

// start runs a worker of the claim's.
func (l *Leases) start(ctx context.Context, c Claim, p *poll) (*worker.Worker, error) {
	handlers := map[string]worker.Handler{}
	for _, kind := range c.Kinds {
		handlers[kind] = p.run
	}
	w, err := worker.New(l.store, worker.Config{
		Handlers: handlers, Queues: c.Queues, Policies: l.config.Policies, Enforced: l.enforced.Load(), Concurrency: c.Limit, Turns: 1,
		Lease: l.config.Lease, Drain: drain, Settings: l.config.Settings, Version: l.config.Version, Host: c.Worker,
		Clock: l.config.Clock, Observe: l.observe,
		Detached: true, // the remote worker outlives this process, and hears of its end with its next heartbeat
	})
	if err != nil {
		return nil, problem(422, "invalid", "name each kind and queue once", "lease: %v", err)
	}
	l.enforced.Store(true)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return nil, problem(503, "stopping", "the same again in a moment", "the server is stopping")
	}
	l.workers[w] = true
	l.group.Go(func() {
		if err := w.Run(context.WithoutCancel(ctx)); err != nil {
			l.config.Log.Error("leases", "error", err)
		}
		for _, h := range p.close() {
			l.end(h, stale(h.ref(), errors.New("the server lost it")))
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.workers, w)
	})
	return w, nil
}

// observe hears what the store made of a settle.
func (l *Leases) observe(e worker.Event) {
	if e.What == worker.Settled || e.What == worker.Refused {
		if h := l.find(LeaseRef{e.Job.ID(), e.Job.Epoch}); h != nil {
			a := LeaseAnswer{LeaseRef: h.ref(), OK: true, State: e.To, Delay: e.Decision.Delay.Seconds(), Cause: e.Decision.Cause}
			if e.What == worker.Refused {
				a = stale(h.ref(), errors.New("it was given to another"))
			}
			l.end(h, a)
		}
	}
	if l.config.Observe != nil {
		l.config.Observe(e)
	}
}

func (h *held) ref() LeaseRef { return LeaseRef{h.job.ID(), h.job.Epoch} }

func leaseOf(h *held, w *worker.Worker) Lease {
	j := &h.job
	out := Lease{
		ID: j.ID(), Epoch: j.Epoch, Kind: j.Kind, Queue: j.Queue, Target: j.Target, Start: h.task.Start(), Attempt: h.task.Attempt(), Trace: j.Trace,
	}
	if p := w.Policy(j.Policy); p != nil {
		out.Timeout = p.Timeout.Seconds()
	}
	out.Args, out.ArgsBase64 = payload(j.Args)
	out.Progress, out.ProgressBase64 = payload(j.Progress)
	return out
}

// payload splits bytes into JSON and others.
func payload(b []byte) (raw json.RawMessage, other []byte) {
	switch {
	case len(b) == 0:
		return nil, nil
	case json.Valid(b) && utf8.Valid(b):
		return b, nil
	}
	return nil, b
}
