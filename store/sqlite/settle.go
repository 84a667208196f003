package sqlite

import (
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// settling collects what a batch of settles does to all its rows together.
type settling struct {
	ending
	process   int64
	successes map[success][]*store.Settle
	failures  map[setback][]*store.Settle
}

// settle ends leases as told and answers row by row.
func (t *tx) settle(process int64, settles []store.Settle) ([]bool, error) {
	answers := answersFor(len(settles))
	held, err := t.held(process, refsOf(settles))
	if err != nil {
		return nil, err
	}
	b := &settling{ending: ending{tx: t}, process: process, successes: map[success][]*store.Settle{}, failures: map[setback][]*store.Settle{}}
	for i := range settles {
		st := &settles[i]
		row, ok := held.take(st.Ref)
		if answers[i] = ok; !ok {
			continue
		}
		to := st.To
		if st.Keep {
			if err := b.keep(held, row, st); err != nil {
				return nil, err
			}
			continue
		}
		if to == job.Queued && row.ordered {
			to = job.Cancelled
		}
		b.add(row, st.Seq, to)
		if row.key == "" && b.together(to, st) {
			continue
		}
		if err := b.one(to, st); err != nil {
			return nil, err
		}
	}
	return answers, b.finish()
}

// keep ends a start and lets its lease wait for the next.
func (b *settling) keep(held *leases, row lease, st *store.Settle) error {
	row.epoch++
	held.rows[st.Seq] = row
	if err := b.one(job.Queued, st); err != nil {
		return err
	}
	_, err := b.run("lease_keep", st.Seq)
	return err
}

// finish writes what was collected.
func (b *settling) finish() error {
	for like, list := range b.successes {
		if err := b.succeed(like, list); err != nil {
			return err
		}
	}
	for like, list := range b.failures {
		if err := b.again(like, list); err != nil {
			return err
		}
	}
	return b.ending.finish()
}

// one ends one lease by itself: ledger, history and the row's next place.
func (b *settling) one(to job.State, st *store.Settle) error {
	var due time.Time
	if to == job.Queued {
		due = store.DueAgain(b.now, st)
	}
	var ledger, start *job.Attempt
	if st.Attempt != nil {
		a := store.Recorded(*st, b.process, due)
		if ended := to == job.Succeeded || to == job.Cancelled; a.OK && ended {
			start = &a
		} else {
			ledger = &a
		}
	}
	if ledger != nil {
		if err := b.record(ledger); err != nil {
			return err
		}
	}
	if err := b.remember(st, due); err != nil {
		return err
	}
	switch to {
	case job.Queued:
		return nil
	case job.Failed:
		return b.toDead(st.Seq, st.Cause)
	case job.Parked:
		return b.toParked(st.Seq, st.Cause, st.Config)
	case job.Succeeded:
		return b.toDone(st.Seq, to, st.Result, start)
	}
	return b.toDone(st.Seq, to, nil, start)
}

// remember writes what the start leaves in the row.
func (t *tx) remember(st *store.Settle, due time.Time) error {
	name, args := "remember", append([]any{st.Epoch, micros(due)}, historyArgs(st.History)...)
	if a := st.Attempt; a != nil && !a.OK {
		name = "remember_failure"
		args = append(args, className(a.Class), orNull(store.Text(a.Error)), orNull(store.Text(st.Fingerprint)), orNull(a.Version))
	}
	_, err := t.run(name, append(args, st.Seq)...)
	return err
}

// record adds a row to the ledger.
func (t *tx) record(a *job.Attempt) error {
	_, err := t.run(
		"attempt_add", a.Seq, a.Epoch, int64(a.Start), a.Process, micros(a.StartedAt), micros(a.EndedAt), flag(a.OK),
		className(a.Class), orNull(a.Reason), number(a.Status), orNull(a.Error), number(a.RetryAfter), orNull(a.Action),
		orNull(a.Cause), number(a.Delay), micros(a.DueAt), orNull(a.HeldBy), number(a.Held), orNull(a.Counted),
		orNull(a.Rule), orNull(a.Version), orNull(a.Stack),
	)
	return err
}

// toDone moves a row of ebb_job; start is the one that succeeded, if any.
func (t *tx) toDone(seq int64, state job.State, result []byte, start *job.Attempt) error {
	args := []any{string(state), micros(t.instant()), blob(result), nil, nil, nil, nil, nil, nil, nil, seq}
	if a := start; a != nil {
		copy(args[3:], []any{
			int64(a.Start), a.Process, micros(a.StartedAt), micros(a.EndedAt), orNull(a.HeldBy), number(a.Held), orNull(a.Version),
		})
	}
	return t.moveRow("done_one", seq, args...)
}

func (t *tx) toDead(seq int64, cause job.Cause) error {
	return t.moveRow("dead_one", seq, string(cause), micros(t.instant()), seq)
}

func (t *tx) toParked(seq int64, cause job.Cause, config string) error {
	return t.moveRow("parked_one", seq, string(cause), orNull(config), seq)
}

// moveRow copies a row of ebb_job elsewhere and deletes it.
func (t *tx) moveRow(name string, seq int64, args ...any) error {
	if _, err := t.run(name, args...); err != nil {
		return err
	}
	return t.runFor("job_end", []int64{seq})
}
