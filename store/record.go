package store

import (
	"context"
	"errors"
	"time"

	"github.com/ebbhq/ebb/job"
)

// ErrConflict is returned by a write whose record was changed, made or
// dropped by somebody else since it was read. It is wrapped with the record's
// kind and id; nothing of the write was done. Of several, the first by kind
// and id is named.
var ErrConflict = errors.New("store: the record was changed by somebody else")

// Record is a small document kept beside the jobs: a token, an endpoint, an
// idempotency key. Workloads and the server keep theirs here, so that a
// record, the jobs that follow from it and the audit's row become durable
// together.
//
// Kind, ID and Ref are UTF-8 without zero bytes, MaxRecordName at most, and
// compared byte by byte.
type Record struct {
	Kind string // what it is: "token", "endpoint"; required
	ID   string // unique within the kind; required
	// Ref is what it belongs to, such as the endpoint of a delivery; lists
	// select by it. Empty = nothing.
	Ref string
	// Version counts the writes of this record; 1 = as it was made. One that
	// was dropped, or has expired, and is made anew begins at 1 again: who
	// must tell the two apart gives it another id.
	Version int64
	// ExpiresAt is when maintenance may drop it, cut to the microsecond; zero
	// = never. From then on it is not there, dropped or not: to reads by the
	// database's clock, to a write by the write's now.
	ExpiresAt time.Time
	Body      []byte // JSON by custom; opaque to stores; an empty one is nil when read
}

// AnyVersion is the Version of a put or drop that does not care which one it
// replaces, or whether there is one.
const AnyVersion = -1

// RecordFilter selects records of a kind. Lists go up by id, or down, in the
// order of its bytes. After need not be the id of any record.
type RecordFilter struct {
	Kind  string // required
	Ref   string // empty = any
	After string // only ids beyond this one, in the list's direction; empty = from its start
	Down  bool
	Limit int // at most so many; none for 0
}

// Write changes records, enqueues jobs and notes acts, all or nothing. No
// record may be in it twice.
type Write struct {
	// Puts are written whole. Version is the one that is replaced: 0 = there
	// must be none, AnyVersion = whatever there is. The record has the version
	// after it then, the first if there was none.
	Puts []Record
	// Drops are removed, by Kind, ID and Version, which is not 0: what was
	// never read cannot be dropped, but with AnyVersion.
	Drops []Record
	// Jobs are enqueued as by Enqueue: what it refuses refuses the write.
	Jobs  []job.New
	Audit []AuditRow // At is the write's now; the last is the newest
	// Receipt, if given, makes the body of the first put from the answers for
	// the jobs: the record names what became durable with it. It is called
	// within the transaction, perhaps of one that fails then, and must not ask
	// the store.
	Receipt func([]Enqueued) []byte
}

// Records keeps documents.
type Records interface {
	// Record returns one; ErrNotFound if there is none.
	Record(ctx context.Context, kind, id string) (Record, error)
	// Records lists those that the filter selects.
	Records(ctx context.Context, f RecordFilter) ([]Record, error)
	// Write does it in one transaction and answers for the jobs in their
	// order. ErrConflict if a record's version has moved: of writes of one
	// version exactly one is done.
	Write(ctx context.Context, now time.Time, w Write) ([]Enqueued, error)
	// WriteTx is Write inside the caller's transaction, as EnqueueTx. One that
	// is refused leaves the transaction as it was before. Where others need
	// not wait for the transaction, its commit may be what ErrConflict ends.
	WriteTx(ctx context.Context, tx any, now time.Time, w Write) ([]Enqueued, error)
}
