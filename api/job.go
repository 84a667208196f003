package api

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
)

// filter is engine.Filter as query parameters.
type filter struct {
	IDs         []string  `query:"id" doc:"of these jobs alone; may be repeated"`
	State       string    `query:"state" doc:"queued, running, succeeded, failed, parked or cancelled"`
	Cause       string    `query:"cause"`
	Kind        string    `query:"kind"`
	Queue       string    `query:"queue"`
	Target      string    `query:"target"`
	Batch       string    `query:"batch"`
	Class       string    `query:"class" doc:"of the last failure"`
	Fingerprint string    `query:"fingerprint"`
	Key         string    `query:"key" doc:"stands within the key or the unique key"`
	Since       time.Time `query:"since" doc:"enqueued (living) or ended (others) at or after"`
	Until       time.Time `query:"until" doc:"… and before"`
}

func (f *filter) engine() engine.Filter {
	return engine.Filter{
		IDs: f.IDs, State: job.State(f.State), Cause: job.Cause(f.Cause), Kind: f.Kind, Queue: f.Queue, Target: f.Target, Batch: f.Batch,
		Class: f.Class, Fingerprint: f.Fingerprint, Key: f.Key, Since: f.Since, Until: f.Until,
	}
}

// page is engine.Page as query parameters.
type page struct {
	Cursor string `query:"cursor" doc:"next of the part before; empty = from the start"`
	Limit  int    `query:"limit" doc:"1 to 1000; 50 unless given"`
}

func (p *page) engine() engine.Page {
	return engine.Page{Cursor: p.Cursor, Limit: p.Limit, Rows: engine.PageRows}
}

type listIn struct {
	filter
	page
}

type idIn struct {
	ID string `path:"id"`
}

type attempts struct {
	Attempts []engine.Attempt `json:"attempts"`
}

// JobBatch is several jobs, enqueued together or not at all.
type JobBatch struct {
	Jobs []engine.NewJob `json:"jobs"`
}

// JobsAdded answers a JobBatch in its order.
type JobsAdded struct {
	Jobs []engine.Enqueued `json:"jobs"`
}

func (s *server) jobRoutes() []route {
	add := handle(s, access.Produce, http.MethodPost, "/v1/jobs", "enqueueJob", "Enqueue a job",
		func(ctx context.Context, in *struct{ Body engine.NewJob }) (engine.Enqueued, error) {
			added, err := s.enqueue(ctx, []engine.NewJob{in.Body})
			if err != nil {
				return engine.Enqueued{}, err
			}
			return added[0], nil
		})
	batch := handle(s, access.Produce, http.MethodPost, "/v1/jobs/batch", "enqueueJobs", "Enqueue jobs, all or none",
		func(ctx context.Context, in *struct{ Body JobBatch }) (JobsAdded, error) {
			added, err := s.enqueue(ctx, in.Body.Jobs)
			return JobsAdded{added}, err
		})
	add.status, batch.status = http.StatusCreated, http.StatusCreated
	add.enqueued = func(jobs []engine.Enqueued) any { return jobs[0] }
	batch.enqueued = func(jobs []engine.Enqueued) any { return JobsAdded{jobs} }
	return []route{
		add, batch,
		handle(s, access.Read, http.MethodGet, "/v1/jobs", "listJobs", "List jobs, newest first",
			func(ctx context.Context, in *listIn) (engine.Jobs, error) {
				f, err := own(ctx, access.Read, in.filter.engine())
				if err != nil {
					return engine.Jobs{}, err
				}
				return s.Ops.Jobs(ctx, f, in.page.engine())
			}),
		handle(s, access.Read, http.MethodGet, "/v1/recent", "recent", "Tell how the jobs that ended lately ended", s.recent),
		handle(s, access.Read, http.MethodGet, "/v1/jobs/{id}", "showJob", "Show a job", ofJob(s, access.Read, s.Ops.Job)),
		handle(s, access.Read, http.MethodGet, "/v1/jobs/{id}/attempts", "listAttempts", "List the starts of a job",
			ofJob(s, access.Read, func(ctx context.Context, id string) (attempts, error) {
				list, err := s.Ops.Attempts(ctx, id)
				return attempts{list}, err
			})),
		handle(s, access.Read, http.MethodGet, "/v1/jobs/{id}/why", "explainJob", "Tell why a job is where it is and when it runs next", ofJob(s, access.Read, s.Ops.Why)),
		handle(s, access.Operate, http.MethodPost, "/v1/jobs/{id}/retry", "retryJob", "Queue a failed or parked job again, or make a waiting one due", ofJob(s, access.Operate, s.Ops.Retry)),
		handle(s, access.Operate, http.MethodPost, "/v1/jobs/{id}/cancel", "cancelJob", "Cancel a job", ofJob(s, access.Operate, s.Ops.Cancel)),
	}
}

type recentIn struct {
	Queues []string `query:"queue" doc:"of these queues alone; may be repeated"`
}

func (s *server) recent(ctx context.Context, in *recentIn) (engine.Recent, error) {
	if p, _ := access.PrincipalOf(ctx); in.Queues == nil && p.Queues != nil {
		in.Queues = p.Queues
	}
	for _, queue := range in.Queues {
		if err := may(ctx, access.Read, queue); err != nil {
			return engine.Recent{}, err
		}
	}
	return s.Ops.Recent(ctx, in.Queues)
}

// ofJob asks about one job, if the principal may about its queue.
func ofJob[Out any](s *server, scope access.Scope, ask func(context.Context, string) (Out, error)) func(context.Context, *idIn) (Out, error) {
	return func(ctx context.Context, in *idIn) (Out, error) {
		var nothing Out
		if p, _ := access.PrincipalOf(ctx); p.Queues != nil {
			j, err := s.Ops.Job(ctx, in.ID)
			if err != nil {
				return nothing, err
			}
			if err := may(ctx, scope, j.Queue); err != nil {
				return nothing, err
			}
		}
		return ask(ctx, in.ID)
	}
}

// enqueue adds jobs to queues that are the principal's. A unique key beyond a
// queue could show, hold off or replace another queue's job.
func (s *server) enqueue(ctx context.Context, jobs []engine.NewJob) ([]engine.Enqueued, error) {
	for i := range jobs {
		if err := s.mayEnqueue(ctx, access.Produce, &jobs[i]); err != nil {
			return nil, err
		}
	}
	return s.Ops.Enqueue(ctx, jobs...)
}

func (s *server) mayEnqueue(ctx context.Context, scope access.Scope, n *engine.NewJob) error {
	queue := n.Queue
	if queue == "" {
		queue = job.DefaultQueue
	}
	if err := may(ctx, scope, queue); err != nil {
		return err
	}
	p, _ := access.PrincipalOf(ctx)
	if p.Queues != nil && n.Unique != "" && n.UniqueScope != job.UniqueInQueue {
		refused := forbidden(p, scope, "all queues")
		refused.Try = "set unique_scope to queue"
		return refused
	}
	if slices.Contains(s.Reserved, n.Kind) && !p.Has(access.Admin) {
		refused := forbidden(p, access.Admin, "the kind "+n.Kind)
		refused.Try = "the routes of that workload, such as POST /v1/events for webhooks"
		return refused
	}
	return nil
}

// may refuses unless the principal has the scope for the queue; empty = for
// all of them.
func may(ctx context.Context, scope access.Scope, queue string) error {
	p, _ := access.PrincipalOf(ctx)
	switch {
	case p.May(scope, queue):
		return nil
	case queue == "":
		return forbidden(p, scope, "all queues")
	}
	return forbidden(p, scope, "queue "+queue)
}

// own narrows a filter to the principal's queues: the only one, or one that
// must be named.
func own(ctx context.Context, scope access.Scope, f engine.Filter) (engine.Filter, error) {
	p, _ := access.PrincipalOf(ctx)
	if f.Queue == "" && len(p.Queues) == 1 {
		f.Queue = p.Queues[0]
	}
	return f, may(ctx, scope, f.Queue)
}
