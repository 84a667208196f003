package console

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/work/fetch"
)

// fetchEntry is the pages' place in the navigation.
var fetchEntry = entry{"fetches", "/fetches", "Fetches"}

// fetchScope is what tokens name for fetches.
const fetchScope = "fetch"

// fetchRoutes are the pages of fetches; none where nothing fetches.
func (s *server) fetchRoutes() map[string]handler {
	if s.Fetches == nil {
		return nil
	}
	return map[string]handler{
		"GET /fetches":      s.fetches,
		"GET /fetches/{id}": s.fetch,
	}
}

type fetchesBody struct {
	Fetches []fetch.Fetch
	Next    string
}

func (s *server) fetches(w http.ResponseWriter, r *http.Request) error {
	if err := s.mayRead(r, fetchScope); err != nil {
		return err
	}
	list, err := s.Fetches.Fetches(r.Context(), r.URL.Query().Get("cursor"), pageSize)
	if err != nil {
		return err
	}
	for i := range list {
		if list[i].Tally == nil {
			if list[i], err = s.Fetches.Fetch(r.Context(), list[i].ID); err != nil {
				return err
			}
		}
	}
	b := &fetchesBody{Fetches: list}
	if len(list) == pageSize {
		b.Next = "/fetches?" + url.Values{"cursor": {list[len(list)-1].ID}}.Encode()
	}
	return s.show(w, r, http.StatusOK, "fetches.html", page{Title: "Fetches", Nav: "fetches", Body: b})
}

type fetchBody struct {
	fetch.Fetch
	Outcomes []fetchOutcome
	Waves    []fetch.Wave
	Share    float64 // in percent
	Jobs     string
}

type fetchOutcome struct {
	Name  fetch.Outcome
	Count int64
}

func (s *server) fetch(w http.ResponseWriter, r *http.Request) error {
	if err := s.mayRead(r, fetchScope); err != nil {
		return err
	}
	f, err := s.Fetches.Fetch(r.Context(), r.PathValue("id"))
	if errors.Is(err, store.ErrNotFound) {
		return &refusal{http.StatusNotFound, "There is no such fetch."}
	}
	if err != nil {
		return err
	}
	b := &fetchBody{Fetch: f, Waves: append(append([]fetch.Wave(nil), f.Earlier...), f.Waves...), Share: 100 * f.Tally.Share()}
	for _, o := range fetch.Outcomes() {
		b.Outcomes = append(b.Outcomes, fetchOutcome{o, f.Tally.Of(o)})
	}
	b.Jobs = "/jobs?" + url.Values{"batch": {f.ID}, "state": {"failed"}}.Encode()
	return s.show(w, r, http.StatusOK, "fetch.html", page{Title: "Fetch " + f.ID, Nav: "fetches", Body: b})
}
