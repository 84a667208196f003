// Package worker answers "who does it?": it claims jobs from a store, starts
// their handlers, classifies what comes of it, asks retry.Decide and settles.
// It beats for its process, takes over from processes that died, and drains
// when it is told to stop.
//
// One goroutine, the loop, owns all state. Handlers run on goroutines of
// their own and decide on their own outcomes; turns, the round trips to the store,
// run beside it. DESIGN.md tells how they play together.
package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

var (
	// ErrRunning is returned by Run of a worker that runs or has run.
	ErrRunning = errors.New("worker: it can be run once only; make a new one")
	// ErrUnsaved is returned by Run where the store could not be reached
	// before the process had to stop: the jobs are started again elsewhere.
	ErrUnsaved = errors.New("worker: stopped before all results were saved")
)

// Worker runs jobs. Make one with New.
type Worker struct {
	store       store.Store
	config      Config
	policies    map[string]*policy.Policy
	kinds       []string
	fingerprint string
	clock       clock.Clock // policy time
	storeClock  bool        // due times are by the store's own clock
	mail        *mailbox
	self        identity               // of this process
	sight       func(pid int) sighting // what the kernel says about a pid

	begun   atomic.Bool
	stops   atomic.Int32
	process atomic.Int64              // of this process in the store; 0 = not registered
	skew    atomic.Int64              // the store's clock minus ours, in nanoseconds
	beatAt  atomic.Pointer[time.Time] // machine time of the last beat that the store took, when it was sent
	beatNow chan struct{}             // a beat is wanted at once
}

// New returns a worker that does not run yet. It refuses a config that cannot
// work and policies that must not.
func New(s store.Store, c Config) (*Worker, error) {
	c.fill()
	if err := c.validate(); err != nil {
		return nil, err
	}
	w := &Worker{store: s, config: c, clock: c.Clock, mail: newMailbox(), beatNow: make(chan struct{}, 1)}
	w.self, w.sight = ownIdentity(), sight
	if c.Clock == nil {
		w.clock, w.storeClock = clock.System{}, true
	}
	var err error
	if w.policies, err = c.seal(w.clock.Now()); err != nil {
		return nil, err
	}
	w.kinds = slices.Sorted(maps.Keys(c.Handlers))
	w.fingerprint = fingerprint(c.Settings, w.policies)
	return w, nil
}

// Run works until ctx ends or Stop is called, then drains: nothing more is
// claimed and running handlers may finish. Config.Drain later, or at a
// further Stop, their contexts end. Run returns nil when everything is
// settled; ErrUnsaved when the store could not be reached for that.
func (w *Worker) Run(ctx context.Context) error {
	if !w.begun.CompareAndSwap(false, true) {
		return ErrRunning
	}
	if ctx.Err() != nil || w.stops.Load() > 0 {
		return nil
	}
	// Results must reach the store after ctx ended.
	calls, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	if err := w.register(calls); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { w.mail.post(func(l *loop) { l.drain() }) })()

	side, stop := context.WithCancel(calls)
	defer stop()
	var group sync.WaitGroup
	for _, f := range []func(context.Context){w.beat, w.watch, w.listen} {
		group.Go(func() { f(side) })
	}
	l := newLoop(calls, side, w)
	err := l.run()     //nolint:contextcheck // results are saved after ctx ended
	l.end(ErrStopping) // handlers that were given up
	l.crew.close()
	stop()
	if err != nil {
		cancel() // the store is away: nothing more to wait for
	}
	l.group.Wait()
	group.Wait()
	process := w.process.Swap(0)
	if err == nil && process != 0 {
		call, done := w.call(calls)
		defer done()
		err = w.store.Leave(call, process)
	}
	w.tell(Event{What: Stopped, Process: process, Err: err})
	return err
}

// Stop is the two-step stop: the first call drains, as the end of Run's
// context does; a further one ends the contexts of running handlers. It does
// not wait: Run returns when all is done.
func (w *Worker) Stop() {
	w.stops.Add(1)
	w.mail.post(func(l *loop) { l.stop() })
}

// Wake says that work was enqueued. Stores wake workers themselves; this is
// for the process that enqueues and runs in one.
func (w *Worker) Wake() { w.mail.wake() }

// Quiet claims all that is due and waits until nothing runs, nothing is left
// to settle and nothing more can start before the clock moves. Then the
// policy clock's earliest timer is the next instant at which this worker acts.
// It is made for tests on a fake clock.
func (w *Worker) Quiet(ctx context.Context) error {
	quiet := make(chan struct{})
	w.mail.post(func(l *loop) {
		l.wake()
		l.quiets = append(l.quiets, quiet)
	})
	select {
	case <-quiet:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Policy returns the policy of that name as this worker applies it; nil if it
// does not know it.
func (w *Worker) Policy(name string) *policy.Policy { return w.policies[name] }

// Process returns this process's id in the store; 0 while it has none.
func (w *Worker) Process() int64 { return w.process.Load() }

// now is policy time as the store tells it.
func (w *Worker) now() time.Time { return w.clock.Now().Add(w.offset()) }

// offset is how far the store's clock is ahead of ours.
func (w *Worker) offset() time.Duration { return time.Duration(w.skew.Load()) }

// storeNow is what calls of the store take as now: zero where it is to use
// its own clock.
func (w *Worker) storeNow() time.Time {
	if w.storeClock {
		return time.Time{}
	}
	return w.clock.Now()
}

func (w *Worker) machine() time.Time { return w.config.Machine.Now() }

// callTimeout bounds one call of the store: a connection that hangs longer is
// as good as none.
const callTimeout = 30 * time.Second

func (w *Worker) call(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, callTimeout)
}

// register makes this process known to the store.
func (w *Worker) register(ctx context.Context) error {
	ctx, cancel := w.call(ctx)
	defer cancel()
	if err := w.compareClocks(ctx); err != nil {
		return fmt.Errorf("worker: register: %w", err)
	}
	sent := w.machine()
	own := store.Process{
		Host: w.config.Host, PID: os.Getpid(), Kinds: w.kinds, Queues: w.config.Queues,
		Config: w.fingerprint, Version: w.config.Version,
	}
	if !w.config.Detached {
		own.Identity = w.self.text()
	}
	p, err := w.store.Register(ctx, w.storeNow(), own)
	if err != nil {
		return fmt.Errorf("worker: register: %w", err)
	}
	w.beatAt.Store(&sent)
	w.process.Store(p.ID)
	w.tell(Event{What: Registered, Process: p.ID})
	return nil
}

// compareClocks learns how far the store's clock is from ours, from the quickest
// of a few answers: it is known as well as half the time that took. The first may
// take long, because it opens a connection.
func (w *Worker) compareClocks(ctx context.Context) error {
	if !w.storeClock {
		return nil
	}
	const samples = 5
	var quickest time.Duration
	for i := range samples {
		before := w.clock.Now()
		theirs, err := w.store.Now(ctx)
		if err != nil {
			return err
		}
		took := w.clock.Now().Sub(before)
		if i == 0 || took < quickest {
			quickest = took
			w.skew.Store(int64(theirs.Sub(before.Add(took / 2))))
		}
		if quickest <= clockError {
			break
		}
	}
	return nil
}

// away is how a worker waits for its own store: the same schedule and the
// same verdict as for everybody else.
var away = policy.Policy{
	Backoff: policy.Backoff{
		Base: 100 * time.Millisecond, Factor: 2, Cap: 5 * time.Second,
		Jitter: policy.Jitter{Kind: policy.JitterEqual},
	},
}

// delay returns how long to wait after the nth failed call in a row.
func (w *Worker) delay(n int) time.Duration {
	h := retry.History{Starts: n, Attempts: n - 1}
	draw := retry.Derive(w.config.Seed, uint64(w.process.Load()), n)
	return retry.Decide(&away, h, failure.Of(failure.Unavailable), w.now(), draw).Delay
}

// pause waits on machine time; false if ctx ended first.
func (w *Worker) pause(ctx context.Context, d time.Duration) bool {
	return clock.Sleep(ctx, w.config.Machine, d) == nil
}
