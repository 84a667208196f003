package api

import (
	"context"
	"net/http"
	"time"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/engine"
)

// Pause is until when a target is paused.
type Pause struct {
	Until time.Time `json:"until,omitzero" doc:"missing = until it is resumed"`
}

// Resume is how a target goes on.
type Resume struct {
	KeepParked bool `json:"keep_parked,omitempty" doc:"leave parked what was parked for the target's sake"`
}

// targetRoutes are of all queues: a target's gate holds work of any.
func (s *server) targetRoutes() []route {
	type pauseIn struct {
		nameIn
		Body Pause
	}
	type resumeIn struct {
		nameIn
		Body Resume
	}
	type targetsIn struct {
		page
		Held bool `query:"held" doc:"true = only those that hold work back; a part looks at 1,000"`
	}
	return []route{
		handle(s, access.Read, http.MethodGet, "/v1/targets", "listTargets", "List targets by name",
			ofAll(access.Read, func(ctx context.Context, in *targetsIn) (engine.Targets, error) {
				p := in.page.engine()
				p.Held = in.Held
				return s.Ops.Targets(ctx, p)
			})),
		handle(s, access.Read, http.MethodGet, "/v1/targets/{name}", "showTarget", "Tell what holds a target's work, until when, and what waits",
			ofAll(access.Read, func(ctx context.Context, in *nameIn) (engine.TargetExplained, error) {
				return s.Ops.Target(ctx, in.Name)
			})),
		handle(s, access.Operate, http.MethodPost, "/v1/targets/{name}/pause", "pauseTarget", "Start nothing that calls a target",
			ofAll(access.Operate, func(ctx context.Context, in *pauseIn) (engine.TargetExplained, error) {
				return s.Ops.PauseTarget(ctx, in.Name, in.Body.Until)
			})),
		handle(s, access.Operate, http.MethodPost, "/v1/targets/{name}/resume", "resumeTarget", "End a pause and a target's being disabled; if breaker or Retry-After hold it, call it now, as the probe",
			ofAll(access.Operate, func(ctx context.Context, in *resumeIn) (engine.Resumed, error) {
				return s.Ops.ResumeTarget(ctx, in.Name, in.Body.KeepParked)
			})),
		handle(s, access.Operate, http.MethodPost, "/v1/targets/{name}/probe", "probeTarget", "Call a target that breaker or Retry-After hold now, as the probe",
			ofAll(access.Operate, func(ctx context.Context, in *nameIn) (engine.Probed, error) {
				return s.Ops.ProbeTarget(ctx, in.Name)
			})),
		handle(s, access.Operate, http.MethodPost, "/v1/targets/{name}/close", "closeTarget", "Close a target's breaker by hand and end a Retry-After",
			ofAll(access.Operate, func(ctx context.Context, in *nameIn) (engine.Resumed, error) {
				return s.Ops.CloseTarget(ctx, in.Name)
			})),
	}
}
