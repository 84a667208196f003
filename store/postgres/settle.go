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
			w.requeued, w.early = max(w.requeued, e.wish), min(w.early, e.early)
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
	if !h.FirstStartAt.Equal(a.StartedAt) || *h != (retry.History{Starts: 1, Attempts: 1, Idle: 1, FirstStartAt: h.FirstStartAt, DeadlineAt: h.DeadlineAt}) {
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
	early  time.Duration // least delay, where it is below 0: back to an old place

	seqs, epochs                            []int64
	dues, firsts                            instants
	causes, configs, prints                 column[string]
	results, frees                          [][]byte
	waitsFor, lastDelays                    column[int64]
	starts, attempts, waits, idles, crashes column[int32]

	// The ledger's rows.
	oks                       []pgtype.Bool // NULL = there is none
	began, ended              instants
	numbers, statuses, judged column[int32]
	errors, stacks, heldBy    column[string]
	retryAfters, delays, held column[int64]
	verdicts                  verdicts
}

func (e *ending) grow(n int) {
	e.places, e.seqs = make([]int, 0, n), make([]int64, 0, n)
	e.began, e.ended = make(instants, 0, n), make(instants, 0, n)
	if !e.fresh {
		e.epochs, e.oks = make([]int64, 0, n), make([]pgtype.Bool, 0, n)
		e.dues, e.firsts = make(instants, 0, n), make(instants, 0, n)
	}
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
		if now.IsZero() {
			wait = int64(st.Delay / time.Microsecond)
			if st.Delay%time.Microsecond > 0 {
				wait++
			}
		} else {
			due = store.Due(now, st.Delay)
		}
		e.wakeFor(st)
	}
	h := &st.History
	e.causes.add(string(st.Cause))
	e.configs.add(store.Text(st.Config))
	e.prints.add(store.Text(st.Fingerprint))
	e.dues, e.firsts = append(e.dues, micros(due)), append(e.firsts, micros(h.FirstStartAt))
	e.waitsFor.add(wait)
	e.lastDelays.add(int64(h.LastDelay))
	e.starts.add(int32(h.Starts))
	e.attempts.add(int32(h.Attempts))
	e.waits.add(int32(h.Waits))
	e.idles.add(int32(h.Idle))
	e.crashes.add(int32(h.Crashes))
	e.results = addBytes(e.results, len(e.seqs)-1, st.Result)
	e.frees = addBytes(e.frees, len(e.seqs)-1, freeBytes(&h.Free))
}

// wakeFor remembers who must be told of a job that is queued again.
func (e *ending) wakeFor(st *store.Settle) {
	switch {
	case e.keep:
	case st.Delay > 0:
		e.wish = max(e.wish, later)
	default:
		e.wish, e.early = atOnce, min(e.early, st.Delay)
	}
}

// addBytes adds the value of row n, as a column does.
func addBytes(values [][]byte, n int, value []byte) [][]byte {
	if value == nil {
		return values
	}
	for len(values) < n {
		values = append(values, nil)
	}
	return append(values, value)
}

// addAttempt adds the ledger's row.
func (e *ending) addAttempt(a *job.Attempt, there bool) {
	e.oks = append(e.oks, pgtype.Bool{Bool: a.OK, Valid: there})
	e.began, e.ended = append(e.began, micros(a.StartedAt)), append(e.ended, micros(a.EndedAt))
	e.numbers.add(int32(a.Start))
	e.statuses.add(int32(a.Status))
	e.errors.add(a.Error)
	e.stacks.add(a.Stack)
	e.heldBy.add(a.HeldBy)
	e.held.add(int64(a.Held))
	e.retryAfters.add(int64(a.RetryAfter))
	e.delays.add(int64(a.Delay))
	e.judged.add(e.verdicts.place(verdict{className(a.Class), a.Reason, a.Action, string(a.Cause), string(a.Counted), a.Rule, a.Version}))
}

// verdict is what many rows of the ledger have in common.
type verdict struct{ class, reason, action, cause, counted, rule, version string }

// verdicts are the different ones of a statement.
type verdicts struct {
	all  []verdict
	last int32
	at   map[verdict]int32
}

// place returns where the verdict stands, from 1.
func (v *verdicts) place(want verdict) int32 {
	if v.last > 0 && v.all[v.last-1] == want {
		return v.last
	}
	at, known := v.at[want]
	if !known {
		if v.at == nil {
			v.at = map[verdict]int32{}
		}
		v.all = append(v.all, want)
		at = int32(len(v.all))
		v.at[want] = at
	}
	v.last = at
	return at
}

// arrays returns them column by column.
func (v *verdicts) arrays() []any {
	texts := make([][]string, 7)
	for _, one := range v.all {
		for i, text := range []string{one.class, one.reason, one.action, one.cause, one.counted, one.rule, one.version} {
			texts[i] = append(texts[i], text)
		}
	}
	all := make([]any, len(texts))
	for i := range texts {
		all[i] = texts[i]
	}
	return all
}

// parameters are those of the statement.
func (e *ending) parameters(process int64, now time.Time) []any {
	if e.fresh {
		return []any{process, nullable(now), e.version, e.epoch, e.seqs, e.began, e.ended}
	}
	all := []any{
		process, nullable(now), e.seqs, e.epochs, e.causes.array(), e.configs.array(), e.results, e.dues, e.waitsFor.array(),
		e.firsts, e.lastDelays.array(), e.starts.array(), e.attempts.array(), e.waits.array(), e.idles.array(), e.crashes.array(),
		e.frees, e.prints.array(), e.numbers.array(), e.oks, e.began, e.ended, e.statuses.array(), e.errors.array(),
		e.stacks.array(), e.retryAfters.array(), e.heldBy.array(), e.held.array(),
	}
	all = append(append(all, e.verdicts.arrays()...), e.delays.array(), e.judged.array())
	if e.statement() == "succeed" {
		all = append(all, e.to == job.Cancelled)
	}
	return all
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
