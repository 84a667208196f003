package api

import (
	"context"
	"net/http"
	"slices"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/engine"
)

type nameIn struct {
	Name string `path:"name"`
}

// QueueList is all queues that the principal may read, by name.
type QueueList struct {
	Queues []engine.Queue `json:"queues"`
}

// KindList is all kinds that are paused or handled.
type KindList struct {
	Kinds []engine.Kind `json:"kinds"`
}

// WorkerList is the registered processes, oldest first.
type WorkerList struct {
	Workers []engine.Worker `json:"workers"`
}

// ActList is the audit, newest first.
type ActList struct {
	Acts []engine.Act `json:"acts"`
}

// PolicyList is the policies known to the server.
type PolicyList struct {
	Policies []engine.Policy `json:"policies"`
}

func (s *server) queueRoutes() []route {
	type limitIn struct {
		nameIn
		Body engine.QueueLimit
	}
	return []route{
		handle(s, access.Read, http.MethodGet, "/v1/queues", "listQueues", "List queues", func(ctx context.Context, _ *none) (QueueList, error) {
			list, err := s.Ops.Queues(ctx)
			p, _ := access.PrincipalOf(ctx)
			return QueueList{slices.DeleteFunc(list, func(q engine.Queue) bool { return !p.May(access.Read, q.Name) })}, err
		}),
		handle(s, access.Read, http.MethodGet, "/v1/queues/{name}", "explainQueue", "Tell what is in a queue, who serves it and why nothing moves", ofQueue(access.Read, s.Ops.ExplainQueue)),
		handle(s, access.Operate, http.MethodPost, "/v1/queues/{name}/pause", "pauseQueue", "Start nothing of a queue", ofQueue(access.Operate, s.Ops.PauseQueue)),
		handle(s, access.Operate, http.MethodPost, "/v1/queues/{name}/resume", "resumeQueue", "Let a paused queue go", ofQueue(access.Operate, s.Ops.ResumeQueue)),
		handle(s, access.Operate, http.MethodPut, "/v1/queues/{name}/limit", "limitQueue", "Bound a queue over all processes; an empty limit ends that",
			func(ctx context.Context, in *limitIn) (engine.Queue, error) {
				if err := may(ctx, access.Operate, in.Name); err != nil {
					return engine.Queue{}, err
				}
				return s.Ops.LimitQueue(ctx, in.Name, in.Body)
			}),
	}
}

// ofQueue asks about one queue, if the principal may.
func ofQueue[Out any](scope access.Scope, ask func(context.Context, string) (Out, error)) func(context.Context, *nameIn) (Out, error) {
	return func(ctx context.Context, in *nameIn) (Out, error) {
		if err := may(ctx, scope, in.Name); err != nil {
			var nothing Out
			return nothing, err
		}
		return ask(ctx, in.Name)
	}
}

// ofAll asks about something that is of no single queue.
func ofAll[In, Out any](scope access.Scope, ask func(context.Context, *In) (Out, error)) func(context.Context, *In) (Out, error) {
	return func(ctx context.Context, in *In) (Out, error) {
		if err := may(ctx, scope, ""); err != nil {
			var nothing Out
			return nothing, err
		}
		return ask(ctx, in)
	}
}

func (s *server) kindRoutes() []route {
	return []route{
		handle(s, access.Read, http.MethodGet, "/v1/workers", "listWorkers", "List the processes that work, or did until lately",
			ofAll(access.Read, func(ctx context.Context, _ *none) (WorkerList, error) {
				list, err := s.Ops.Workers(ctx)
				return WorkerList{list}, err
			})),
		handle(s, access.Read, http.MethodGet, "/v1/kinds", "listKinds", "List the kinds that are paused or handled",
			ofAll(access.Read, func(ctx context.Context, _ *none) (KindList, error) {
				list, err := s.Ops.Kinds(ctx)
				return KindList{list}, err
			})),
		handle(s, access.Operate, http.MethodPost, "/v1/kinds/{name}/pause", "pauseKind", "Start nothing of a kind, in any queue",
			ofAll(access.Operate, func(ctx context.Context, in *nameIn) (engine.Kind, error) { return s.Ops.PauseKind(ctx, in.Name) })),
		handle(s, access.Operate, http.MethodPost, "/v1/kinds/{name}/resume", "resumeKind", "Let a paused kind go",
			ofAll(access.Operate, func(ctx context.Context, in *nameIn) (engine.Kind, error) { return s.Ops.ResumeKind(ctx, in.Name) })),
	}
}

func (s *server) policyRoutes() []route {
	return []route{
		handle(s, access.Operate, http.MethodGet, "/v1/audit", "listActs", "List who ordered what, newest first",
			ofAll(access.Operate, func(ctx context.Context, in *limitIn) (ActList, error) {
				list, err := s.Ops.Acts(ctx, in.Limit)
				return ActList{list}, err
			})),
		handle(s, access.Read, http.MethodGet, "/v1/policies", "listPolicies", "List the policies known here", func(ctx context.Context, _ *none) (PolicyList, error) {
			list, err := s.Ops.Policies(ctx)
			return PolicyList{list}, err
		}),
	}
}
