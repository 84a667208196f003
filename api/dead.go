package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/engine"
)

// GroupList is dead letters by what went wrong, most first.
type GroupList struct {
	Groups []engine.Group `json:"groups"`
}

// RedriveList is the unfinished orders, oldest first, then the newest done.
type RedriveList struct {
	Redrives []engine.Redrive `json:"redrives"`
}

// finishFor is how long one request sees a redrive through; the caller asks
// again for the rest, and hears of the progress.
const finishFor = 2 * time.Second

type limitIn struct {
	Limit int `query:"limit" doc:"1 to 1000; 50 unless given"`
}

func (s *server) deadRoutes() []route {
	type groupsIn struct {
		filter
		limitIn
	}
	order := handle(s, access.Operate, http.MethodPost, "/v1/redrives", "redrive", "Order dead letters or parked jobs to be queued again, or count them",
		func(ctx context.Context, in *struct{ Body engine.Order }) (engine.Redrive, error) {
			f, err := own(ctx, access.Operate, in.Body.Filter)
			if err != nil {
				return engine.Redrive{}, err
			}
			in.Body.Filter = f
			return s.Ops.Redrive(ctx, in.Body)
		})
	finish := handle(s, access.Operate, http.MethodPost, "/v1/redrives/{id}/finish", "finishRedrive", "See an order through for up to 2 s, and tell how far it is", s.finish)
	finish.once = false // each request goes on
	return []route{
		handle(s, access.Read, http.MethodGet, "/v1/dead", "listDead", "List dead letters, newest first, or parked jobs with state=parked",
			func(ctx context.Context, in *listIn) (engine.Jobs, error) {
				f, err := own(ctx, access.Read, in.filter.engine())
				if err != nil {
					return engine.Jobs{}, err
				}
				return s.Ops.Dead(ctx, f, in.page.engine())
			}),
		handle(s, access.Read, http.MethodGet, "/v1/dead/groups", "groupDead", "Gather dead letters by what went wrong",
			func(ctx context.Context, in *groupsIn) (GroupList, error) {
				f, err := own(ctx, access.Read, in.filter.engine())
				if err != nil {
					return GroupList{}, err
				}
				list, err := s.Ops.Groups(ctx, f, engine.Page{Limit: in.Limit, Rows: engine.PageRows})
				return GroupList{list}, err
			}),
		handle(s, access.Read, http.MethodGet, "/v1/redrives", "listRedrives", "List orders to queue dead letters again",
			func(ctx context.Context, in *limitIn) (RedriveList, error) {
				list, err := s.Ops.Redrives(ctx, in.Limit)
				p, _ := access.PrincipalOf(ctx)
				return RedriveList{slices.DeleteFunc(list, func(r engine.Redrive) bool { return !p.May(access.Read, r.Filter.Queue) })}, err
			}),
		order, finish,
	}
}

func (s *server) finish(ctx context.Context, in *idIn) (engine.Redrive, error) {
	if p, _ := access.PrincipalOf(ctx); p.Queues != nil {
		list, err := s.Ops.Redrives(ctx, engine.MaxLimit)
		if err != nil {
			return engine.Redrive{}, err
		}
		at := slices.IndexFunc(list, func(r engine.Redrive) bool { return r.ID == in.ID })
		if at < 0 {
			return engine.Redrive{}, problem(http.StatusNotFound, "not_found", "look at the list for what there is", "redrive: %s: no such order", in.ID)
		}
		if err := may(ctx, access.Operate, list[at].Filter.Queue); err != nil {
			return engine.Redrive{}, err
		}
	}
	short, cancel := context.WithTimeout(ctx, finishFor)
	defer cancel()
	r, err := s.Ops.FinishRedrive(short, in.ID, nil)
	if err != nil && errors.Is(short.Err(), context.DeadlineExceeded) && ctx.Err() == nil && r.ID != "" {
		return r, nil // as far as it came
	}
	return r, err
}
