package sqlite

import (
	"bytes"
	"database/sql/driver"
	"encoding/json"
	"strconv"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// row is one row as the driver gives it. The tables are STRICT, so a value is
// of its column's type or NULL, which reads as zero.
type row []driver.Value

func (r row) int(i int) int64 {
	n, _ := r[i].(int64)
	return n
}

func (r row) float(i int) float64 {
	f, _ := r[i].(float64)
	return f
}

func (r row) flag(i int) bool { return r.int(i) != 0 }

func (r row) text(i int) string {
	s, _ := r[i].(string)
	return s
}

func (r row) bytes(i int) []byte {
	b, _ := r[i].([]byte)
	return b
}

func (r row) at(i int) time.Time {
	us, ok := r[i].(int64)
	if !ok {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

func (r row) span(i int) time.Duration { return time.Duration(r.int(i)) }

func (r row) class(i int) (failure.Class, error) {
	name, ok := r[i].(string)
	if !ok {
		return failure.Unknown, nil
	}
	return failure.ParseClass(name)
}

// micros is how an instant is stored.
func micros(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

// number is how a number that mostly is 0 is stored.
func number[T ~int | ~int64](n T) any {
	if n == 0 {
		return nil
	}
	return int64(n)
}

// orNull is how an optional text is stored.
func orNull[T ~string](s T) any {
	if s == "" {
		return nil
	}
	return string(s)
}

// className is how a class is stored.
func className(c failure.Class) any {
	if c == failure.Unknown {
		return nil
	}
	return c.String()
}

// orEmpty is how bytes that are never NULL are stored.
func orEmpty(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// blob is how optional bytes are stored.
func blob(b []byte) any {
	if len(b) == 0 {
		return nil
	}
	return b
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// Columns of a whole job, as the views have them.
const (
	colPast    = 14 // starts to progress
	colArgs    = 27
	colProcess = 28
)

// readJob reads a row of a view.
func readJob(r row) (job.Job, error) {
	j := job.Job{
		Seq: r.int(0),
		New: job.New{
			Queue: r.text(1), Kind: r.text(2), Priority: int(r.int(3)), DueAt: r.at(4),
			Policy: r.text(7), Target: r.text(8), Key: r.text(9), Unique: r.text(10), DeadlineAt: r.at(11),
			Batch: r.text(12), Trace: r.text(13), Args: r.bytes(colArgs),
		},
		Epoch: r.int(5), EnqueuedAt: r.at(6),
		Process: r.int(colProcess), LeasedAt: r.at(29), Begun: r.flag(30),
		State: job.State(r.text(31)), Cause: job.Cause(r.text(32)), EndedAt: r.at(33), Config: r.text(34), Result: r.bytes(35),
	}
	err := readPast(&j, r[colPast:])
	j.KeyRule, j.History.Held, j.Blocked = job.KeyRule(r.text(36)), r.span(37), r.flag(38)
	return j, err
}

// readPast reads what starts left behind: starts to progress.
func readPast(j *job.Job, r row) error {
	h, err := readHistory(r)
	if err != nil {
		return err
	}
	h.DeadlineAt = j.DeadlineAt
	j.History, j.LastError, j.Fingerprint, j.Version, j.Progress = h, r.text(9), r.text(10), r.text(11), r.bytes(12)
	j.LastClass, err = r.class(8)
	return err
}

func readHistory(r row) (retry.History, error) {
	h := retry.History{
		Starts: int(r.int(0)), Attempts: int(r.int(1)), Waits: int(r.int(2)), Idle: int(r.int(3)), Crashes: int(r.int(4)),
		FirstStartAt: r.at(6), LastDelay: r.span(7),
	}
	free, ok := r[5].(string)
	if !ok {
		return h, nil
	}
	counts := map[failure.Class]uint8{}
	if err := json.Unmarshal([]byte(free), &counts); err != nil {
		return h, err
	}
	for class, n := range counts {
		h.Free[class] = n
	}
	return h, nil
}

// historyArgs are the values of starts to last_delay, and held_for.
func historyArgs(h retry.History) []any {
	return []any{
		number(h.Starts), number(h.Attempts), number(h.Waits), number(h.Idle), number(h.Crashes), freeText(h.Free),
		micros(store.Instant(h.FirstStartAt)), number(h.LastDelay), number(h.Held),
	}
}

// freeText writes the counts by class name, such as {"server":2}.
func freeText(free retry.FreeCounts) any {
	if free == (retry.FreeCounts{}) {
		return nil
	}
	text := []byte{'{'}
	for class, n := range free {
		if n == 0 {
			continue
		}
		if len(text) > 1 {
			text = append(text, ',')
		}
		text = strconv.AppendQuote(text, failure.Class(class).String())
		text = append(text, ':')
		text = strconv.AppendUint(text, uint64(n), 10)
	}
	return string(append(text, '}'))
}

// jsonList writes numbers as a JSON array.
func jsonList(numbers []int64) string {
	text := append(make([]byte, 0, 8*len(numbers)+2), '[')
	for i, n := range numbers {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, n, 10)
	}
	return string(append(text, ']'))
}

// jsonTexts writes strings as a JSON array.
func jsonTexts(list []string) string {
	if list == nil {
		return "[]"
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(list); err != nil {
		panic(err) // strings always encode
	}
	return string(bytes.TrimSpace(b.Bytes()))
}
