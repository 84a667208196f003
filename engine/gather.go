package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// auditLimit is how far back orders are looked for.
const auditLimit = 1000

// Why tells why a job is where it is and when it will run next.
func (e *Engine) Why(ctx context.Context, id string) (Why, error) {
	j, err := e.find(ctx, id)
	if err != nil {
		return Why{}, err
	}
	g := &gathered{job: j, policy: e.byName[j.Policy], lease: e.lease}
	if err := e.gather(ctx, g); err != nil {
		return Why{}, fmt.Errorf("why: %s: %w", id, err)
	}
	return explain(g), nil
}

// gather reads what an explanation needs: a handful of small queries, none of
// which counts a big table.
func (e *Engine) gather(ctx context.Context, g *gathered) (err error) {
	if g.now, err = e.now(ctx); err != nil {
		return err
	}
	if g.attempts, err = e.store.Attempts(ctx, g.job.Seq); err != nil {
		return err
	}
	g.attempts = g.job.Known(g.attempts)
	rows, err := e.store.Audit(ctx, auditLimit)
	if err != nil {
		return err
	}
	id := g.job.ID()
	g.cancelled = newest(rows, "job.cancel", id, g.job.LeasedAt)
	g.retried = newest(rows, "job.retry", id, time.Time{})
	waits := g.job.State == job.Parked && g.job.Cause == retry.CauseTargetDown && g.job.Target != ""
	if !g.job.State.Live() || g.job.State == job.Parked && !waits {
		return nil
	}
	if g.processes, err = e.store.Processes(ctx); err != nil {
		return err
	}
	if waits {
		return e.gatherGate(ctx, g, g.job.Target, rows)
	}
	if g.job.State != job.Queued && g.job.Begun {
		return nil
	}
	if g.queue, err = e.queueRule(ctx, g.job.Queue); err != nil {
		return err
	}
	if err := e.gatherFlow(ctx, g, rows); err != nil || g.job.State != job.Queued {
		return err
	}
	g.paused = pausedBy(rows, g.queue)
	if g.queue.Strict {
		if g.holder, err = e.strictHolder(ctx, g.job.Queue); err != nil {
			return err
		}
	}
	g.ahead, err = e.store.Ahead(ctx, g.now, g.job.Seq, aheadLimit)
	return err
}

// newest returns the newest act on a thing at or after an instant.
func newest(rows []store.AuditRow, act, what string, since time.Time) *store.AuditRow {
	i := slices.IndexFunc(rows, func(r store.AuditRow) bool { return r.Act == act && r.What == what && !r.At.Before(since) })
	if i < 0 {
		return nil
	}
	return &rows[i]
}

// pausedBy returns the order that paused a queue which is paused: the oldest
// since it was last resumed, as pausing twice changes nothing.
func pausedBy(rows []store.AuditRow, q store.QueueRule) *store.AuditRow {
	if !q.Paused {
		return nil
	}
	return firstPause(rows, "queue", q.Name)
}

// queueState finds a queue; false if no job ever went there and nobody paused
// it.
func (e *Engine) queueState(ctx context.Context, name string) (store.QueueState, bool, error) {
	all, err := e.store.Queues(ctx)
	if err != nil {
		return store.QueueState{}, false, err
	}
	for _, q := range all {
		if q.Name == name {
			return q, true, nil
		}
	}
	return store.QueueState{QueueRule: store.QueueRule{Name: name}}, false, nil
}

// queueRule finds what was declared of a queue, if anything.
func (e *Engine) queueRule(ctx context.Context, name string) (store.QueueRule, error) {
	all, err := e.store.QueueRules(ctx)
	for _, q := range all {
		if q.Name == name {
			return q, nil
		}
	}
	return store.QueueRule{Name: name}, err
}

// strictHolder returns the running job of a strict queue, nil if none runs.
func (e *Engine) strictHolder(ctx context.Context, queue string) (*job.Job, error) {
	running, err := e.store.List(ctx, store.Filter{Queue: queue, State: job.Running}, store.Page{Limit: 1})
	if err != nil || len(running) == 0 {
		return nil, err
	}
	return &running[0], nil
}
