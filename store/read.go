package store

import (
	"context"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
)

// Filter selects jobs. Empty parts select everything; all parts must match.
type Filter struct {
	Seqs        []int64
	State       job.State
	Cause       job.Cause
	Kind        string
	Queue       string
	Target      string
	Batch       string
	Class       failure.Class // of the last failure
	Fingerprint string
	Since       time.Time // enqueued (live) or ended (others) at or after
	Until       time.Time // … and before
	Key         string    // stands within the key or the unique key
	From        int64     // only sequence numbers from here up; 0 = all
}

// Page bounds a list. Lists go from newest to oldest by sequence.
type Page struct {
	Before int64 // only sequence numbers below; 0 = from the newest
	From   int64 // only sequence numbers from here up; 0 = to the oldest
	Limit  int
}

// QueueRule is what was declared of one queue.
type QueueRule struct {
	Name   string
	Paused bool
	Strict bool
	Limit  QueueLimit // zero = none
}

// QueueState is one queue with its maintained counts.
type QueueState struct {
	QueueRule
	Counts map[job.State]int64
	// DueAt is the earliest due time of a queued job that is not blocked;
	// zero = none.
	DueAt time.Time
}

// Group is the dead letters of one fingerprint, kind, queue, class and cause.
type Group struct {
	Fingerprint string
	Kind        string
	Queue       string
	Class       failure.Class
	Cause       job.Cause
	Error       string // of the newest
	Count       int64
	FirstAt     time.Time
	LastAt      time.Time
}

// Ended is a job that has ended, as figures need it.
type Ended struct {
	Seq   int64
	State job.State // Succeeded, Failed or Cancelled
	At    time.Time
	// ReadyAt is from when it could have started: its due time where it
	// started at most once, else its enqueue, as retries move the due time.
	ReadyAt time.Time
	Queue   string
	Policy  string
	Starts  int
}

// Reader answers questions. No list counts a big table.
type Reader interface {
	Job(ctx context.Context, seq int64) (job.Job, error)
	Attempts(ctx context.Context, seq int64) ([]job.Attempt, error)
	List(ctx context.Context, f Filter, page Page) ([]job.Job, error)
	// Floor returns From of a page below before (0 = from the newest) that
	// looks at rows jobs, whether the filter selects them or not; 0 = there
	// are fewer, or an index finds what is asked for. Jobs that stand in the
	// way though their state is another may count.
	Floor(ctx context.Context, f Filter, before int64, rows int) (int64, error)
	// Queues lists them by name.
	Queues(ctx context.Context) ([]QueueState, error)
	// QueueRules is Queues without what is in them: it reads no job and no
	// count, however much waits.
	QueueRules(ctx context.Context) ([]QueueRule, error)
	// Recent lists what ended at or after since, newest first, then by
	// sequence from the highest, at most limit. Which of those that ended in
	// the instant of the last one are left out is open.
	Recent(ctx context.Context, since time.Time, limit int) ([]Ended, error)
	// Groups lists the dead letters by fingerprint, most first.
	Groups(ctx context.Context, f Filter, limit int) ([]Group, error)
	// Ahead counts the due jobs of the queue that a claim takes before this
	// one, up to limit.
	Ahead(ctx context.Context, now time.Time, seq int64, limit int) (int, error)
	Audit(ctx context.Context, limit int) ([]AuditRow, error)
}

// AuditRow is one act of an operator.
type AuditRow struct {
	At     time.Time
	Actor  string
	Act    string // "job.cancel", "queue.pause", "dead.redrive" …
	What   string // id or filter
	Detail string
}

// Redrive is a durable order to queue dead letters or parked jobs again:
// fresh attempts, same id, in their order.
type Redrive struct {
	ID        int64
	Filter    Filter  // State is Failed or Parked
	Rate      float64 // jobs a second; 0 = at once
	Actor     string
	CreatedAt time.Time
	DoneAt    time.Time // zero = not yet
	Moved     int64
	Cursor    int64 // sequence number reached
}

// Operator changes what is running. Each act leaves an audit row.
type Operator interface {
	// Cancel ends a queued or parked job and orders a running one to stop.
	// It returns the state it left behind: Cancelled, or Running for an order.
	Cancel(ctx context.Context, now time.Time, actor string, seq int64) (job.State, error)
	// Retry queues a failed or parked job again with fresh attempts, or makes
	// a waiting one due now.
	Retry(ctx context.Context, now time.Time, actor string, seq int64) error
	PauseQueue(ctx context.Context, now time.Time, actor, queue string, paused bool) error
	// StrictQueue declares a queue's order: one lane, one slot.
	StrictQueue(ctx context.Context, queue string, strict bool) error

	// Matching counts what a redrive of the filter would move, up to limit.
	Matching(ctx context.Context, f Filter, limit int) (int, error)
	StartRedrive(ctx context.Context, now time.Time, r Redrive) (Redrive, error)
	// StepRedrive moves up to n of its jobs in one transaction and returns
	// the new state; DoneAt is set when nothing is left.
	StepRedrive(ctx context.Context, now time.Time, id int64, n int) (Redrive, error)
	// Redrives lists the unfinished ones, oldest first, then the newest done.
	Redrives(ctx context.Context, limit int) ([]Redrive, error)

	// Maintain does one bounded step: expires deadlines, drops what retention
	// ends, folds counters.
	Maintain(ctx context.Context, m Maintenance) (Maintained, error)
}
