package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

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
			if !e.back.IsZero() && (w.back.IsZero() || e.back.Before(w.back)) {
				w.back = e.back
			}
			if e.fresh { // answers what it refused
				for _, i := range e.places {
					answers[i] = true
				}
			}
			sql, args := e.query(w.process, w.now)
			read := answered(answers, e.places, seq, !e.fresh)
			w.batch.Queue(sql, args...).Query(func(rows pgx.Rows) error { return eachRow(rows, read) })
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
		if last == nil || last.way != want || len(last.verdicts.all) >= maxVerdicts {
			at := slices.IndexFunc(all, func(e *ending) bool { return e.way == want && len(e.verdicts.all) < maxVerdicts })
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
	if a == nil || !a.OK || a.Start != 1 || a.HeldBy != "" || a.Held != 0 {
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

// settleColumns are the arrays of the settle statements after the sequence
// numbers, results and free counts, $6 and on: of a settle's own values, by
// its place, and of those that it has in common with others, by its verdict.
// Subscripts are cheap where elements have one width: so only short arrays are
// of text, and no element is NULL.
var settleColumns = []struct{ name, kind, none string }{
	{"s_epoch", "bigint", ""},
	{"s_due_at", "timestamptz", "'-infinity'"},
	{"s_wait", "bigint", "0"},
	{"s_first_start_at", "timestamptz", "'-infinity'"},
	{"s_last_delay", "bigint", "0"},
	{"s_starts", "int", "0"},
	{"s_attempts", "int", "0"},
	{"s_waits", "int", "0"},
	{"s_idle", "int", "0"},
	{"s_crashes", "int", "0"},
	{"s_held", "bigint", "0"},
	{"a_start", "int", "0"},
	{"a_outcome", "int", "0"},
	{"a_started_at", "timestamptz", "'-infinity'"},
	{"a_ended_at", "timestamptz", "'-infinity'"},
	{"a_retry_after", "bigint", "0"},
	{"a_held", "bigint", "0"},
	{"a_delay", "bigint", "0"},
	{"verdict", "int", ""},
	{"s_cause", "text", "''"},
	{"s_config", "text", "''"},
	{"s_fingerprint", "text", "''"},
	{"a_class", "text", "''"},
	{"a_reason", "text", "''"},
	{"a_error", "text", "''"},
	{"a_stack", "text", "''"},
	{"a_action", "text", "''"},
	{"a_cause", "text", "''"},
	{"a_held_by", "text", "''"},
	{"a_counted", "text", "''"},
	{"a_rule", "text", "''"},
	{"a_version", "text", "''"},
	{"a_status", "int", "0"},
}

// settleFragments returns what stands for each column in the statements.
func settleFragments() map[string]string {
	fragments := map[string]string{}
	by := "place"
	for i, c := range settleColumns {
		text := fmt.Sprintf("($%d::%s[])[%s]", i+6, c.kind, by)
		if c.none != "" {
			text = fmt.Sprintf("nullif(%s, %s)", text, c.none)
		}
		fragments[c.name] = text
		if c.name == "verdict" {
			by = text
		}
	}
	return fragments
}

// ending is settles that one statement ends, column by column.
type ending struct {
	way
	places []int
	wish   wish
	early  time.Duration // least delay, where it is below 0: back to an old place
	back   time.Time     // least due time that was named: back to an old place

	seqs, epochs                            []int64
	results, frees                          [][]byte
	dues, firsts, began, ended              moments
	waitsFor, lastDelays                    column[int64]
	starts, attempts, waits, idles, crashes column[int32]
	numbers, outcomes, judged               column[int32]
	heldFor, retryAfters, held, delays      column[int64]
	verdicts                                verdicts
}

func (e *ending) grow(n int) {
	e.places, e.seqs = make([]int, 0, n), make([]int64, 0, n)
	e.began.values, e.ended.values = make(instants, 0, n), make(instants, 0, n)
	if !e.fresh {
		e.epochs = make([]int64, 0, n)
	}
}

func (e *ending) add(i int, st *store.Settle, process int64, now time.Time) {
	e.places, e.seqs = append(e.places, i), append(e.seqs, st.Seq)
	if e.fresh {
		e.began.add(st.Attempt.StartedAt)
		e.ended.add(st.Attempt.EndedAt)
		e.results = addBytes(e.results, len(e.seqs)-1, st.Result)
		return
	}
	e.epochs = append(e.epochs, st.Epoch)
	e.addJob(st, now)
	e.addAttempt(st, process)
}

// addJob adds what becomes of the job.
func (e *ending) addJob(st *store.Settle, now time.Time) {
	due, wait := time.Time{}, int64(0)
	if st.To == job.Queued {
		if now.IsZero() && st.DueAt.IsZero() {
			wait = int64(st.Delay / time.Microsecond)
			if st.Delay%time.Microsecond > 0 {
				wait++
			}
		} else {
			due = store.DueAgain(now, st)
		}
		e.wakeFor(st)
	}
	h := &st.History
	e.dues.add(due)
	e.firsts.add(h.FirstStartAt)
	e.waitsFor.add(wait)
	e.lastDelays.add(int64(h.LastDelay))
	e.starts.add(int32(h.Starts))
	e.attempts.add(int32(h.Attempts))
	e.waits.add(int32(h.Waits))
	e.idles.add(int32(h.Idle))
	e.crashes.add(int32(h.Crashes))
	e.heldFor.add(int64(h.Held))
	e.results = addBytes(e.results, len(e.seqs)-1, st.Result)
	e.frees = addBytes(e.frees, len(e.seqs)-1, freeBytes(&h.Free))
}

// wakeFor remembers who must be told of a job that is queued again.
func (e *ending) wakeFor(st *store.Settle) {
	switch {
	case e.keep:
	case !st.DueAt.IsZero():
		if e.wish = atOnce; e.back.IsZero() || st.DueAt.Before(e.back) {
			e.back = st.DueAt
		}
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

// Outcomes of a start.
const (
	succeeded = 1
	broken    = 2
)

// addAttempt adds the ledger's row.
func (e *ending) addAttempt(st *store.Settle, process int64) {
	v := verdict{cause: string(st.Cause), config: store.Text(st.Config)}
	var a job.Attempt
	outcome := int32(0)
	if st.Attempt != nil {
		a = store.Recorded(*st, process, time.Time{})
		v.class, v.reason, v.error, v.stack, v.status = className(a.Class), a.Reason, a.Error, a.Stack, int32(a.Status)
		v.action, v.because, v.heldBy, v.counted = a.Action, string(a.Cause), a.HeldBy, string(a.Counted)
		v.rule, v.version = a.Rule, a.Version
		if outcome = succeeded; !a.OK {
			outcome, v.fingerprint = broken, store.Text(st.Fingerprint)
		}
	}
	e.outcomes.add(outcome)
	e.began.add(a.StartedAt)
	e.ended.add(a.EndedAt)
	e.numbers.add(int32(a.Start))
	e.held.add(int64(a.Held))
	e.retryAfters.add(int64(a.RetryAfter))
	e.delays.add(int64(a.Delay))
	e.judged.add(e.verdicts.place(v))
}

// query returns the statement with its parameters.
func (e *ending) query(process int64, now time.Time) (string, []any) {
	if e.fresh {
		return statement("succeed_fresh"), []any{process, nullable(now), e.version, e.epoch, e.seqs, e.began.array(), e.ended.array(), e.results}
	}
	all := []any{
		process, nullable(now), e.seqs, e.results, e.frees, e.epochs, e.dues.array(), e.waitsFor.array(), e.firsts.array(),
		e.lastDelays.array(), e.starts.array(), e.attempts.array(), e.waits.array(), e.idles.array(), e.crashes.array(), e.heldFor.array(),
		e.numbers.array(), e.outcomes.array(), e.began.array(), e.ended.array(), e.retryAfters.array(), e.held.array(),
		e.delays.array(), e.judged.array(),
	}
	all = append(append(all, e.verdicts.arrays()...), e.to == job.Cancelled)
	c := chosen[e.statement()]
	return c.text, c.of(all)
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
	sql, args := e.query(process, w.now)
	err = r.each(ctx, sql, args, func(scan scan) error {
		ok = !e.fresh
		var seq int64
		return scan(&seq)
	})
	if err != nil {
		return false, failed("settle", foreign(err))
	}
	if !ok {
		return false, nil
	}
	if st.To == job.Queued {
		if err := r.exec(ctx, statement("end_ordered"), nullable(w.now)); err != nil {
			return false, failed("settle", err)
		}
	}
	keyed := s.hasKey(st.Seq) && !st.Keep
	if keyed {
		if err := promoteIn(ctx, r, w.now, st.Seq); err != nil {
			return false, failed("settle", err)
		}
	}
	if !keyed && st.To != job.Queued {
		return true, nil
	}
	return true, failed("settle", s.wakes.within(ctx, r))
}

// settleIn settles and releases in a transaction of ours.
func (w *turning) settleIn(ctx context.Context, tx pgx.Tx, settles []store.Settle, release []store.Ref, keyed bool) error {
	w.settle(settles)
	w.release(release)
	w.endOrdered()
	if keyed {
		w.promote()
	}
	if w.batch.Len() == 0 {
		return nil
	}
	return tx.SendBatch(ctx, w.batch).Close()
}
