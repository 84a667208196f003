package api

import (
	"context"
	"net/http"
	"slices"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
)

// PeriodicList is all schedules of the principal's queues, by name.
type PeriodicList struct {
	Periodics []engine.Periodic `json:"periodics"`
}

func queueOfPeriodic(p *engine.Periodic) string {
	if p.Job.Queue == "" {
		return job.DefaultQueue
	}
	return p.Job.Queue
}

func (s *server) periodicRoutes() []route {
	type putIn struct {
		nameIn
		Body engine.Periodic
	}
	return []route{
		handle(s, access.Read, http.MethodGet, "/v1/periodics", "listPeriodics", "List schedules", func(ctx context.Context, _ *none) (PeriodicList, error) {
			list, err := s.Ops.Periodics(ctx)
			p, _ := access.PrincipalOf(ctx)
			return PeriodicList{slices.DeleteFunc(list, func(one engine.Periodic) bool { return !p.May(access.Read, queueOfPeriodic(&one)) })}, err
		}),
		handle(s, access.Operate, http.MethodPut, "/v1/periodics/{name}", "putPeriodic", "Add a schedule or replace the one of its name",
			func(ctx context.Context, in *putIn) (engine.Periodic, error) {
				if in.Body.Name != in.Name {
					return engine.Periodic{}, problem(http.StatusUnprocessableEntity, "invalid", "give the same name twice", "periodic: the path names %q, the body %q", in.Name, in.Body.Name)
				}
				if err := s.mayEnqueue(ctx, access.Operate, &in.Body.Job); err != nil {
					return engine.Periodic{}, err
				}
				if err := s.mayReplace(ctx, in.Name); err != nil {
					return engine.Periodic{}, err
				}
				return s.Ops.PutPeriodic(ctx, in.Body)
			}),
		handle(s, access.Operate, http.MethodDelete, "/v1/periodics/{name}", "dropPeriodic", "Forget a schedule",
			func(ctx context.Context, in *nameIn) (none, error) {
				if err := s.mayReplace(ctx, in.Name); err != nil {
					return none{}, err
				}
				return none{}, s.Ops.DropPeriodic(ctx, in.Name)
			}),
	}
}

// mayReplace refuses to touch another queue's schedule.
func (s *server) mayReplace(ctx context.Context, name string) error {
	if p, _ := access.PrincipalOf(ctx); p.Queues == nil {
		return nil
	}
	list, err := s.Ops.Periodics(ctx)
	if err != nil {
		return err
	}
	for i := range list {
		if list[i].Name == name {
			return may(ctx, access.Operate, queueOfPeriodic(&list[i]))
		}
	}
	return nil
}
