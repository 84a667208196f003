package postgres

import (
	"context"
	"encoding/binary"
	"io"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store"
)

// enqueueCopy adds many jobs without unique keys.
func enqueueCopy(ctx context.Context, tx pgx.Tx, b *batch) ([]store.Enqueued, error) {
	seqs, now, err := numbers(ctx, pgxRunner{tx}, len(b.jobs))
	if err != nil {
		return nil, err
	}
	if !b.now.IsZero() {
		now = b.now
	}
	c := newCopying(b.jobs, seqs, now)
	if _, err := tx.Conn().PgConn().CopyFrom(ctx, c, c.statement()); err != nil {
		return nil, err
	}
	counts := map[string]int64{}
	answers := make([]store.Enqueued, len(seqs))
	for i, seq := range seqs {
		answers[i].Seq = seq
		counts[b.jobs[i].Queue]++
	}
	var queues []string
	var added []int64
	for queue, n := range counts {
		queues, added = append(queues, queue), append(added, n)
	}
	_, err = tx.Exec(ctx, statement("count_enqueued"), queues, added)
	return answers, err
}

// copying is jobs on their way into COPY's binary form, a reader of it. Columns
// in which no job has a value are left out.
type copying struct {
	jobs    []job.New
	seqs    []int64
	now     int64
	columns []copyColumn
	next    int    // the job that is written next
	ready   []byte // written and not read yet
	buffer  []byte
}

// copyColumn writes one column's value, or returns false for NULL.
type copyColumn struct {
	name  string
	value func(buf []byte, n *job.New) ([]byte, bool)
}

func text(of func(n *job.New) string) func(buf []byte, n *job.New) ([]byte, bool) {
	return func(buf []byte, n *job.New) ([]byte, bool) {
		s := of(n)
		return append(buf, s...), s != ""
	}
}

// always written, after seq, due_at and enqueued_at.
var copyAlways = []copyColumn{
	{"priority", func(buf []byte, n *job.New) ([]byte, bool) {
		return binary.BigEndian.AppendUint16(buf, uint16(n.Priority)), true
	}},
	{"queue", text(func(n *job.New) string { return n.Queue })},
	{"kind", text(func(n *job.New) string { return n.Kind })},
	{"args", func(buf []byte, n *job.New) ([]byte, bool) { return append(buf, n.Args...), n.Args != nil }},
}

// copySometimes are written where a job of the batch has them.
var copySometimes = []copyColumn{
	{"deadline_at", func(buf []byte, n *job.New) ([]byte, bool) {
		return binary.BigEndian.AppendUint64(buf, uint64(micros(n.DeadlineAt))), !n.DeadlineAt.IsZero()
	}},
	{"policy", text(func(n *job.New) string {
		if n.Policy == policy.DefaultName {
			return ""
		}
		return n.Policy
	})},
	{"target", text(func(n *job.New) string { return n.Target })},
	{"key", text(func(n *job.New) string { return n.Key })},
	{"batch", text(func(n *job.New) string { return n.Batch })},
	{"trace", text(func(n *job.New) string { return n.Trace })},
}

func newCopying(jobs []job.New, seqs []int64, now time.Time) *copying {
	c := &copying{jobs: jobs, seqs: seqs, now: micros(now), columns: copyAlways[:len(copyAlways):len(copyAlways)]}
	for _, column := range copySometimes {
		for i := range jobs {
			if _, some := column.value(nil, &jobs[i]); some {
				c.columns = append(c.columns, column)
				break
			}
		}
	}
	// Signature, no flags, no extension of the header.
	c.buffer = append(c.buffer, "PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00"...)
	c.ready = c.buffer
	return c
}

func (c *copying) statement() string {
	names := []string{"seq", "due_at", "enqueued_at"}
	for _, column := range c.columns {
		names = append(names, column.name)
	}
	return "COPY ebb_job (" + strings.Join(names, ", ") + ") FROM STDIN BINARY"
}

// Read gives what is written, a buffer of rows at a time.
func (c *copying) Read(p []byte) (int, error) {
	if len(c.ready) == 0 && c.next > len(c.jobs) {
		return 0, io.EOF
	}
	if len(c.ready) == 0 {
		c.buffer = c.buffer[:0]
		for len(c.buffer) < 32<<10 && c.next < len(c.jobs) {
			c.row()
		}
		if c.next == len(c.jobs) {
			c.buffer = append(c.buffer, 0xff, 0xff) // the end
			c.next++
		}
		c.ready = c.buffer
	}
	n := copy(p, c.ready)
	c.ready = c.ready[n:]
	return n, nil
}

// row writes the next job.
func (c *copying) row() {
	n := &c.jobs[c.next]
	due := c.now
	if !n.DueAt.IsZero() {
		due = micros(n.DueAt)
	}
	buf := binary.BigEndian.AppendUint16(c.buffer, uint16(3+len(c.columns)))
	for _, v := range [3]int64{c.seqs[c.next], due, c.now} {
		buf = binary.BigEndian.AppendUint32(buf, 8)
		buf = binary.BigEndian.AppendUint64(buf, uint64(v))
	}
	for _, column := range c.columns {
		size := len(buf)
		buf = append(buf, 0xff, 0xff, 0xff, 0xff) // NULL
		value, some := column.value(buf, n)
		if some {
			binary.BigEndian.PutUint32(value[size:], uint32(len(value)-size-4))
			buf = value
		}
	}
	c.buffer = buf
	c.next++
}
