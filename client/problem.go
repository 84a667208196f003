package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/ebbhq/ebb/engine"
)

// ErrDenied is returned where the token does not open, or lacks a scope.
var ErrDenied = errors.New("client: access denied")

// Problem is an answer that was not the one asked for. It is the engine's
// error of the same name where there is one: errors.Is tells.
type Problem struct { //nolint:errname // RFC 9457 calls it so
	Status int    `json:"status"`
	Code   string `json:"code"`
	Detail string `json:"detail"`
	Try    string `json:"try"` // what to do next
}

func (p *Problem) Error() string { return p.Detail }

// Hint says what to do next.
func (p *Problem) Hint() string { return p.Try }

func (p *Problem) Unwrap() error {
	switch p.Code {
	case "invalid", "parameter", "json":
		return engine.ErrInvalid
	case "not_found":
		return engine.ErrNotFound
	case "state":
		return engine.ErrState
	case "taken":
		return engine.ErrTaken
	case "unauthorized", "forbidden":
		return ErrDenied
	}
	return nil
}

func parse(a answer) Problem {
	var p Problem
	_ = json.Unmarshal(a.body, &p) // a proxy's page is no problem of ours
	return p
}

func (p *Problem) text(a answer) string {
	if p.Detail != "" {
		return p.Detail
	}
	return fmt.Sprintf("http status %d %s", a.status, http.StatusText(a.status))
}

func problemOf(a answer) error {
	p := parse(a)
	p.Status, p.Detail = a.status, p.text(a)
	return &p
}

// invalid is the engine's refusal of what cannot even be asked.
func invalid(text string) error {
	return &Problem{Status: http.StatusUnprocessableEntity, Code: "invalid", Detail: text}
}
