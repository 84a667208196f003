package history

import (
	"slices"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// checkChange holds that the call was allowed to make this of that, and
// computes what exactly it had to make.
func (w *world) checkChange(c *call, before *job.Job, known bool, after *job.Job) {
	if !known {
		w.truth.spent[after.Seq] = &spending{}
		if after.State != job.Queued || after.Epoch != 0 {
			w.fail("a new %s", brief(after))
		}
		return
	}
	want := *before
	var why string
	switch {
	case before.State == job.Queued && after.State == job.Parked && c.parks(before):
		why = "head failed"
		want.State, want.Cause = job.Parked, job.HeadFailed
	case c.turn != nil && !c.refused:
		why = w.turned(c, &want)
	case c.reaped && before.State == job.Running && before.Process == c.process:
		why = w.reapedJob(c, &want)
	case c.name == "progress" && c.report == refOf(before) && before.Process == c.process:
		why = "progress"
		want.History, want.Progress = c.history, after.Progress
		w.truth.spent[want.Seq].starts = 0
	default:
		why = w.waited(c, &want)
	}
	if why == "" {
		w.fail("%s may not make %s of %s", c.name, brief(after), brief(before))
		return
	}
	if !same(&want, after) {
		w.fail("%s (%s) made %s of %s, want %s", c.name, why, brief(after), brief(before), brief(&want))
	}
}

// waited computes what an operator, a new process or maintenance made of a
// job that nobody runs.
func (w *world) waited(c *call, j *job.Job) (why string) {
	switch c.name {
	case "cancel":
		if c.order == j.Seq && (j.State == job.Queued || j.State == job.Parked) {
			j.State, j.Cause, j.EndedAt = job.Cancelled, retry.CauseNone, store.Instant(c.now)
			return "cancelled"
		}
	case "retry":
		if c.order == j.Seq {
			return w.requeued(c, j)
		}
	case "redrive":
		return w.requeued(c, j)
	case "register":
		if j.State == job.Parked && j.Cause == retry.CauseConfig && j.Config != c.config {
			return w.requeued(c, j)
		}
	case "maintain":
		if j.State == job.Queued && j.DeadlineAt.Before(c.now) {
			j.State, j.Cause, j.EndedAt = job.Failed, retry.CauseExpired, store.Instant(c.now)
			return "expired"
		}
	}
	return ""
}

// turned computes what a turn made of a job: its lease ended, began, went
// back, or was given.
func (w *world) turned(c *call, j *job.Job) (why string) {
	ref := refOf(j)
	if w.truth.holds(c.process, ref) {
		i := slices.IndexFunc(c.turn.Settles, func(st store.Settle) bool { return st.Ref == ref })
		switch {
		case i >= 0:
			why = "settled"
			w.settled(j, c.turn.Settles[i], c.now, c.process)
		case slices.Contains(c.turn.Begin, ref):
			why = "begun"
			if !j.Begun {
				j.Begun, j.LeasedAt = true, store.Instant(c.now)
			}
		case slices.Contains(c.turn.Release, ref):
			why = "released"
			w.released(j, c.now)
		}
	}
	if i := slices.IndexFunc(c.answer.Claimed, func(claimed job.Job) bool { return claimed.Seq == j.Seq }); i >= 0 {
		if j.State != job.Queued || j.DueAt.After(c.now) {
			w.fail("claimed although not due or not queued: %s", brief(j))
		}
		why += "claimed"
		j.State, j.Process, j.LeasedAt, j.Epoch = job.Running, c.process, store.Instant(c.now), j.Epoch+1
		if j.Begun = j.History.Crashes < store.SuspectCrashes; inLane(j) {
			j.Begun = c.answer.Claimed[i].Begun // checkLanes knows better
		}
	}
	return why
}

// reapedJob computes what a reap made of a lease.
func (w *world) reapedJob(c *call, j *job.Job) string {
	if !j.Begun {
		w.released(j, c.now)
		return "put back"
	}
	st, decided := c.settles[j.Seq]
	if !decided {
		w.fail("the reaper was not asked about %s", brief(j))
	}
	w.settled(j, st, c.now, c.process)
	return "crashed"
}

// settled is what a settle must make of a job: state, history, due time and
// the ledger's row together.
func (w *world) settled(j *job.Job, st store.Settle, now time.Time, process int64) {
	ordered := w.truth.ordered[st.Ref]
	due := time.Time{}
	if st.To == job.Queued && (st.Keep || !ordered) {
		due = store.Due(now, st.Delay)
		j.DueAt = due
	}
	j.History = st.History
	j.History.FirstStartAt, j.History.DeadlineAt = store.Instant(st.History.FirstStartAt), j.DeadlineAt
	j.Begun = false
	if st.Keep {
		j.Epoch++
		w.truth.ordered[refOf(j)] = ordered
		w.checkRow(j, st, process, due)
		return
	}
	j.State, j.Cause, j.Process, j.LeasedAt = st.To, st.Cause, 0, time.Time{}
	if st.To == job.Queued && ordered {
		j.State = job.Cancelled
	}
	if !j.State.Live() {
		j.EndedAt = store.Instant(now)
	}
	w.checkRow(j, st, process, due)
}

// checkRow holds that the ledger has got exactly the settle's row.
func (w *world) checkRow(j *job.Job, st store.Settle, process int64, due time.Time) {
	if st.Attempt != nil {
		row := store.Recorded(st, process, due)
		w.truth.ledger[j.Seq] = append(w.truth.ledger[j.Seq], row)
		w.checkSpending(j, &row)
	}
	rows, err := w.store.Attempts(w.ctx, j.Seq)
	w.must("attempts", err)
	if !slices.Equal(rows, w.truth.ledger[j.Seq]) {
		w.fail("the ledger of %s is %+v, want %+v", brief(j), rows, w.truth.ledger[j.Seq])
	}
}

// released is what becomes of a lease that goes back unspent.
func (w *world) released(j *job.Job, now time.Time) {
	if j.State = job.Queued; w.truth.ordered[refOf(j)] {
		j.State, j.EndedAt = job.Cancelled, store.Instant(now)
	}
	j.Process, j.LeasedAt, j.Begun = 0, time.Time{}, false
}

// requeued is what an order to try again makes of a job.
func (w *world) requeued(c *call, j *job.Job) string {
	now := store.Instant(c.now)
	switch j.State {
	case job.Queued:
		if c.name != "retry" || !now.Before(j.DueAt) {
			return ""
		}
		j.DueAt = now
		return "due now"
	case job.Failed, job.Parked:
		if !j.DeadlineAt.IsZero() && j.DeadlineAt.Before(now) {
			j.DeadlineAt = time.Time{}
		}
		j.State, j.Cause, j.EndedAt, j.DueAt = job.Queued, retry.CauseNone, time.Time{}, now
		j.History = retry.History{Starts: j.History.Starts, DeadlineAt: j.DeadlineAt}
		w.truth.spent[j.Seq] = &spending{}
		return "queued again"
	}
	return ""
}
