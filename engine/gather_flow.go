package engine

import (
	"context"
	"slices"

	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// flowFacts is what may hold one job back beyond its queue.
type flowFacts struct {
	gate       *store.Gate // of its lane; nil = it waits in none
	config     gate.Config
	lane       *store.Lane     // nil = nothing waits there
	order      *store.AuditRow // that paused its target
	kindPaused bool
	kindOrder  *store.AuditRow
	head       *job.Job // an earlier job of its key, which blocks it
}

// gateName is the gate that guards a job's starts; empty = none does. A strict
// queue's limit has no effect; its jobs' targets do.
func gateName(j *job.Job, q *store.QueueRule) string {
	switch {
	case j.Target != "":
		return j.Target
	case q.Limit != (store.QueueLimit{}) && !q.Strict:
		return store.QueueTarget(j.Queue)
	}
	return ""
}

// gatherFlow reads what flow control says of a job that waits. A store
// without it holds nothing back.
func (e *Engine) gatherFlow(ctx context.Context, g *gathered, rows []store.AuditRow) error {
	f := &g.flow
	paused, err := e.store.PausedKinds(ctx)
	if err != nil {
		return err
	}
	if f.kindPaused = slices.Contains(paused, g.job.Kind); f.kindPaused {
		f.kindOrder = firstPause(rows, "kind", g.job.Kind)
	}
	if g.job.Blocked {
		if f.head, err = e.keyHead(ctx, &g.job); err != nil {
			return err
		}
	}
	target := gateName(&g.job, &g.queue)
	if target == "" {
		return nil
	}
	if err := e.gatherGate(ctx, g, target, rows); err != nil {
		return err
	}
	lanes, err := e.store.Lanes(ctx, target, 1)
	if i := slices.IndexFunc(lanes, func(l store.Lane) bool { return l.Queue == g.job.Queue }); i >= 0 {
		f.lane = &lanes[i]
	}
	return err
}

// gatherGate reads what guards the job's starts.
func (e *Engine) gatherGate(ctx context.Context, g *gathered, target string, rows []store.AuditRow) error {
	gates, err := e.store.Gates(ctx, []string{target})
	if err != nil {
		return err
	}
	f := &g.flow
	f.gate = &gates[0]
	f.config, _ = e.limits(f.gate, g.queue.Limit)
	if g.policy != nil && g.job.Target != "" {
		f.config = gate.Of(g.policy) // the job's own, which asks
	}
	f.order = pauseOrder(rows, target)
	return nil
}

// keyScan is how many jobs of a state are looked at for the head of a key.
const keyScan = 1000

// keyHead finds the job that a blocked one waits for: the least earlier one
// of its key among those looked at; nil if it is none of them.
func (e *Engine) keyHead(ctx context.Context, j *job.Job) (*job.Job, error) {
	var head *job.Job
	for _, state := range []job.State{job.Running, job.Parked, job.Failed, job.Queued} {
		list, err := e.store.List(ctx, store.Filter{Queue: j.Queue, State: state}, store.Page{Before: j.Seq, Limit: keyScan})
		if err != nil {
			return nil, err
		}
		for i := range list {
			k := &list[i]
			if k.Key != j.Key || state == job.Failed && k.KeyRule != job.KeyBlock {
				continue
			}
			if head == nil || k.Seq < head.Seq {
				head = k
			}
		}
	}
	return head, nil
}
