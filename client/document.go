package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"github.com/ebbhq/ebb/work/document/form"
)

// Documents asks a server about the processing of documents.
type Documents struct{ c *Client }

var _ form.Ops = Documents{}

// Documents returns what asks the client's server about documents.
func (c *Client) Documents() Documents { return Documents{c} }

const documentPath = "/v1/documents"

// deniedError is form.ErrDenied in the server's words.
type deniedError struct{ *Problem }

func (deniedError) Unwrap() error { return form.ErrDenied }

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
func (d Documents) Submit(ctx context.Context, in form.Submission) (form.Batch, error) {
	var out form.Batch
	err := d.ask(ctx, http.MethodPost, "", nil, in, &out)
	return out, err
}

// Batches lists from newest to oldest.
func (d Documents) Batches(ctx context.Context, limit int) ([]form.Batch, error) {
	var out struct {
		Batches []form.Batch `json:"batches"`
	}
	err := d.ask(ctx, http.MethodGet, "/batches", known(map[string]string{"limit": number(limit)}), nil, &out)
	return out.Batches, err
}

// Documents lists a batch, or all.
func (d Documents) Documents(ctx context.Context, f form.Filter) (form.Documents, error) {
	var out form.Documents
	q := known(map[string]string{"batch": f.Batch, "state": f.State, "cursor": f.Cursor, "limit": number(f.Limit)})
	err := d.ask(ctx, http.MethodGet, "", q, nil, &out)
	return out, err
}

// Document returns one.
func (d Documents) Document(ctx context.Context, id string) (form.Document, error) {
	var out form.Document
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
func (d Documents) Raw(ctx context.Context, id string) (form.RawAnswer, error) {
	var out form.RawAnswer
	err := d.one(ctx, http.MethodGet, id, "/raw", &out)
	return out, err
}

// DropRaw forgets it.
func (d Documents) DropRaw(ctx context.Context, id string) error {
	return d.one(ctx, http.MethodDelete, id, "/raw", nil)
}

// Requeue queues failed or parked documents again.
func (d Documents) Requeue(ctx context.Context, o form.Selection) (form.Requeued, error) {
	var out form.Requeued
	err := d.ask(ctx, http.MethodPost, "/requeue", nil, o, &out)
	return out, err
}

// Usage tells what was asked from one day to another.
func (d Documents) Usage(ctx context.Context, from, to string) ([]form.Spent, error) {
	var out struct {
		Usage []form.Spent `json:"usage"`
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
