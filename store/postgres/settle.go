package postgres

import (
	"context"
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
	all, _ := rounds(len(settles), func(i int) store.Ref { return settles[i].Ref })
	for _, places := range all {
		for _, e := range w.sorted(settles, places) {
			w.wakeFor(settles, e)
			w.query(e.statement, e.parameters(w.process, w.now), marks(answers, e.places, func(i int) int64 { return settles[i].Seq }))
		}
	}
}

// wakeFor remembers whether somebody must be told of what is queued again.
func (w *turning) wakeFor(settles []store.Settle, e *ending) {
	if e.statement != "requeue" {
		return
	}
	w.requeued = max(w.requeued, later)
	for _, i := range e.places {
		if settles[i].Delay <= 0 {
			w.requeued = atOnce
		}
	}
}

// sorted puts settles into the statements that end them.
func (w *turning) sorted(settles []store.Settle, places []int) []*ending {
	var endings []*ending
	by := map[string]*ending{}
	for _, i := range places {
		st := &settles[i]
		name, version := ends(st)
		key := name + "\x00" + version
		e := by[key]
		if e == nil {
			e = &ending{statement: name, version: version}
			if name == "cancel" {
				e.statement, e.cancelled = "succeed", true
			}
			by[key] = e
			endings = append(endings, e)
		}
		e.add(i, st, w.process, w.exact)
	}
	return endings
}

// ends names the statement for a settle. Fresh successes of one policy version
// go together.
func ends(st *store.Settle) (name, version string) {
	switch st.To {
	case job.Queued:
		return "requeue", ""
	case job.Failed:
		return "fail", ""
	case job.Parked:
		return "park", ""
	case job.Cancelled:
		return "cancel", ""
	}
	a, h := st.Attempt, &st.History
	fresh := retry.History{Starts: 1, Idle: 1, FirstStartAt: h.FirstStartAt, DeadlineAt: h.DeadlineAt}
	if a != nil && a.OK && a.Start == 1 && a.HeldBy == "" && a.Held == 0 && len(st.Result) == 0 && *h == fresh {
		return "succeed_fresh", a.Version
	}
	return "succeed", ""
}

// ending is settles that one statement ends, column by column.
type ending struct {
	statement string
	version   string // of succeed_fresh
	cancelled bool   // of succeed
	places    []int

	seqs, epochs                                    []int64
	causes, configs, prints                         []string
	results, frees                                  [][]byte
	dues, firsts                                    []pgtype.Timestamptz
	waitsFor, lastDelays                            []int64
	starts, attempts, waits, idles, crashes         []int32
	began, ended                                    []pgtype.Timestamptz
	numbers, statuses                               []int32
	oks                                             []pgtype.Bool
	classes, reasons, errors, stacks, actions, held []string
	becauses, counted, rules, versions              []string
	retryAfters, delays, holds                      []int64
}

func (e *ending) add(i int, st *store.Settle, process int64, now time.Time) {
	e.places = append(e.places, i)
	e.seqs, e.epochs = append(e.seqs, st.Seq), append(e.epochs, st.Epoch)
	e.firsts = append(e.firsts, nullable(store.Instant(st.History.FirstStartAt)))
	var a job.Attempt
	if st.Attempt != nil {
		a = store.Recorded(*st, process, time.Time{})
	}
	e.began, e.ended = append(e.began, nullable(a.StartedAt)), append(e.ended, nullable(a.EndedAt))
	if e.statement == "succeed_fresh" {
		return
	}
	e.addJob(st, now)
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
	}
	h := &st.History
	e.causes, e.configs = append(e.causes, string(st.Cause)), append(e.configs, store.Text(st.Config))
	e.prints, e.results = append(e.prints, store.Text(st.Fingerprint)), append(e.results, st.Result)
	e.dues, e.waitsFor = append(e.dues, nullable(due)), append(e.waitsFor, wait)
	e.lastDelays, e.frees = append(e.lastDelays, int64(h.LastDelay)), append(e.frees, freeBytes(&h.Free))
	e.starts, e.attempts = append(e.starts, int32(h.Starts)), append(e.attempts, int32(h.Attempts))
	e.waits, e.idles, e.crashes = append(e.waits, int32(h.Waits)), append(e.idles, int32(h.Idle)), append(e.crashes, int32(h.Crashes))
}

// addAttempt adds the ledger's row.
func (e *ending) addAttempt(a *job.Attempt, there bool) {
	e.oks = append(e.oks, pgtype.Bool{Bool: a.OK, Valid: there})
	e.numbers, e.statuses = append(e.numbers, int32(a.Start)), append(e.statuses, int32(a.Status))
	e.classes, e.reasons = append(e.classes, className(a.Class)), append(e.reasons, a.Reason)
	e.errors, e.stacks = append(e.errors, a.Error), append(e.stacks, a.Stack)
	e.actions, e.becauses = append(e.actions, a.Action), append(e.becauses, string(a.Cause))
	e.held, e.holds = append(e.held, a.HeldBy), append(e.holds, int64(a.Held))
	e.counted, e.rules, e.versions = append(e.counted, string(a.Counted)), append(e.rules, a.Rule), append(e.versions, a.Version)
	e.retryAfters, e.delays = append(e.retryAfters, int64(a.RetryAfter)), append(e.delays, int64(a.Delay))
}

// parameters are those of the statement.
func (e *ending) parameters(process int64, now time.Time) []any {
	if e.statement == "succeed_fresh" {
		return []any{process, nullable(now), e.version, e.seqs, e.epochs, e.firsts, e.began, e.ended}
	}
	all := []any{
		process, nullable(now), e.seqs, e.epochs, e.causes, e.configs, e.results, e.dues, e.waitsFor,
		e.firsts, e.lastDelays, e.starts, e.attempts, e.waits, e.idles, e.crashes, e.frees,
		e.prints, e.numbers, e.oks, e.began, e.ended, e.classes, e.reasons,
		e.statuses, e.errors, e.stacks, e.retryAfters, e.actions, e.becauses, e.delays, e.held,
		e.holds, e.counted, e.rules, e.versions,
	}
	if e.statement == "succeed" {
		all = append(all, e.cancelled)
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
	e := w.sorted([]store.Settle{st}, []int{0})[0]
	ok := false
	err = r.each(ctx, statement(e.statement), e.parameters(process, w.now), func(scan scan) error {
		ok = true
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
