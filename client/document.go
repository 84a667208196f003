package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"github.com/ebbhq/ebb/work/document"
)

// Documents asks a server about the processing of documents.
type Documents struct{ c *Client }

var _ document.Ops = Documents{}

// Documents returns what asks the client's server about documents.
func (c *Client) Documents() Documents { return Documents{c} }

const documentPath = "/v1/documents"

// deniedError is document.ErrDenied in the server's words.
type deniedError struct{ *Problem }

func (deniedError) Unwrap() error { return document.ErrDenied }

func (d Documents) ask(ctx context.Context, method, path string, query url.Values, in, out any) error {
	err := d.c.ask(ctx, method, documentPath+path, query, in, out)
	var p *Problem
	if errors.As(err, &p) && p.Code == "bucket" {
		return deniedError{p}
	}
	return err
}

// one asks about something of one document; the empty id would be another
// path.
func (d Documents) one(ctx context.Context, method, id, what string, out any) error {
	if id == "" {
		return invalid("document: the id is empty")
	}
	return d.ask(ctx, method, "/"+url.PathEscape(id)+what, nil, nil, out)
}

// Submit takes documents in.
func (d Documents) Submit(ctx context.Context, in document.Submission) (document.Batch, error) {
	var out document.Batch
	err := d.ask(ctx, http.MethodPost, "", nil, in, &out)
	return out, err
}

// Batches lists from newest to oldest.
func (d Documents) Batches(ctx context.Context, limit int) ([]document.Batch, error) {
	var out struct {
		Batches []document.Batch `json:"batches"`
	}
	err := d.ask(ctx, http.MethodGet, "/batches", known(map[string]string{"limit": number(limit)}), nil, &out)
	return out.Batches, err
}

// Documents lists a batch, or all.
func (d Documents) Documents(ctx context.Context, f document.Filter) (document.Documents, error) {
	var out document.Documents
	q := known(map[string]string{"batch": f.Batch, "state": f.State, "cursor": f.Cursor, "limit": number(f.Limit)})
	err := d.ask(ctx, http.MethodGet, "", q, nil, &out)
	return out, err
}

// Document returns one.
func (d Documents) Document(ctx context.Context, id string) (document.Document, error) {
	var out document.Document
	err := d.one(ctx, http.MethodGet, id, "", &out)
	return out, err
}

// Result returns the result object of a document that is done.
func (d Documents) Result(ctx context.Context, id string) (json.RawMessage, error) {
	var out struct {
		Result json.RawMessage `json:"result"`
	}
	err := d.one(ctx, http.MethodGet, id, "/result", &out)
	return out.Result, err
}

// Raw returns what is kept of an answer that was refused.
func (d Documents) Raw(ctx context.Context, id string) (document.RawAnswer, error) {
	var out document.RawAnswer
	err := d.one(ctx, http.MethodGet, id, "/raw", &out)
	return out, err
}

// DropRaw forgets it.
func (d Documents) DropRaw(ctx context.Context, id string) error {
	return d.one(ctx, http.MethodDelete, id, "/raw", nil)
}

// Requeue queues failed or parked documents again.
func (d Documents) Requeue(ctx context.Context, o document.Selection) (document.Requeued, error) {
	var out document.Requeued
	err := d.ask(ctx, http.MethodPost, "/requeue", nil, o, &out)
	return out, err
}

// Usage tells what was asked from one day to another.
func (d Documents) Usage(ctx context.Context, from, to string) ([]document.Spent, error) {
	var out struct {
		Usage []document.Spent `json:"usage"`
	}
	err := d.ask(ctx, http.MethodGet, "/usage", known(map[string]string{"from": from, "to": to}), nil, &out)
	return out.Usage, err
}

// known is the parameters that are given.
func known(all map[string]string) url.Values {
	q := url.Values{}
	for name, value := range all {
		if value != "" {
			q.Set(name, value)
		}
	}
	return q
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}
