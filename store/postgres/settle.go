package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// settle queues the settles, one statement for each way to end.
func (w *turning) settle(settles []store.Settle) {
	if len(settles) == 0 {
		return
	}
	answers := make([]bool, len(settles))
	w.answer.Settled = answers
	seq := func(i int) int64 { return settles[i].Seq }
	all, _ := rounds(len(settles), func(i int) store.Ref { return settles[i].Ref })
	for _, places := range all {
		for _, e := range w.endings(settles, places) {
			w.requeued = max(w.requeued, e.wish)
			if e.fresh { // answers what it refused
				for _, i := range e.places {
					answers[i] = true
				}
			}
			w.query(e.statement(), e.parameters(w.process, w.now), answered(answers, e.places, seq, !e.fresh))
		}
	}
}

// endings puts settles into the statements that end them.
func (w *turning) endings(settles []store.Settle, places []int) []*ending {
	var all []*ending
	var last *ending
	for _, i := range places {
		st := &settles[i]
		want := endingOf(st)
		if last == nil || last.way != want {
			at := slices.IndexFunc(all, func(e *ending) bool { return e.way == want })
			if at < 0 {
				at = len(all)
				all = append(all, &ending{way: want})
				all[at].grow(len(places))
			}
			last = all[at]
		}
		last.add(i, st, w.process, w.exact)
	}
	return all
}

// way is how leases end in one statement.
type way struct {
	to   job.State
	keep bool // the start alone ends
	// fresh are jobs that succeeded at their first start, the most of all:
	// they share the policy's version and the epoch.
	fresh   bool
	version string
	epoch   int64
}

// endingOf returns the way of a settle.
func endingOf(st *store.Settle) way {
	if st.To != job.Succeeded {
		return way{to: st.To, keep: st.Keep}
	}
	a, h := st.Attempt, &st.History
	if a == nil || !a.OK || a.Start != 1 || a.HeldBy != "" || a.Held != 0 || len(st.Result) > 0 {
		return way{to: st.To}
	}
	if !h.FirstStartAt.Equal(a.StartedAt) || *h != (retry.History{Starts: 1, Idle: 1, FirstStartAt: h.FirstStartAt, DeadlineAt: h.DeadlineAt}) {
		return way{to: st.To}
	}
	return way{to: st.To, fresh: true, version: a.Version, epoch: st.Epoch}
}

// statement names the statement of the way.
func (w way) statement() string {
	switch {
	case w.fresh:
		return "succeed_fresh"
	case w.keep:
		return "keep"
	}
	switch w.to {
	case job.Queued:
		return "requeue"
	case job.Failed:
		return "fail"
	case job.Parked:
		return "park"
	}
	return "succeed" // or cancelled: both are done
}

// ending is settles that one statement ends, column by column.
type ending struct {
	way
	places []int
	wish   wish

	seqs, epochs                               []int64
	began, ended                               instants // of the start
	dues, firsts                               instants
	waitsFor, lastDelays                       []int64
	starts, attempts, waits, idles, crashes    []int32
	causes, configs, prints                    []string
	results, frees                             [][]byte
	oks                                        []pgtype.Bool // of the ledger's row; NULL = there is none
	numbers, statuses                          []int32
	classes, reasons, errors, stacks, actions  []string
	becauses, counted, rules, versions, heldBy []string
	retryAfters, delays, held                  []int64
}

func (e *ending) grow(n int) {
	e.places, e.seqs = make([]int, 0, n), make([]int64, 0, n)
	e.began, e.ended = make(instants, 0, n), make(instants, 0, n)
}

func (e *ending) add(i int, st *store.Settle, process int64, now time.Time) {
	e.places, e.seqs = append(e.places, i), append(e.seqs, st.Seq)
	if e.fresh {
		e.began, e.ended = append(e.began, micros(st.Attempt.StartedAt)), append(e.ended, micros(st.Attempt.EndedAt))
		return
	}
	e.epochs = append(e.epochs, st.Epoch)
	e.addJob(st, now)
	var a job.Attempt
	if st.Attempt != nil {
		a = store.Recorded(*st, process, time.Time{})
	}
	e.addAttempt(&a, st.Attempt != nil)
}

// addJob adds what becomes of the job.
func (e *ending) addJob(st *store.Settle, now time.Time) {
	due, wait := time.Time{}, int64(0)
	if st.To == job.Queued {
		if e.wish = max(e.wish, later); st.Delay <= 0 {
			e.wish = atOnce
		}
		if e.keep {
			e.wish = nobody
		}
		if now.IsZero() {
			wait = int64(st.Delay / time.Microsecond)
			if st.Delay%time.Microsecond > 0 {
				wait++
			}
		} else {
			due = store.Due(now, st.Delay)
		}
	}
	h := &st.History
	e.causes, e.configs = append(e.causes, string(st.Cause)), append(e.configs, store.Text(st.Config))
	e.prints, e.results = append(e.prints, store.Text(st.Fingerprint)), append(e.results, st.Result)
	e.dues, e.waitsFor = append(e.dues, micros(due)), append(e.waitsFor, wait)
	e.firsts, e.lastDelays = append(e.firsts, micros(h.FirstStartAt)), append(e.lastDelays, int64(h.LastDelay))
	e.starts, e.attempts = append(e.starts, int32(h.Starts)), append(e.attempts, int32(h.Attempts))
	e.waits, e.idles, e.crashes = append(e.waits, int32(h.Waits)), append(e.idles, int32(h.Idle)), append(e.crashes, int32(h.Crashes))
	e.frees = append(e.frees, freeBytes(&h.Free))
}

// addAttempt adds the ledger's row.
func (e *ending) addAttempt(a *job.Attempt, there bool) {
	e.oks = append(e.oks, pgtype.Bool{Bool: a.OK, Valid: there})
	e.began, e.ended = append(e.began, micros(a.StartedAt)), append(e.ended, micros(a.EndedAt))
	e.numbers, e.statuses = append(e.numbers, int32(a.Start)), append(e.statuses, int32(a.Status))
	e.classes, e.reasons = append(e.classes, className(a.Class)), append(e.reasons, a.Reason)
	e.errors, e.stacks = append(e.errors, a.Error), append(e.stacks, a.Stack)
	e.actions, e.becauses = append(e.actions, a.Action), append(e.becauses, string(a.Cause))
	e.heldBy, e.held = append(e.heldBy, a.HeldBy), append(e.held, int64(a.Held))
	e.counted, e.rules, e.versions = append(e.counted, string(a.Counted)), append(e.rules, a.Rule), append(e.versions, a.Version)
	e.retryAfters, e.delays = append(e.retryAfters, int64(a.RetryAfter)), append(e.delays, int64(a.Delay))
}

// parameters are those of the statement. A column without any value is sent
// empty: to the statement that is NULL in every row, and costs nothing.
func (e *ending) parameters(process int64, now time.Time) []any {
	if e.fresh {
		return []any{process, nullable(now), e.version, e.epoch, e.seqs, e.began, e.ended}
	}
	all := []any{
		process, nullable(now), e.seqs, e.epochs, some(e.causes), some(e.configs), someBytes(e.results), someInstants(e.dues),
		some(e.waitsFor), someInstants(e.firsts), some(e.lastDelays), some(e.starts), some(e.attempts), some(e.waits), some(e.idles),
		some(e.crashes), someBytes(e.frees), some(e.prints), some(e.numbers), e.oks, e.began, e.ended, some(e.classes),
		some(e.reasons), some(e.statuses), some(e.errors), some(e.stacks), some(e.retryAfters), some(e.actions), some(e.becauses),
		some(e.delays), some(e.heldBy), some(e.held), some(e.counted), some(e.rules), some(e.versions),
	}
	if e.statement() == "succeed" {
		all = append(all, e.to == job.Cancelled)
	}
	return all
}

// some returns the column, or an empty one if it holds nothing.
func some[T comparable](column []T) []T {
	var zero T
	if slices.ContainsFunc(column, func(v T) bool { return v != zero }) {
		return column
	}
	return []T{}
}

func someBytes(column [][]byte) [][]byte {
	if slices.ContainsFunc(column, func(v []byte) bool { return v != nil }) {
		return column
	}
	return [][]byte{}
}

func someInstants(column instants) instants {
	if slices.ContainsFunc(column, func(v int64) bool { return v != none }) {
		return column
	}
	return instants{}
}

// SettleTx settles when tx commits: a pgx.Tx, or a *sql.Tx of pgx's stdlib.
func (s *Store) SettleTx(ctx context.Context, tx any, now time.Time, process int64, st store.Settle) (bool, error) {
	r, err := joined(ctx, tx)
	if err != nil {
		return false, err
	}
	if err := store.CheckSettles([]store.Settle{st}); err != nil {
		return false, err
	}
	w := s.turning(process, now)
	e := w.endings([]store.Settle{st}, []int{0})[0]
	ok := e.fresh
	err = r.each(ctx, statement(e.statement()), e.parameters(process, w.now), func(scan scan) error {
		ok = !e.fresh
		var seq int64
		return scan(&seq)
	})
	if err != nil {
		return false, failed("settle", foreign(err))
	}
	if !ok || st.To != job.Queued {
		return ok, nil
	}
	if err := r.exec(ctx, statement("end_ordered"), nullable(w.now)); err != nil {
		return false, failed("settle", err)
	}
	return true, failed("settle", s.wakes.within(ctx, r))
}

// settleIn settles and releases in a transaction of ours.
func (w *turning) settleIn(ctx context.Context, tx pgx.Tx, settles []store.Settle, release []store.Ref) error {
	w.settle(settles)
	w.release(release)
	w.endOrdered()
	if w.batch.Len() == 0 {
		return nil
	}
	return tx.SendBatch(ctx, w.batch).Close()
}
