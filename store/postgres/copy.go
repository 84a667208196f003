package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store"
)

// enqueueCopy adds many jobs without keys, in two round trips: one
// begins and takes the numbers, one copies and commits. Jobs that are not
// checked yet are while the database works on the first. Others are told by who
// calls, after the commit: it takes a while to flush, and no other transaction
// that notifies could commit meanwhile.
func (s *Store) enqueueCopy(ctx context.Context, b *batch) ([]store.Enqueued, error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release() // one that is left inside a transaction is closed
	var now time.Time
	var seqs []int64
	first := s.opening()
	first.Queue(statement("stay"))
	var lanes laning
	first.Queue(statement("begin_copy"), runs(b.size), b.into, b.added).QueryRow(func(r pgx.Row) (err error) {
		var wire []byte
		if err := r.Scan(&now, &wire, &lanes.strict, &lanes.limited); err != nil {
			return err
		}
		seqs, err = numbered(wire, b.size)
		return err
	})
	if b.targeted {
		first.Queue(statement("look_enqueued"), b.parts()...)
	}
	begun := conn.SendBatch(ctx, first)
	invalid := b.check()
	c := newCopying(b)
	if err := begun.Close(); err != nil {
		return nil, err
	}
	if invalid != nil {
		_, err := conn.Exec(ctx, "ROLLBACK")
		return nil, errors.Join(invalid, err)
	}
	if !b.targeted && len(lanes.limited) > 0 {
		if _, err := conn.Exec(ctx, statement("look_enqueued"), b.parts()...); err != nil {
			return nil, err
		}
	}
	c.number(seqs, now, lanes)
	if _, err := conn.Conn().PgConn().CopyFrom(ctx, c, c.statement()+"; COMMIT"); err != nil {
		return nil, err
	}
	answers := make([]store.Enqueued, len(seqs))
	for i, seq := range seqs {
		answers[i].Seq = seq
	}
	return answers, nil
}

// copying is jobs on their way into COPY's binary form, a reader of it. Columns
// in which every job has the table's default are left out. Of jobs that are
// alike, a row is a copy of the one before but for its number and arguments.
type copying struct {
	runs    []alikes // what is left; of the first, past are written
	past    int
	seqs    []int64 // of what is left
	at      int64   // when the jobs are enqueued
	clock   bool    // that is the transaction's clock
	columns []copyColumn
	args    bool // some job has arguments
	numbers map[string]int32
	lanes   laning
	head    []byte // a row of the first run, up to its arguments
	ended   bool   // everything is written
	ready   []byte // written and not read yet
	buffer  []byte
}

// copyColumn writes one column's value, or returns false for the default.
type copyColumn struct {
	name  string
	value func(c *copying, buf []byte, n *job.New) ([]byte, bool)
	// always says that the default may not be written where others have a
	// value: it is not NULL. Then value has written it.
	always bool
}

func text(of func(n *job.New) string) func(c *copying, buf []byte, n *job.New) ([]byte, bool) {
	return func(_ *copying, buf []byte, n *job.New) ([]byte, bool) {
		s := of(n)
		return append(buf, s...), s != ""
	}
}

// copySometimes are written where a job of the batch has another value than
// the default. A due time of the clock is the transaction's.
var copySometimes = []copyColumn{
	{"due_at", func(c *copying, buf []byte, n *job.New) ([]byte, bool) {
		due := c.at
		if !n.DueAt.IsZero() {
			due = micros(n.DueAt)
		}
		return binary.BigEndian.AppendUint64(buf, uint64(due)), !c.clock || !n.DueAt.IsZero()
	}, true},
	{"enqueued_at", func(c *copying, buf []byte, _ *job.New) ([]byte, bool) {
		return binary.BigEndian.AppendUint64(buf, uint64(c.at)), !c.clock
	}, true},
	{"priority", func(_ *copying, buf []byte, n *job.New) ([]byte, bool) {
		return binary.BigEndian.AppendUint16(buf, uint16(n.Priority)), n.Priority != 0
	}, true},
	{"queue", func(_ *copying, buf []byte, n *job.New) ([]byte, bool) {
		return append(buf, n.Queue...), n.Queue != job.DefaultQueue
	}, true},
	{"deadline_at", func(_ *copying, buf []byte, n *job.New) ([]byte, bool) {
		return binary.BigEndian.AppendUint64(buf, uint64(micros(n.DeadlineAt))), !n.DeadlineAt.IsZero()
	}, false},
	{"policy", text(func(n *job.New) string {
		if n.Policy == policy.DefaultName {
			return ""
		}
		return n.Policy
	}), false},
	{"target", text(func(n *job.New) string { return n.Target }), false},
	{"key", text(func(n *job.New) string { return n.Key }), false},
	{"batch", text(func(n *job.New) string { return n.Batch }), false},
	{"trace", text(func(n *job.New) string { return n.Trace }), false},
}

// copyLane is where a job waits. Whether it is written is known last.
var copyLane = copyColumn{"lane", func(c *copying, buf []byte, n *job.New) ([]byte, bool) {
	lane := c.lanes.of(n)
	return append(buf, lane...), lane != ""
}, false}

// laning is what decides where jobs wait: of their queues the strict ones, and
// those with limits.
type laning struct{ strict, limited []string }

// of names the job's lane; empty = the plain one. It is the fragment lane of
// enqueue.sql.
func (l *laning) of(n *job.New) string {
	switch {
	case slices.Contains(l.strict, n.Queue):
		return ""
	case n.Target != "":
		return n.Target
	case slices.Contains(l.limited, n.Queue):
		return store.QueueTarget(n.Queue)
	}
	return ""
}

func newCopying(b *batch) *copying {
	c := &copying{
		runs: b.runs, at: micros(b.now), clock: b.now.IsZero(), numbers: b.queueNumbers, buffer: make([]byte, 0, copyBuffer+4<<10),
	}
	missing := slices.Clone(copySometimes)
	for i := range c.runs {
		r := &c.runs[i]
		missing = slices.DeleteFunc(missing, func(column copyColumn) bool {
			_, some := column.value(c, c.buffer, &r.New)
			if some {
				c.columns = append(c.columns, column)
			}
			return some
		})
		c.args = c.args || slices.ContainsFunc(r.given, func(n job.New) bool { return n.Args != nil })
	}
	// Signature, no flags, no extension of the header.
	c.buffer = append(c.buffer, "PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00"...)
	c.ready = c.buffer
	return c
}

// number gives the jobs their sequence numbers, the transaction's clock, and
// what is known of their queues.
func (c *copying) number(seqs []int64, now time.Time, lanes laning) {
	c.seqs, c.lanes = seqs, lanes
	if len(lanes.limited) > 0 || slices.ContainsFunc(c.columns, func(column copyColumn) bool { return column.name == "target" }) {
		c.columns = append(c.columns, copyLane)
	}
	if c.clock {
		c.at = micros(now)
	}
}

func (c *copying) statement() string {
	names := []string{"seq", "queue_number", "kind"}
	for _, column := range c.columns {
		names = append(names, column.name)
	}
	if c.args {
		names = append(names, "args")
	}
	return "COPY ebb_job (" + strings.Join(names, ", ") + ") FROM STDIN BINARY"
}

// copyBuffer is about how many bytes are written at a time.
const copyBuffer = 32 << 10

// Read gives what is written, a buffer of rows at a time.
func (c *copying) Read(p []byte) (int, error) {
	if len(c.ready) == 0 && c.ended {
		return 0, io.EOF
	}
	if len(c.ready) == 0 {
		c.write()
	}
	n := copy(p, c.ready)
	c.ready = c.ready[n:]
	return n, nil
}

// write writes the next rows.
func (c *copying) write() {
	buf := c.buffer[:0]
	for len(buf) < copyBuffer && len(c.runs) > 0 {
		r := &c.runs[0]
		if len(c.head) == 0 {
			c.begin(&r.New)
		}
		for c.past < len(r.given) && len(buf) < copyBuffer {
			at := len(buf)
			buf = append(buf, c.head...)
			binary.BigEndian.PutUint64(buf[at+seqAt:], uint64(c.seqs[0]))
			if args := r.given[c.past].Args; args != nil {
				buf = binary.BigEndian.AppendUint32(buf, uint32(len(args)))
				buf = append(buf, args...)
			} else if c.args {
				buf = append(buf, null...)
			}
			c.seqs = c.seqs[1:]
			c.past++
		}
		if c.past == len(r.given) {
			c.runs, c.past, c.head = c.runs[1:], 0, c.head[:0]
		}
	}
	if len(c.runs) == 0 {
		buf, c.ended = append(buf, 0xff, 0xff), true
	}
	c.buffer, c.ready = buf, buf
}

const (
	null  = "\xff\xff\xff\xff" // where a size would be
	seqAt = 2 + 4              // where a row's number stands: behind how many columns there are, and its size
)

// begin writes what the rows of a run have in common.
func (c *copying) begin(n *job.New) {
	columns := 3 + len(c.columns)
	if c.args {
		columns++
	}
	buf := binary.BigEndian.AppendUint16(c.head[:0], uint16(columns))
	buf = binary.BigEndian.AppendUint32(buf, 8)
	buf = binary.BigEndian.AppendUint64(buf, 0) // each row's own
	buf = binary.BigEndian.AppendUint32(buf, 4)
	buf = binary.BigEndian.AppendUint32(buf, uint32(c.numbers[n.Queue]))
	buf = binary.BigEndian.AppendUint32(buf, uint32(len(n.Kind)))
	buf = append(buf, n.Kind...)
	for _, column := range c.columns {
		size := len(buf)
		buf = append(buf, null...)
		value, some := column.value(c, buf, n)
		if some || column.always {
			binary.BigEndian.PutUint32(value[size:], uint32(len(value)-size-4))
			buf = value
		}
	}
	c.head = buf
}
