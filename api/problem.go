package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/store"
)

// Problem is every answer that is not the one asked for (RFC 9457).
type Problem struct { //nolint:errname // RFC 9457 calls it so
	Type   string `json:"type" doc:"urn:ebb:problem: and the code"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Code   string `json:"code" doc:"stable word for programs: invalid, not_found, state, taken, unauthorized, forbidden, …"`
	Try    string `json:"try,omitempty" doc:"what to do next"`
}

func (p *Problem) Error() string { return p.Detail }

func problem(status int, code, try, format string, args ...any) *Problem {
	return &Problem{
		Type: "urn:ebb:problem:" + code, Title: http.StatusText(status), Status: status,
		Code: code, Try: try, Detail: fmt.Sprintf(format, args...),
	}
}

// hinted is an error that knows what to do next.
type hinted interface {
	error
	Hint() string
}

// problemOf tells an error to the caller. What is not the caller's fault is
// logged and not told.
func (s *server) problemOf(r *http.Request, err error) *Problem {
	var p *Problem
	switch {
	case errors.As(err, &p):
		return p
	case errors.Is(err, engine.ErrInvalid):
		return problem(http.StatusUnprocessableEntity, "invalid", "mend what is named and ask again; /openapi.json has the form", "%v", err)
	case errors.Is(err, engine.ErrNotFound):
		return problem(http.StatusNotFound, "not_found", "look at the list for what there is", "%v", err)
	case errors.Is(err, engine.ErrTaken):
		return problem(http.StatusConflict, "taken", "set on_conflict to keep or replace", "%v", err)
	case errors.Is(err, engine.ErrState):
		try := "ask /v1/jobs/{id}/why"
		var hint hinted
		if errors.As(err, &hint) {
			try = hint.Hint()
		}
		return problem(http.StatusConflict, "state", try, "%v", err)
	case errors.Is(err, store.ErrConflict):
		return problem(http.StatusConflict, "conflict", "read it and order again", "%v", err)
	case errors.Is(err, access.ErrUnknown):
		return unauthorized()
	case isFull(err):
		s.Log.Error("no room", "method", r.Method, "path", r.URL.Path, "error", err)
		return s.noRoom()
	}
	if r.Context().Err() == nil {
		s.Log.Error("request failed", "method", r.Method, "path", r.URL.Path, "error", err)
	}
	return problem(http.StatusServiceUnavailable, "unavailable", "the same again in a moment; the server's log has the cause", "the store could not be reached")
}

func unauthorized() *Problem {
	return problem(http.StatusUnauthorized, "unauthorized", "send Authorization: Bearer TOKEN; ebb token create makes one",
		"this needs a token that is known, not expired and not revoked")
}

// write sends the problem.
func (p *Problem) write(w http.ResponseWriter) {
	switch p.Status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Bearer realm="ebb"`)
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		w.Header().Set("Retry-After", "1")
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_ = encode(w, p) // the caller has gone
}

// reply sends an answer as JSON.
func reply(w http.ResponseWriter, status int, v any) {
	if status == http.StatusNoContent {
		w.WriteHeader(status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = encode(w, v) // the caller has gone
}

func encode(w http.ResponseWriter, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false) // payloads stand as they were given
	return e.Encode(v)
}
