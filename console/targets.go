package console

import (
	"net/http"
	"net/url"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/gate"
)

type targetsBody struct {
	Targets []engine.Target
	Next    string
}

func (s *server) targets(w http.ResponseWriter, r *http.Request) error {
	if err := s.mayRead(r, ""); err != nil {
		return err
	}
	list, err := s.Ops.Targets(r.Context(), engine.Page{Cursor: r.URL.Query().Get("cursor"), Limit: pageSize})
	if err != nil {
		return err
	}
	b := &targetsBody{Targets: list.Targets}
	if list.Next != "" {
		b.Next = "/targets?" + url.Values{"cursor": {list.Next}}.Encode()
	}
	return s.show(w, r, http.StatusOK, "targets.html", page{Title: "Targets", Nav: "targets", Body: b})
}

// targetBody is a target with the orders that make sense.
type targetBody struct {
	engine.TargetExplained
	Probe, Close bool
}

func newTargetBody(t engine.TargetExplained) *targetBody {
	asked := !t.AskedUntil.IsZero()
	open := t.Breaker.Phase == gate.Open || t.Breaker.Phase == gate.HalfOpen
	stopped := t.Paused || t.Disabled != ""
	return &targetBody{
		TargetExplained: t,
		Probe:           !stopped && !t.Breaker.Probing && (open || asked),
		Close:           t.Breaker.Phase != gate.Closed || asked,
	}
}

func (s *server) target(w http.ResponseWriter, r *http.Request) error {
	if err := s.mayRead(r, ""); err != nil {
		return err
	}
	t, err := s.Ops.Target(r.Context(), r.URL.Query().Get("name"))
	if err != nil {
		return err
	}
	return s.show(w, r, http.StatusOK, "target.html", page{Title: "Target " + t.Name, Nav: "targets", Body: newTargetBody(t)})
}
