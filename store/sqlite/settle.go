package sqlite

import (
	"slices"
	"strconv"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// settle ends leases as told and answers row by row. Successes that differ
// only in their times are written together.
func (t *tx) settle(held *leases, settles []store.Settle) ([]bool, error) {
	answers := answersFor(len(settles))
	alike := map[success][]*store.Settle{}
	for i := range settles {
		st := &settles[i]
		row, ok := held.of(st.Ref)
		if answers[i] = ok; !ok {
			continue
		}
		if err := t.end(held, st.Seq); err != nil {
			return nil, err
		}
		to := st.To
		if to == job.Queued && row.ordered {
			to = job.Cancelled
		}
		t.move(row.queue, job.Running, to)
		if like, ok := plainSuccess(st); ok {
			alike[like] = append(alike[like], st)
		} else if err := t.settleOne(held.process, to, *st); err != nil {
			return nil, err
		}
	}
	for like, list := range alike {
		if err := t.succeed(like, list); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

// settleOne ends one lease: ledger, history and the row's next place.
func (t *tx) settleOne(process int64, to job.State, st store.Settle) error {
	var due time.Time
	if to == job.Queued {
		due = store.Due(t.now, st.Delay)
	}
	var attempt *job.Attempt
	if st.Attempt != nil {
		a := store.Recorded(st, process, due)
		attempt = &a
	}
	stays := attempt != nil && attempt.OK && (to == job.Succeeded || to == job.Cancelled)
	if attempt != nil && !stays {
		if err := t.record(attempt); err != nil {
			return err
		}
	}
	if to == job.Queued {
		return t.waitAgain(&st, due)
	}
	if _, err := t.run("remember", append(historyArgs(st.History), st.Seq)...); err != nil {
		return err
	}
	if attempt != nil && !attempt.OK {
		if _, err := t.run("last_failure", append(failureArgs(&st), st.Seq)...); err != nil {
			return err
		}
	}
	switch {
	case to == job.Failed:
		return t.toDead(st.Seq, st.Cause)
	case to == job.Parked:
		return t.toParked(&st)
	case stays:
		return t.toDone(st.Seq, to, result(to, &st), attempt)
	}
	return t.toDone(st.Seq, to, result(to, &st), nil)
}

// result is kept of what succeeded alone.
func result(to job.State, st *store.Settle) []byte {
	if to != job.Succeeded {
		return nil
	}
	return st.Result
}

// waitAgain puts the row back until due.
func (t *tx) waitAgain(st *store.Settle, due time.Time) error {
	args := append([]any{micros(due)}, historyArgs(st.History)...)
	name := "wait_again"
	if st.Attempt != nil && !st.Attempt.OK {
		name, args = "wait_again_failed", append(args, failureArgs(st)...)
	}
	_, err := t.run(name, append(args, st.Seq)...)
	return err
}

// failureArgs are the values of last_class, last_error, fingerprint, version.
func failureArgs(st *store.Settle) []any {
	a := st.Attempt
	return []any{className(a.Class), orNull(store.Text(a.Error)), orNull(store.Text(st.Fingerprint)), orNull(a.Version)}
}

// record adds a row to the ledger.
func (t *tx) record(a *job.Attempt) error {
	_, err := t.run(
		"attempt_add", a.Seq, a.Epoch, int64(a.Start), a.Process, micros(a.StartedAt), micros(a.EndedAt), flag(a.OK),
		className(a.Class), orNull(a.Reason), int64(a.Status), orNull(a.Error), int64(a.RetryAfter), orNull(a.Action),
		orNull(a.Cause), int64(a.Delay), micros(a.DueAt), orNull(a.HeldBy), int64(a.Held), orNull(a.Counted),
		orNull(a.Rule), orNull(a.Version), orNull(a.Stack),
	)
	return err
}

// toDone moves a row of ebb_job; start is the one that succeeded, if any.
func (t *tx) toDone(seq int64, state job.State, result []byte, start *job.Attempt) error {
	args := []any{string(state), micros(t.instant()), blob(result), nil, nil, nil, nil, nil, nil, nil, seq}
	if a := start; a != nil {
		copy(args[3:], []any{
			int64(a.Start), a.Process, micros(a.StartedAt), micros(a.EndedAt), orNull(a.HeldBy), int64(a.Held), orNull(a.Version),
		})
	}
	if _, err := t.run("done_one", args...); err != nil {
		return err
	}
	_, err := t.run("job_end", seq)
	return err
}

func (t *tx) toDead(seq int64, cause job.Cause) error {
	if _, err := t.run("dead_one", string(cause), micros(t.instant()), seq); err != nil {
		return err
	}
	_, err := t.run("job_end", seq)
	return err
}

func (t *tx) toParked(st *store.Settle) error {
	if _, err := t.run("parked_one", string(st.Cause), orNull(st.Config), st.Seq); err != nil {
		return err
	}
	_, err := t.run("job_end", st.Seq)
	return err
}

// success is what is the same of starts that can be settled together.
type success struct {
	history retry.History // without instants
	start   int
	heldBy  string
	held    time.Duration
	version string
}

// plainSuccess reports whether only its times tell the settle from others.
func plainSuccess(st *store.Settle) (success, bool) {
	a := st.Attempt
	if st.To != job.Succeeded || a == nil || !a.OK || len(st.Result) > 0 ||
		a.StartedAt.IsZero() || a.EndedAt.IsZero() || st.History.FirstStartAt.IsZero() {
		return success{}, false
	}
	h := st.History
	h.FirstStartAt, h.DeadlineAt = time.Time{}, time.Time{}
	return success{history: h, start: a.Start, heldBy: a.HeldBy, held: a.Held, version: a.Version}, true
}

// instantWidth is how many digits each instant of done_alike has.
const instantWidth = 20

// succeed moves a group of jobs to ebb_done.
func (t *tx) succeed(like success, list []*store.Settle) error {
	seqs := make([]int64, len(list))
	times := make([]byte, 0, 3*instantWidth*len(list))
	for i, st := range list {
		seqs[i] = st.Seq
		for _, at := range []time.Time{st.History.FirstStartAt, st.Attempt.StartedAt, st.Attempt.EndedAt} {
			times = appendPadded(times, store.Instant(at).UnixMicro())
		}
	}
	h := like.history
	_, err := t.run(
		"done_alike", jsonList(seqs), times, micros(t.instant()),
		int64(h.Starts), int64(h.Attempts), int64(h.Waits), int64(h.Idle), int64(h.Crashes), freeText(h.Free), int64(h.LastDelay),
		int64(like.start), orNull(store.Text(like.heldBy)), int64(like.held), orNull(like.version),
	)
	if err != nil {
		return err
	}
	if slices.Sort(seqs); isRun(seqs) {
		_, err = t.run("job_end_range", seqs[0], seqs[len(seqs)-1])
	} else {
		_, err = t.run("job_end_list", jsonList(seqs))
	}
	return err
}

// appendPadded writes a number right-aligned.
func appendPadded(b []byte, n int64) []byte {
	var digits [instantWidth]byte
	text := strconv.AppendInt(digits[:0:instantWidth], n, 10)
	for range instantWidth - len(text) {
		b = append(b, ' ')
	}
	return append(b, text...)
}
