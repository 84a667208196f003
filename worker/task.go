package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// Handler does one start of a job. nil means done. Any other error is
// classified and decided on by the job's policy; failure.Fatal, Park and
// Snooze override it.
//
// The context ends at the policy's timeout, when the job is cancelled, when
// the process is told to stop and will not wait longer, and when it was taken
// for dead; context.Cause tells which. A handler may run more than once for a
// job: when its result did not reach the store, somebody will start it again.
// Its goroutine is its own while it runs and another start's after that, so
// what it does to it (a locked thread, a profiler's labels) it must undo.
type Handler func(ctx context.Context, t *Task) error

var (
	// ErrTimeout is the cause of a context that ended at the policy's timeout.
	// It is a context.DeadlineExceeded.
	ErrTimeout = fmt.Errorf("worker: the attempt's time is up: %w", context.DeadlineExceeded)
	// ErrCancelled is the cause where somebody cancelled the job.
	ErrCancelled = errors.New("worker: the job was cancelled")
	// ErrStopping is the cause where the process will not wait longer.
	ErrStopping = errors.New("worker: the process is stopping")
	// ErrLeaseLost is the cause where the process was taken for dead, and the
	// error of a Task whose lease is another's by now. What the handler does
	// from here on, somebody else does as well.
	ErrLeaseLost = errors.New("worker: the lease was lost")
)

// Task is one start of a job, as its handler sees it.
type Task struct {
	run *run
}

// Job returns what is remembered of the job, as it was when it was claimed.
// Progress is what an earlier start reported last.
func (t *Task) Job() job.Job { return t.run.job }

// Args returns the job's arguments.
func (t *Task) Args() []byte { return t.run.job.Args }

// Start numbers this start: 1 and up over the job's whole life.
func (t *Task) Start() int { return t.run.job.History.Starts + 1 }

// Attempt numbers this try of the policy's budget: 1 and up. Free starts and
// snoozes before it are not counted.
func (t *Task) Attempt() int { return t.run.job.History.Attempts + 1 }

// Progress stores a report for people and for the next start, and says that
// the work is getting on: crashes and free starts are counted anew, and
// attempts too where the policy refills them. Each call is a write.
func (t *Task) Progress(ctx context.Context, report []byte) error {
	return t.run.progress(ctx, report)
}

// Checkpoint says that the work is getting on, as Progress does, and keeps
// the report as it is.
func (t *Task) Checkpoint(ctx context.Context) error {
	return t.run.progress(ctx, t.run.reportedLast())
}

// SetResult gives the bytes that are kept with the job if this start
// succeeds.
func (t *Task) SetResult(result []byte) {
	t.run.mu.Lock()
	defer t.run.mu.Unlock()
	if !t.run.ended.Load() { // what is saved stays what it was
		t.run.result = result
	}
}

// Complete makes the job succeed inside the caller's own transaction, so that
// the handler's writes and the completion become durable together: *sql.Tx
// or pgx.Tx, as the store says. Commit soon after and return nil; a handler
// that returns nil without a commit has failed, and is retried by policy.
func (t *Task) Complete(ctx context.Context, tx any) error {
	r := t.run
	if r.ended.Load() {
		return ErrLeaseLost
	}
	var s store.Settle
	r.succeeded(r.worker.now(), &s, new(job.Attempt))
	ok, err := r.worker.store.SettleTx(ctx, tx, r.worker.storeNow(), r.process, s)
	switch {
	case err != nil:
		return fmt.Errorf("worker: complete: %s: %w", r.job.ID(), err)
	case !ok:
		return ErrLeaseLost
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.completed = true
	return nil
}

// handlerState is what changes while a handler runs, perhaps on goroutines of
// its own.
type handlerState struct {
	mu         sync.Mutex
	reported   sync.Mutex // one report at a time, in their order
	beganAt    time.Time
	progressed *progressed // nil until it reports
	result     []byte
	completed  bool // in the handler's own transaction
}

// progressed is what a start has reported.
type progressed struct {
	history retry.History // before this start is counted
	report  []byte
}

func (r *run) reportedLast() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.progressed == nil {
		return r.job.Progress
	}
	return r.progressed.report
}

func (r *run) hasCompleted() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.completed
}

func (r *run) progress(ctx context.Context, report []byte) error {
	r.reported.Lock()
	defer r.reported.Unlock()
	if r.ended.Load() {
		return ErrLeaseLost
	}
	r.mu.Lock()
	h := r.uncounted().Progressed(r.policy)
	r.mu.Unlock()
	// The store keeps the history without this start: if the process dies, the
	// reaper counts it.
	ok, err := r.worker.store.Progress(ctx, r.process, r.ref(), report, h)
	switch {
	case err != nil:
		return fmt.Errorf("worker: progress: %s: %w", r.job.ID(), err)
	case !ok:
		return ErrLeaseLost
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended.Load() { // what is saved stays what it was
		r.progressed = &progressed{h, report}
	}
	return nil
}

// uncounted returns the history without this start. The caller holds mu.
func (r *run) uncounted() retry.History {
	if r.progressed == nil {
		return r.job.History
	}
	return r.progressed.history
}

// counted returns the history with this start in it. The caller holds mu.
func (r *run) counted() retry.History {
	h := r.uncounted().Started(r.began())
	if r.entry != nil {
		h.Held += r.entry.heldFor
	}
	if r.progressed != nil {
		h = h.Progressed(r.policy)
	}
	return h
}

// began returns when the handler began; if it was given up before it could,
// when it should have. The caller holds mu.
func (r *run) began() time.Time {
	if r.beganAt.IsZero() {
		return r.startedAt
	}
	return r.beganAt
}

func (r *run) ref() store.Ref { return store.Ref{Seq: r.job.Seq, Epoch: r.job.Epoch} }
