// Package job answers "what is remembered?": the job, its attempts, its states
// and the one table of transitions. Arguments are opaque bytes.
package job

import (
	"fmt"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/retry"
)

// DefaultQueue is the queue of jobs that name none.
const DefaultQueue = "default"

// MaxPriority is the least urgent priority; 0 goes first.
const MaxPriority = 9

// New is a job to be enqueued.
type New struct {
	Kind   string // which handler; required
	Queue  string // DefaultQueue if empty
	Target string // whom the work calls; empty = nobody, no gate applies
	// Key puts the job behind all earlier ones of the same key and queue: one
	// runs at a time, and one that waits for its retry holds up the others.
	// Empty = none.
	Key     string
	KeyRule KeyRule // what a failed head does to those behind it
	// Unique refuses a second live job (queued, running or parked) of the
	// same value; empty = none. UniqueFor keeps the value taken for at least
	// that long after the enqueue, even if the job has ended. Scope, time and
	// Conflict are the enqueue's own: they are not remembered with the job.
	Unique      string
	UniqueScope UniqueScope
	UniqueFor   time.Duration
	Conflict    Conflict
	Policy      string    // policy.DefaultName if empty
	Priority    int       // 0 to MaxPriority
	DueAt       time.Time // zero = now
	DeadlineAt  time.Time // no start after this; zero = none
	Batch       string    // jobs enqueued together; empty = none
	Args        []byte
	Trace       string // W3C traceparent of the caller; empty = none
}

// Job is everything remembered of one job but its attempts.
type Job struct {
	Seq int64 // its place in the order of enqueues; the id is made of it
	New
	State      State
	Cause      Cause // of failed and parked
	EnqueuedAt time.Time
	EndedAt    time.Time // zero while the job lives
	History    retry.History
	Epoch      int64     // fencing number: claims and kept leases so far
	Process    int64     // the process that holds the lease; 0 = none
	LeasedAt   time.Time // of the claim, or of the Begin that followed it
	Begun      bool      // the handler of this lease may have begun
	Blocked    bool      // queued behind an earlier job of its key
	Progress   []byte    // what the handler reported last
	Result     []byte
	// LastClass, LastError, Fingerprint describe the last failure.
	LastClass   failure.Class
	LastError   string
	Fingerprint string // groups dead letters: class, reason and the error without its variable parts
	Version     string // of the policy that decided last
	Config      string // config fingerprint of the worker that parked it
}

// ID returns the job's public name.
func (j *Job) ID() string { return FormatID(j.Seq) }

// Attempt is one row of the ledger: one start, never changed.
type Attempt struct {
	Seq        int64 // of the job
	Start      int   // 1 and up over the job's whole life, redrives included
	Epoch      int64
	Process    int64
	StartedAt  time.Time
	EndedAt    time.Time
	OK         bool
	Class      failure.Class // Unknown where OK
	Reason     string
	Status     int
	Error      string
	Stack      string // of a panic
	RetryAfter time.Duration
	Action     string // what was decided; empty where OK
	Cause      Cause
	Delay      time.Duration
	DueAt      time.Time // of the next start; zero where there is none
	HeldBy     string    // what held the start back before it began
	Held       time.Duration
	Counted    retry.Counted
	Rule       string
	Version    string // of the policy
}

// Known returns those rows of the job's ledger that had ended when the job was
// read: a ledger that is read after its job may tell more than the job does.
func (j *Job) Known(ledger []Attempt) []Attempt {
	for i := range ledger {
		if e := ledger[i].Epoch; e > j.Epoch || e == j.Epoch && j.State == Running {
			return ledger[:i]
		}
	}
	return ledger
}

const alphabet = "0123456789abcdefghjkmnpqrstvwxyz"

// idLength is what 64 bits need in base 32: ids sort as their numbers do.
const idLength = 13

// FormatID writes a sequence number as an id: 13 characters, sortable and
// URL-safe.
func FormatID(seq int64) string {
	var b [idLength]byte
	n := uint64(seq)
	for i := idLength - 1; i >= 0; i-- {
		b[i] = alphabet[n&31]
		n >>= 5
	}
	return string(b[:])
}

// ParseID reads an id back.
func ParseID(id string) (int64, error) {
	if len(id) != idLength {
		return 0, fmt.Errorf("job: id %q: want %d characters, got %d", id, idLength, len(id))
	}
	var n uint64
	for i := range idLength {
		v := indexOf(id[i])
		if v < 0 || i == 0 && v > 7 {
			return 0, fmt.Errorf("job: id %q: %q cannot stand at place %d", id, id[i], i+1)
		}
		n = n<<5 | uint64(v)
	}
	return int64(n), nil
}

func indexOf(c byte) int {
	if c >= 'A' && c <= 'Z' {
		c += 'a' - 'A'
	}
	for i := range len(alphabet) {
		if alphabet[i] == c {
			return i
		}
	}
	return -1
}
