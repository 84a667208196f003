package store

import (
	"context"
	"errors"
	"time"

	"github.com/ebbhq/ebb/job"
)

// ErrConflict is returned by a write whose record was changed, made or
// dropped by somebody else since it was read. It is wrapped with the record's
// kind and id; nothing of the write was done.
var ErrConflict = errors.New("store: the record was changed by somebody else")

// Record is a small document kept beside the jobs: a token, an endpoint, an
// idempotency key. Workloads and the server keep theirs here, so that a
// record, the jobs that follow from it and the audit's row become durable
// together.
type Record struct {
	Kind string // what it is: "token", "endpoint"; required
	ID   string // unique within the kind; required
	// Ref is what it belongs to, such as the endpoint of a delivery; lists
	// select by it. Empty = nothing.
	Ref     string
	Version int64 // counts the writes of this record; 1 = as it was made
	// ExpiresAt is when maintenance may drop it; zero = never. An expired
	// record is not found, dropped or not.
	ExpiresAt time.Time
	Body      []byte // JSON by custom; opaque to stores
}

// AnyVersion is the Version of a put or drop that does not care which one it
// replaces, or whether there is one.
const AnyVersion = -1

// RecordFilter selects records of a kind. Lists go up by id, or down.
type RecordFilter struct {
	Kind  string // required
	Ref   string // empty = any
	After string // only ids beyond this one, in the list's direction; empty = from its start
	Down  bool
	Limit int
}

// Write changes records, enqueues jobs and notes acts, all or nothing.
type Write struct {
	// Puts are written. Version is the one that is replaced: 0 = there must be
	// none, AnyVersion = whatever there is.
	Puts []Record
	// Drops are removed, by Kind, ID and Version.
	Drops []Record
	Jobs  []job.New
	Audit []AuditRow // At is the write's now
}

// Records keeps documents.
type Records interface {
	// Record returns one; ErrNotFound if there is none.
	Record(ctx context.Context, kind, id string) (Record, error)
	Records(ctx context.Context, f RecordFilter) ([]Record, error)
	// Write does it in one transaction and answers for the jobs in their
	// order. ErrConflict if a record's version has moved.
	Write(ctx context.Context, now time.Time, w Write) ([]Enqueued, error)
	// WriteTx is Write inside the caller's transaction, as EnqueueTx.
	WriteTx(ctx context.Context, tx any, now time.Time, w Write) ([]Enqueued, error)
}
