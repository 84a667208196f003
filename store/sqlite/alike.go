package sqlite

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// Starts that ended alike are written together, by one statement a table:
// what they share are its parameters, and the few numbers in which they
// differ go as one text. Row by row costs four times as much.

// success is what succeeded starts share.
type success struct {
	epoch   int64
	history retry.History // without instants
	start   int
	heldBy  string
	held    time.Duration
	version string
	results bool // each has one of its own
}

// setback is what failed starts share whose jobs are tried again.
type setback struct {
	epoch       int64
	history     retry.History // without instants and the delay
	fingerprint string
	start       int
	class       failure.Class
	reason      string
	status      int
	err         string
	retryAfter  time.Duration
	action      string
	heldBy      string
	held        time.Duration
	counted     retry.Counted
	rule        string
	version     string
}

// together sorts the settle into a group, if it is of a common kind.
func (b *settling) together(to job.State, st *store.Settle) bool {
	a := st.Attempt
	if a == nil || a.StartedAt.IsZero() || a.EndedAt.IsZero() || st.History.FirstStartAt.IsZero() {
		return false
	}
	h := st.History
	h.FirstStartAt, h.DeadlineAt = time.Time{}, time.Time{}
	switch {
	case to == job.Succeeded && a.OK:
		like := success{epoch: st.Epoch, history: h, start: a.Start, heldBy: a.HeldBy, held: a.Held, version: a.Version, results: len(st.Result) > 0}
		b.successes[like] = append(b.successes[like], st)
	case to == job.Queued && !a.OK && a.Stack == "" && a.Cause == retry.CauseNone && h.LastDelay == a.Delay:
		h.LastDelay = 0
		like := setback{
			epoch: st.Epoch, history: h, fingerprint: st.Fingerprint, start: a.Start, class: a.Class, reason: a.Reason,
			status: a.Status, err: a.Error, retryAfter: a.RetryAfter, action: a.Action, heldBy: a.HeldBy, held: a.Held,
			counted: a.Counted, rule: a.Rule, version: a.Version,
		}
		b.failures[like] = append(b.failures[like], st)
	default:
		return false
	}
	return true
}

// succeed moves a group of jobs to ebb_done.
func (b *settling) succeed(like success, list []*store.Settle) error {
	if len(list) < minAlike {
		return b.each(job.Succeeded, list)
	}
	seqs := inOrder(list)
	h := like.history
	args := []any{
		micros(b.instant()), like.epoch,
		number(h.Starts), number(h.Attempts), number(h.Waits), number(h.Idle), number(h.Crashes), freeText(h.Free), number(h.LastDelay),
		int64(like.start), b.process, orNull(store.Text(like.heldBy)), number(like.held), orNull(like.version), number(h.Held),
	}
	name, width := "done_alike", 3
	if like.results {
		name, width = "done_alike_results", 5
	}
	for _, part := range b.inStretches(seqs) {
		results := b.desk.results[:0]
		numbers := b.numbers(part, list, width, func(numbers []byte, st *store.Settle) {
			putInstants(numbers, st.History.FirstStartAt, st.Attempt.StartedAt, st.Attempt.EndedAt)
			if like.results {
				putPadded(numbers[3*numberWidth:], int64(len(results)+1))
				putPadded(numbers[4*numberWidth:], int64(len(st.Result)))
				results = append(results, st.Result...)
			}
		})
		list = list[len(part):]
		all := append([]any{numbers}, args...)
		if b.desk.results = results; like.results {
			all = append(all, results)
		}
		if err := b.runFor(name, part, all...); err != nil {
			return err
		}
	}
	return b.runForEach("job_end", seqs)
}

// numbers returns the numbers of a part, so many for each row, as put writes
// those of the settles, which are the first of the list.
func (b *settling) numbers(part []int64, list []*store.Settle, width int, put func(numbers []byte, st *store.Settle)) []byte {
	width *= numberWidth
	n, at := b.places(part)
	numbers := slices.Grow(b.desk.numbers[:0], width*n)[:width*n]
	b.desk.numbers = numbers
	for i := range part {
		put(numbers[width*at(i):], list[i])
	}
	return numbers
}

// again lets a group of jobs wait for their next start.
func (b *settling) again(like setback, list []*store.Settle) error {
	if len(list) < minAlike {
		return b.each(job.Queued, list)
	}
	for _, part := range b.inStretches(inOrder(list)) {
		numbers := b.numbers(part, list, 5, func(numbers []byte, st *store.Settle) {
			putInstants(numbers, st.History.FirstStartAt, st.Attempt.StartedAt, st.Attempt.EndedAt)
			putPadded(numbers[3*numberWidth:], int64(st.Attempt.Delay))
			putInstants(numbers[4*numberWidth:], store.DueAgain(b.now, st))
		})
		list = list[len(part):]
		if err := b.againPart(&like, part, numbers); err != nil {
			return err
		}
	}
	return nil
}

func (b *settling) againPart(like *setback, seqs []int64, numbers []byte) error {
	h := &like.history
	class, fault := className(like.class), orNull(store.Text(like.err))
	err := b.runFor(
		"again_alike", seqs, numbers, like.epoch,
		number(h.Starts), number(h.Attempts), number(h.Waits), number(h.Idle), number(h.Crashes), freeText(h.Free),
		class, fault, orNull(store.Text(like.fingerprint)), orNull(like.version), number(h.Held),
	)
	if err != nil {
		return err
	}
	return b.runFor(
		"attempt_alike", seqs, numbers, like.epoch, int64(like.start), b.process, class, orNull(store.Text(like.reason)),
		number(like.status), fault, number(like.retryAfter), orNull(like.action), orNull(store.Text(like.heldBy)),
		number(like.held), orNull(like.counted), orNull(like.rule), orNull(like.version),
	)
}

// inOrder sorts a group by sequence number and returns the numbers.
func inOrder(list []*store.Settle) []int64 {
	slices.SortFunc(list, func(a, b *store.Settle) int { return cmp.Compare(a.Seq, b.Seq) })
	seqs := make([]int64, len(list))
	for i, st := range list {
		seqs[i] = st.Seq
	}
	return seqs
}

// each settles a group that is too small one by one.
func (b *settling) each(to job.State, list []*store.Settle) error {
	for _, st := range list {
		if err := b.one(to, st); err != nil {
			return err
		}
	}
	return nil
}

// minAlike is from how many rows on one statement for all is worth its array.
const minAlike = 4

// numberWidth is how many digits each number of a group has.
const numberWidth = 20

// putInstants writes numbers one behind the other.
func putInstants(b []byte, instants ...time.Time) {
	for i, at := range instants {
		putPadded(b[i*numberWidth:], store.Instant(at).UnixMicro())
	}
}

// putPadded writes a number right-aligned.
func putPadded(b []byte, n int64) {
	var digits [numberWidth]byte
	text := strconv.AppendInt(digits[:0:numberWidth], n, 10)
	blank := numberWidth - len(text)
	for i := range blank {
		b[i] = ' '
	}
	copy(b[blank:], text)
}
