package console

import (
	"net/http"
	"net/url"

	"github.com/ebbhq/ebb/engine"
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

func (s *server) target(w http.ResponseWriter, r *http.Request) error {
	if err := s.mayRead(r, ""); err != nil {
		return err
	}
	t, err := s.Ops.Target(r.Context(), r.URL.Query().Get("name"))
	if err != nil {
		return err
	}
	return s.show(w, r, http.StatusOK, "target.html", page{Title: "Target " + t.Name, Nav: "targets", Body: t})
}
