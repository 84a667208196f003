package fetch

import (
	"context"
	"fmt"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// takeOver takes what dead processes had under way. The caller holds the only
// right to work on the store, so whoever is listed is dead: nobody has to wait
// for its lease to end. Being killed is no fault of the page, so it costs the
// page nothing; a page that kills its process shows as a process that dies.
func (r *Runner) takeOver(ctx context.Context) error {
	processes, err := r.o.Store.Processes(ctx)
	if err != nil {
		return fmt.Errorf("fetch: processes: %w", err)
	}
	for _, p := range processes {
		now, err := r.instant(ctx)
		if err != nil {
			return err
		}
		decide := func(j job.Job) store.Settle {
			f := failure.Of(failure.Interrupted)
			f.Reason, f.Err = "killed", fmt.Errorf("process %d (pid %d on %s) ended without a word", p.ID, p.PID, p.Host)
			h := j.History.Started(j.LeasedAt)
			d := retry.Decide(&r.o.Policy, h, f, now, 0)
			return store.Settle{
				Ref: store.Ref{Seq: j.Seq, Epoch: j.Epoch}, To: job.Queued, Delay: d.Delay, History: d.Next,
				Attempt: &job.Attempt{
					Seq: j.Seq, Start: d.Next.Starts, Epoch: j.Epoch, Process: p.ID, StartedAt: j.LeasedAt, EndedAt: now,
					Class: f.Class, Reason: f.Reason, Error: f.Err.Error(), Action: string(d.Action), Delay: d.Delay,
					Counted: d.Counted, Rule: d.Rule, Version: d.Version,
				},
			}
		}
		if _, _, err := r.o.Store.Reap(ctx, r.o.now(), p.ID, p.Beat, decide); err != nil {
			return fmt.Errorf("fetch: taking over from process %d: %w", p.ID, err)
		}
	}
	return nil
}
