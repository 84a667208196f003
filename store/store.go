// Package store answers "where?": small role interfaces over the live jobs,
// the ledger and what operators do, with the promises of docs/architecture.md.
// storetest is the one conformance suite; memory, sqlite and postgres pass it.
//
// Every call that depends on time takes now; the zero time means the
// database's own clock. Batches are answered row by row: a refused row never
// fails its neighbours.
package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
)

// Store is everything. Callers ask for the role they need.
type Store interface {
	Enqueuer
	Leaser
	Reader
	Operator
	Flow
	Records
	Waker
	// Now returns the database's clock.
	Now(ctx context.Context) (time.Time, error)
	Close() error
}

var (
	// ErrNotFound is returned for an id that no table holds.
	ErrNotFound = errors.New("store: no such job")
	// ErrState is returned where the job's state forbids the order.
	ErrState = errors.New("store: the job's state does not allow it")
	// ErrLostProcess tells a process that it was taken for dead: its leases
	// are gone and its late writes are refused.
	ErrLostProcess = errors.New("store: this process was taken for dead; its leases are gone")
	// ErrForeignTx is returned for a transaction that the store cannot join.
	ErrForeignTx = errors.New("store: this transaction cannot be joined")
	// ErrSchema is returned by Open for a schema of another version.
	ErrSchema = errors.New("store: the schema is of another version")
	// ErrNewerSchema is the ErrSchema of one that a newer program has moved.
	ErrNewerSchema = fmt.Errorf("%w, which this program does not know", ErrSchema)
)

// Enqueuer takes jobs in. An acknowledged enqueue is durable.
type Enqueuer interface {
	// Enqueue adds the jobs in one transaction, all or none, and answers in
	// their order. A job whose Unique is taken by a live one is not added:
	// its answer names the living job and has Existing set. The list is the
	// caller's again when Enqueue has returned.
	Enqueue(ctx context.Context, now time.Time, jobs []job.New) ([]Enqueued, error)
	// EnqueueTx is Enqueue inside the caller's transaction: *sql.Tx or, on
	// PostgreSQL, pgx.Tx. ErrForeignTx says why one cannot be joined.
	EnqueueTx(ctx context.Context, tx any, now time.Time, jobs []job.New) ([]Enqueued, error)
}

// Enqueued is the answer to one New.
type Enqueued struct {
	Seq      int64
	Existing bool
}

// Process is one running worker process.
type Process struct {
	ID      int64 // given by Register
	Host    string
	PID     int
	Kinds   []string // what it handles; nil = it handles none
	Queues  []string
	Config  string // config fingerprint; jobs parked under another are released
	Beat    int64  // counts up; an observer judges life by its moving
	SeenAt  time.Time
	BornAt  time.Time
	Version string // of the program
	// Identity tells it from every other process that had or will have its pid,
	// on whatever host. Workers write and compare it, stores only keep it.
	// Empty = only its beat tells whether it lives.
	Identity string
}

// Ref names a lease: the job and the epoch under which it is held.
type Ref struct {
	Seq   int64
	Epoch int64
}

// Claim asks for jobs to run.
type Claim struct {
	Process int64
	Queue   string
	Kinds   []string // only these
	Limit   int
	Now     time.Time
}

// Settle ends one start. The store refuses it unless Ref is still leased by
// Process; then nothing changes.
type Settle struct {
	Ref
	// To is Succeeded, Queued, Failed, Parked or Cancelled.
	To    job.State
	Cause job.Cause
	// Delay is added to the store's now where To is Queued.
	Delay time.Duration
	// DueAt, if not zero, is when the job is due instead, an instant that has
	// passed: it goes back to the place that it had and is not overtaken. Only
	// where To is Queued, without Delay and Keep.
	DueAt time.Time
	// Keep ends the start and not the lease; only where To is Queued. The job
	// stays running, unbegun, under the next epoch: its process may Begin it
	// from its due time on, and nobody else.
	Keep    bool
	History retry.History
	// Attempt is the ledger's row. Begun starts only; nil where the handler
	// never began (a cancel between claim and start).
	Attempt     *job.Attempt
	Result      []byte // of Succeeded
	Fingerprint string // of the failure
	Config      string // of Parked: the worker's config fingerprint
}

// Turn is one round trip of a worker: settle what ended, mark what begins,
// claim what is next, in one transaction. A lost swap fails nothing else.
type Turn struct {
	Process int64
	Now     time.Time
	Settles []Settle
	Begin   []Ref // unbegun leases whose handlers start now
	// Release gives leases back unspent, to the place that they had. The
	// caller promises that their handlers did not begin, whatever Begun says.
	Release []Ref
	Claims  []Claim // Process and Now are the turn's

	// Of work with a target only, see FLOW.md.
	Swaps []Swap      // gates to replace, each target at most once
	Holds []LaneHold  // after the releases
	Lanes []LaneClaim // after the claims and holds
}

// Turned answers a Turn in its order.
type Turned struct {
	Settled  []bool // false = stale: the lease was not ours any more
	Begun    []bool // false = stale, or not due yet by the turn's now
	Released []bool
	// Claimed are the least rows of each claim by (priority, due, sequence),
	// sorted. Begun is set but for suspects (two crashes or more), which the
	// worker must Begin one at a time. Those of Lanes follow those of Claims.
	Claimed []job.Job
	// Left are the lanes that a discovery took of and left due work in. They
	// rest from discovery: whoever took of them serves them by name.
	Left []LaneName
	// Parked counts the jobs that this Store has parked since its last turn,
	// in whatever call, because the job ahead in their key failed. What a
	// caller's own transaction parked is not in it.
	Parked []EndCount

	Swapped []bool // false = the version has moved
	// Gates are the rows of every target of a claimed job, and of every lost
	// swap, as they stand after the turn; by name. Those are left out that the
	// caller knows (LaneClaim.Known).
	Gates []Gate
}

// Leaser gives jobs to processes and takes their outcomes back.
type Leaser interface {
	// Register adds a process and releases what was parked for its config.
	Register(ctx context.Context, now time.Time, p Process) (Process, error)
	// Beat moves the process's counter and returns the orders waiting for it:
	// jobs that it should cancel, each until its lease ends. ErrLostProcess if
	// it was taken for dead.
	Beat(ctx context.Context, now time.Time, process int64) (cancel []Ref, err error)
	// Leave removes a process that holds no lease; one that still does stays
	// listed, and is left to Reap.
	Leave(ctx context.Context, process int64) error
	// Processes lists all registered.
	Processes(ctx context.Context) ([]Process, error)
	// Reap ends a process whose counter still stands at beat: in one
	// transaction it removes the process, puts unbegun leases back and settles
	// each begun one as decide says. It returns how many leases it ended, and
	// false if the counter has moved or somebody was faster.
	Reap(ctx context.Context, now time.Time, process, beat int64, decide func(job.Job) Settle) (int, bool, error)

	// Turn settles, begins, releases and claims, in this order, in one
	// transaction. ErrLostProcess, and nothing is changed, if the process was
	// taken for dead.
	Turn(ctx context.Context, t Turn) (Turned, error)
	// SettleTx settles inside the caller's transaction, so that a handler's
	// own writes and its completion become durable together.
	SettleTx(ctx context.Context, tx any, now time.Time, process int64, s Settle) (bool, error)
	// Progress stores what a handler reports and the history that follows
	// from it. False = the lease was not ours any more.
	Progress(ctx context.Context, process int64, ref Ref, progress []byte, h retry.History) (bool, error)
	// NextDue returns when the earliest queued job of the queues and kinds
	// becomes due; zero if there is none. A claim that found nothing waits
	// until then. Where many jobs of other kinds stand before that one, it may
	// name an earlier instant, never a later one.
	NextDue(ctx context.Context, queues, kinds []string) (time.Time, error)
}

// Waker tells that something may be claimable before the next poll.
type Waker interface {
	// Wakes returns a channel that receives after enqueues and releases by
	// other processes, coalesced; it is closed when ctx ends.
	Wakes(ctx context.Context) (<-chan struct{}, error)
}

// Maintenance bounds one step of housekeeping.
type Maintenance struct {
	Now           time.Time
	SucceededKept time.Duration // retention of succeeded and cancelled jobs; 0 = for ever
	FailedKept    time.Duration // retention of dead letters; 0 = for ever
	Limit         int           // rows a step
}

// Maintained is what one step of housekeeping did.
type Maintained struct {
	Expired []EndCount // jobs whose deadline had passed
	More    bool       // work is left
}
