package console

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/work/supervise"
)

// runEntry is the pages' place in the navigation.
var runEntry = entry{"runs", "/runs", "Runs"}

// runRoutes are the pages of supervised runs; none where nothing runs them.
func (s *server) runRoutes() map[string]handler {
	if s.Runs == nil {
		return nil
	}
	return map[string]handler{
		"GET /runs":                 s.runs,
		"GET /runs/{name}":          s.run,
		"POST /runs/{name}/release": s.ordered(s.releaseRun),
	}
}

func (s *server) runs(w http.ResponseWriter, r *http.Request) error {
	list, err := s.Runs.List(r.Context())
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(run supervise.Run) bool { return s.mayRead(r, run.Queue) != nil })
	return s.show(w, r, http.StatusOK, "runs.html", page{Title: "Runs", Nav: "runs", Body: list})
}

type runBody struct {
	Run            supervise.Run
	Restarts       []supervise.Restart // newest first
	Stdout, Stderr string
	LogError       string
	Lost           bool // parked for a host that is away
	Retry, Cancel  bool
}

// logBytes is how much of each stream a page shows.
const logBytes = 8 << 10

func (s *server) oneRun(r *http.Request, scope access.Scope) (supervise.Run, error) {
	run, err := s.Runs.Show(r.Context(), r.PathValue("name"))
	if errors.Is(err, store.ErrNotFound) {
		return run, &refusal{http.StatusNotFound, "There is no such run."}
	}
	if err != nil {
		return run, err
	}
	return run, s.may(r, scope, run.Queue)
}

func (s *server) run(w http.ResponseWriter, r *http.Request) error {
	run, err := s.oneRun(r, access.Read)
	if err != nil {
		return err
	}
	b := &runBody{
		Run: run, Restarts: slices.Clone(run.Restarts),
		Lost:   run.State == job.Parked && run.Cause == job.HostLost,
		Retry:  run.State == job.Failed || run.State == job.Parked || run.State == job.Queued,
		Cancel: run.State.Live(),
	}
	slices.Reverse(b.Restarts)
	if b.Stdout, b.Stderr, err = s.Runs.Log(r.Context(), run.Name, logBytes); err != nil {
		b.LogError = err.Error()
	}
	return s.show(w, r, http.StatusOK, "run.html", page{Title: "Run " + run.Name, Nav: "runs", Body: b})
}

func (s *server) releaseRun(w http.ResponseWriter, r *http.Request) error {
	run, err := s.oneRun(r, access.Operate)
	if err != nil {
		return err
	}
	who, _ := access.PrincipalOf(r.Context())
	err = s.Runs.Release(engine.WithActor(r.Context(), who.Name), time.Time{}, who.Name, run.Name)
	if errors.Is(err, store.ErrState) {
		return &refusal{http.StatusConflict, sentence(err.Error())}
	}
	if err != nil {
		return err
	}
	http.Redirect(w, r, "/runs/"+url.PathEscape(run.Name)+"?done=resumed", http.StatusSeeOther)
	return nil
}
