package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/work/supervise"
)

// RunList is the runs that the principal may read, by name.
type RunList struct {
	Runs []supervise.Run `json:"runs"`
}

// RunLog is the end of what the newest attempt of a run printed.
type RunLog struct {
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
}

// NewRun is a run to be queued.
type NewRun struct {
	Spec  json.RawMessage `json:"spec" doc:"as docs/supervise.md describes the file, in JSON"`
	Queue string          `json:"queue,omitempty" doc:"runs unless given"`
	DueAt time.Time       `json:"due_at,omitzero" doc:"missing = now"`
}

// ChangedRun is what became of a run.
type ChangedRun struct {
	Name  string    `json:"name"`
	Job   string    `json:"job,omitempty"`
	State job.State `json:"state"`
}

var (
	errNoRuns     = problem(http.StatusNotFound, "no_runs", "ask a server that supervises runs", "this server has none")
	errNoCommands = problem(http.StatusForbidden, "no_commands", "supervise: {commands: true} in the server's configuration, or ebb supervise --queue on its machine",
		"this server takes no commands over the network")
)

// ofRuns asks about runs, if there are any.
func ofRuns[In, Out any](s *server, ask func(context.Context, *In) (Out, error)) func(context.Context, *In) (Out, error) {
	return func(ctx context.Context, in *In) (Out, error) {
		var nothing Out
		if s.Runs == nil {
			return nothing, errNoRuns
		}
		out, err := ask(ctx, in)
		switch {
		case errors.Is(err, supervise.ErrLive), errors.Is(err, supervise.ErrUnchanged), errors.Is(err, store.ErrState):
			return nothing, problem(http.StatusConflict, "state", "look at /v1/runs/{name}", "%v", err)
		case errors.Is(err, store.ErrNotFound):
			return nothing, problem(http.StatusNotFound, "not_found", "look at the list for what there is", "%v", err)
		}
		return out, err
	}
}

// ofRun asks about one run, if the principal may see its queue.
func ofRun[Out any](s *server, scope access.Scope, ask func(context.Context, supervise.Run) (Out, error)) func(context.Context, *nameIn) (Out, error) {
	return ofRuns(s, func(ctx context.Context, in *nameIn) (Out, error) {
		var nothing Out
		r, err := s.Runs.Show(ctx, in.Name)
		if err == nil {
			err = may(ctx, scope, r.Queue)
		}
		if err != nil {
			return nothing, err
		}
		return ask(ctx, r)
	})
}

// commanded lets a command in: whoever may send one runs programs on the
// server, so that its configuration must allow it, and the principal be an
// administrator.
func (s *server) commanded(ctx context.Context, text json.RawMessage) (supervise.Spec, error) {
	if !s.RunCommands {
		return supervise.Spec{}, errNoCommands
	}
	if err := may(ctx, access.Admin, ""); err != nil {
		return supervise.Spec{}, err
	}
	spec := supervise.Spec{Version: 1}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err := d.Decode(&spec)
	if err == nil {
		spec, err = supervise.Seal(spec)
	}
	if err != nil {
		return spec, problem(http.StatusUnprocessableEntity, "invalid", "write it as docs/supervise.md says", "spec: %v", err)
	}
	return spec, nil
}

func actorOf(ctx context.Context) string {
	p, _ := access.PrincipalOf(ctx)
	return p.Name
}

func (s *server) runRoutes() []route {
	type newIn struct{ Body NewRun }
	add := handle(s, access.Admin, http.MethodPost, "/v1/runs", "submitRun", "Queue a run; its command is run on the server, whose configuration must allow it",
		ofRuns(s, func(ctx context.Context, in *newIn) (ChangedRun, error) {
			spec, err := s.commanded(ctx, in.Body.Spec)
			if err != nil {
				return ChangedRun{}, err
			}
			got, err := s.Runs.Submit(ctx, time.Time{}, supervise.Submission{Spec: spec, Queue: in.Body.Queue, DueAt: in.Body.DueAt, Actor: actorOf(ctx)})
			if err != nil {
				return ChangedRun{}, err
			}
			return ChangedRun{spec.Name, job.FormatID(got[0].Seq), job.Queued}, nil
		}))
	add.status = http.StatusCreated
	return []route{
		add,
		handle(s, access.Read, http.MethodGet, "/v1/runs", "listRuns", "List supervised runs by name",
			ofRuns(s, func(ctx context.Context, _ *none) (RunList, error) {
				list, err := s.Runs.List(ctx)
				p, _ := access.PrincipalOf(ctx)
				return RunList{slices.DeleteFunc(list, func(r supervise.Run) bool { return !p.May(access.Read, r.Queue) })}, err
			})),
		handle(s, access.Read, http.MethodGet, "/v1/runs/{name}", "showRun", "Tell how a run stands, with every restart and its reason",
			ofRun(s, access.Read, func(_ context.Context, r supervise.Run) (supervise.Run, error) { return r, nil })),
		handle(s, access.Read, http.MethodGet, "/v1/runs/{name}/log", "readRunLog", "Read the end of what a run's newest attempt printed",
			ofRun(s, access.Read, func(ctx context.Context, r supervise.Run) (RunLog, error) {
				out, errs, err := s.Runs.Log(ctx, r.Name, runLogBytes)
				return RunLog{out, errs}, err
			})),
		handle(s, access.Operate, http.MethodPost, "/v1/runs/{name}/release", "releaseRun", "Say that the process of a lost host is gone, and let the run go on",
			ofRun(s, access.Operate, func(ctx context.Context, r supervise.Run) (ChangedRun, error) {
				err := s.Runs.Release(ctx, time.Time{}, actorOf(ctx), r.Name)
				return ChangedRun{r.Name, r.Job, job.Queued}, err
			})),
		s.changeRun(),
	}
}

// runLogBytes is how much of each stream is told.
const runLogBytes = 64 << 10

func (s *server) changeRun() route {
	type body struct {
		Spec json.RawMessage `json:"spec" doc:"whole, as for a new run"`
	}
	type changeIn struct {
		nameIn
		Body body
	}
	return handle(s, access.Admin, http.MethodPut, "/v1/runs/{name}", "changeRun", "Replace a run's spec; one that is parked or failed goes on with fresh restarts",
		ofRuns(s, func(ctx context.Context, in *changeIn) (ChangedRun, error) {
			spec, err := s.commanded(ctx, in.Body.Spec)
			if err != nil {
				return ChangedRun{}, err
			}
			if spec.Name != in.Name {
				return ChangedRun{}, problem(http.StatusUnprocessableEntity, "invalid", "name it "+in.Name, "spec: name: %q is not the run's", spec.Name)
			}
			state, err := s.Runs.Change(ctx, time.Time{}, actorOf(ctx), spec)
			return ChangedRun{Name: spec.Name, State: state}, err
		}))
}
