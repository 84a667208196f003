package crashtest

import (
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
)

// job judges one job by its evidence and its ledger.
func (j *judge) job(order Order, kept *job.Job) {
	runs, rows := j.runs[kept.Seq], j.in.Ledger[kept.Seq]
	j.end(order, kept, rows)
	j.leases(runs)
	j.ledger(kept, runs, rows)
	j.finished(kept, runs)
	j.dues(order, runs, rows)
}

// end: the job ended as its order says, and spent what it may.
func (j *judge) end(order Order, kept *job.Job, rows []job.Attempt) {
	want := order.end()
	if kept.State != want.state || kept.Cause != want.cause {
		j.say(kept.Seq, "%s %s ended as %s(%s), want %s(%s): %s", order.Kind, order.Name, kept.State, kept.Cause, want.state, want.cause, kept.LastError)
		return
	}
	spent := 0
	for i := range rows {
		if rows[i].OK || rows[i].Counted == retry.CountedAttempt {
			spent++
		}
	}
	if want.attempts != anySpent && (spent != want.attempts || spent > attempts) {
		j.say(kept.Seq, "%s spent %d attempts of %d, want %d", order.Kind, spent, attempts, want.attempts)
	}
	if kept.State != job.Succeeded {
		return
	}
	if string(kept.Result) != order.Name {
		j.say(kept.Seq, "its result is %q, want %q", kept.Result, order.Name)
	}
	if order.Kind == Steps && string(kept.Progress) != lastStep {
		j.say(kept.Seq, "its progress is %q, want %q", kept.Progress, lastStep)
	}
}

// leases: epochs go up with time, and no handler starts while another of the
// same job runs, unless that one's process was taken for dead.
func (j *judge) leases(runs []*run) {
	for i := 1; i < len(runs); i++ {
		before, after := runs[i-1], runs[i]
		if before.Start >= after.Start {
			j.say(after.Seq, "start %d has epoch %d, start %d epoch %d", before.Start, before.Epoch, after.Start, after.Epoch)
		}
		if after.Mono >= before.until {
			continue
		}
		if !j.lost[before.Process] {
			j.say(after.Seq, "double lease: process %d started epoch %d while process %d ran epoch %d",
				after.Process, after.Epoch, before.Process, before.Epoch)
			continue
		}
		j.out.Overlaps++
	}
}

// ledger: every start has its row, every row its start or a crash, and what
// was acknowledged is what is written.
func (j *judge) ledger(kept *job.Job, runs []*run, rows []job.Attempt) {
	byEpoch := map[int64]*job.Attempt{}
	for i := range rows {
		row := &rows[i]
		if row.Start != i+1 || i > 0 && row.Epoch <= rows[i-1].Epoch {
			j.say(kept.Seq, "row %d of the ledger is start %d under epoch %d: starts or epochs are missing", i+1, row.Start, row.Epoch)
		}
		byEpoch[row.Epoch] = row
		if row.Class == failure.Crash {
			j.out.Crashes++
			if !j.dead[row.Process] {
				j.say(kept.Seq, "a crash is recorded of process %d, which neither died nor was taken for dead", row.Process)
			}
		}
	}
	if kept.History.Starts != len(rows) {
		j.say(kept.Seq, "it remembers %d starts, the ledger %d", kept.History.Starts, len(rows))
	}
	for _, r := range runs {
		row := byEpoch[r.Epoch]
		if row == nil {
			j.say(kept.Seq, "start %d under epoch %d is not in the ledger", r.Start, r.Epoch)
			continue
		}
		j.row(r, row)
		delete(byEpoch, r.Epoch)
	}
	for epoch, row := range byEpoch {
		if row.Class == failure.Crash {
			j.out.Silent++
		} else {
			j.say(kept.Seq, "the ledger's start %d under epoch %d never began", row.Start, epoch)
		}
	}
}

// row compares one start with its row.
func (j *judge) row(r *run, row *job.Attempt) {
	if row.Start != r.Start || row.Process != r.Process {
		j.say(r.Seq, "epoch %d was start %d by process %d, the ledger says start %d by process %d", r.Epoch, r.Start, r.Process, row.Start, row.Process)
	}
	crash := row.Class == failure.Crash
	switch {
	case r.acked != nil && (crash || row.OK != (r.acked.Text == string(job.Succeeded))):
		j.say(r.Seq, "epoch %d was acknowledged as %s, the ledger says ok=%v %v", r.Epoch, r.acked.Text, row.OK, row.Class)
	case !crash && r.end == nil:
		j.say(r.Seq, "epoch %d has an outcome in the ledger, but its handler never ended", r.Epoch)
	case !crash && row.OK != (r.end.Text == "ok"):
		j.say(r.Seq, "epoch %d ended as %q, the ledger says ok=%v", r.Epoch, r.end.Text, row.OK)
	}
	if crash && r.end != nil {
		j.out.Duplicates++
	}
}

// finished: after an acknowledged end nothing starts any more.
func (j *judge) finished(kept *job.Job, runs []*run) {
	over := time.Duration(-1)
	for _, r := range runs {
		if over >= 0 && r.Mono > over {
			j.say(kept.Seq, "epoch %d started after the job's end was acknowledged", r.Epoch)
		}
		if r.acked == nil || r.acked.Text == string(job.Queued) {
			continue
		}
		if r.acked.Text != string(kept.State) {
			j.say(kept.Seq, "epoch %d was acknowledged as %s, the job is %s", r.Epoch, r.acked.Text, kept.State)
		}
		over = r.acked.Mono
	}
}

// dues: no start before its time.
func (j *judge) dues(order Order, runs []*run, rows []job.Attempt) {
	if len(runs) > 0 && runs[0].Wall.Before(order.DueAt) {
		j.say(runs[0].Seq, "started at %s, %s before it was due", runs[0].Wall, order.DueAt.Sub(runs[0].Wall))
	}
	for i := range rows {
		for _, r := range runs {
			if r.Epoch > rows[i].Epoch && r.Wall.Before(rows[i].DueAt) {
				j.say(r.Seq, "epoch %d started %s before the due time that start %d was given", r.Epoch, rows[i].DueAt.Sub(r.Wall), rows[i].Start)
			}
		}
	}
}
