package postgres

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
)

// row reads the columns of one row from left to right. It reads the wire form
// itself: a claim returns thousands of rows of 29 columns, most of them NULL.
// pgx asks for the binary form of every type that is read here.
type row struct {
	values [][]byte
	at     int
	words  map[string]string
	slab   []byte
}

// eachRow calls f for every row. The row is valid until f returns.
func eachRow(rows pgx.Rows, f func(r *row) error) error {
	defer rows.Close()
	r := row{words: map[string]string{}}
	for rows.Next() {
		r.values, r.at = rows.RawValues(), 0
		if err := f(&r); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (r *row) next() []byte {
	v := r.values[r.at]
	r.at++
	return v
}

// absent reports whether the column that comes next is NULL.
func (r *row) absent() bool { return r.values[r.at] == nil }

// number reads a bigint, integer or smallint; NULL is 0.
func (r *row) number() int64 {
	switch v := r.next(); len(v) {
	case 8:
		return int64(binary.BigEndian.Uint64(v))
	case 4:
		return int64(int32(binary.BigEndian.Uint32(v)))
	case 2:
		return int64(int16(binary.BigEndian.Uint16(v)))
	}
	return 0
}

func (r *row) float() float64 {
	if v := r.next(); len(v) == 8 {
		return math.Float64frombits(binary.BigEndian.Uint64(v))
	}
	return 0
}

func (r *row) flag() bool {
	v := r.next()
	return len(v) == 1 && v[0] != 0
}

func (r *row) text() string { return string(r.next()) }

// word reads a text that many rows share.
func (r *row) word() string {
	v := r.next()
	if len(v) == 0 {
		return ""
	}
	if s, ok := r.words[string(v)]; ok {
		return s
	}
	s := string(v)
	r.words[s] = s
	return s
}

// small bytes of many rows share allocations of up to maxSlab; one lives as
// long as any of them.
const (
	small   = 128
	maxSlab = 16 << 10
)

func (r *row) bytes() []byte {
	v := r.next()
	switch {
	case v == nil:
		return nil
	case len(v) > small:
		return append([]byte{}, v...)
	case cap(r.slab)-len(r.slab) < len(v):
		r.slab = make([]byte, 0, min(max(4*small, 2*cap(r.slab)), maxSlab))
	}
	from := len(r.slab)
	r.slab = append(r.slab, v...)
	return r.slab[from:len(r.slab):len(r.slab)]
}

// epoch2000 is where PostgreSQL's timestamps begin, in microseconds.
const epoch2000 = 946_684_800_000_000

// instant reads a timestamptz; NULL is the zero time.
func (r *row) instant() time.Time {
	v := r.next()
	if len(v) != 8 {
		return time.Time{}
	}
	return time.UnixMicro(int64(binary.BigEndian.Uint64(v)) + epoch2000).UTC()
}

func (r *row) class() (failure.Class, error) {
	name := r.word()
	if name == "" {
		return failure.Unknown, nil
	}
	c, err := failure.ParseClass(name)
	if err != nil {
		return c, fmt.Errorf("postgres: stored class: %w", err)
	}
	return c, nil
}

// json reads a jsonb.
func (r *row) json() []byte {
	v := r.next()
	if len(v) > 0 && v[0] == 1 { // the version that begins it
		v = v[1:]
	}
	return v
}

// moved reads movedColumns into the job.
func (r *row) moved(j *job.Job) (err error) {
	j.Seq, j.DueAt, j.EnqueuedAt, j.DeadlineAt = r.number(), r.instant(), r.instant(), r.instant()
	j.Epoch, j.Priority = r.number(), int(r.number())
	j.Queue, j.Kind, j.Policy, j.Args = r.word(), r.word(), r.word(), r.bytes()
	if j.Policy == "" {
		j.Policy = policy.DefaultName
	}
	j.Target, j.Key, j.KeyRule, j.Unique = r.word(), r.text(), job.KeyRule(r.word()), r.text()
	j.Batch, j.Trace, j.Progress = r.word(), r.text(), r.bytes()
	r.history(&j.History)
	j.History.DeadlineAt = j.DeadlineAt
	if j.LastClass, err = r.class(); err != nil {
		return err
	}
	j.LastError, j.Fingerprint, j.Version = r.text(), r.word(), r.word()
	return nil
}

func (r *row) history(h *retry.History) {
	h.FirstStartAt, h.LastDelay = r.instant(), time.Duration(r.number())
	h.Starts, h.Attempts, h.Waits = int(r.number()), int(r.number()), int(r.number())
	h.Idle, h.Crashes = int(r.number()), int(r.number())
	copy(h.Free[:], r.next())
	h.Held = time.Duration(r.number())
}

// job reads the columns of the views.
func (r *row) job() (j job.Job, err error) {
	if err := r.moved(&j); err != nil {
		return j, err
	}
	j.Process, j.LeasedAt, j.Begun, j.Blocked = r.number(), r.instant(), r.flag(), r.flag()
	j.State, j.Cause, j.Config = job.State(r.word()), job.Cause(r.word()), r.word()
	j.EndedAt, j.Result = r.instant(), r.bytes()
	return j, nil
}

// attempt reads a row of the ledger.
func (r *row) attempt() (a job.Attempt, err error) {
	a.Seq, a.Process, a.StartedAt, a.EndedAt, a.DueAt = r.number(), r.number(), r.instant(), r.instant(), r.instant()
	a.Delay, a.Held, a.RetryAfter = time.Duration(r.number()), time.Duration(r.number()), time.Duration(r.number())
	a.Epoch, a.Start, a.Status, a.OK = r.number(), int(r.number()), int(r.number()), r.flag()
	if a.Class, err = r.class(); err != nil {
		return a, err
	}
	a.Reason, a.Error, a.Action, a.Cause = r.text(), r.text(), r.word(), job.Cause(r.word())
	a.HeldBy, a.Counted, a.Rule, a.Version, a.Stack = r.word(), retry.Counted(r.word()), r.word(), r.word(), r.text()
	return a, nil
}

// nullable turns an instant into a parameter; the zero time is NULL, which
// statements take for the database's clock, or for none.
func nullable(t time.Time) pgtype.Timestamptz {
	return pgtype.Timestamptz{Time: t, Valid: !t.IsZero()}
}

// freeBytes turns the counts into what is stored: nil if all are 0, and no
// zeros at the end.
func freeBytes(free *retry.FreeCounts) []byte {
	trimmed := strings.TrimRight(string(free[:]), "\x00")
	if trimmed == "" {
		return nil
	}
	return []byte(trimmed)
}

// className is how a class is stored: Unknown is no class.
func className(c failure.Class) string {
	if c == failure.Unknown {
		return ""
	}
	return c.String()
}
