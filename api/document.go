package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/work/document"
)

// DocumentBatches is what was submitted, newest first.
type DocumentBatches struct {
	Batches []document.Batch `json:"batches"`
}

// DocumentUsage is what was asked of models, by day, provider and model.
type DocumentUsage struct {
	Usage []document.Spent `json:"usage"`
}

// DocumentResult is the result object of a document.
type DocumentResult struct {
	Result json.RawMessage `json:"result"`
}

var errNoDocuments = problem(http.StatusNotFound, "no_documents", "ask a server that processes documents", "this server has none")

// ofDocuments asks about documents, if there are any here and the principal
// may: they are of one queue.
func ofDocuments[In, Out any](s *server, scope access.Scope, ask func(context.Context, document.Ops, *In) (Out, error)) func(context.Context, *In) (Out, error) {
	return func(ctx context.Context, in *In) (Out, error) {
		var nothing Out
		if s.Documents == nil {
			return nothing, errNoDocuments
		}
		if err := may(ctx, scope, document.Queue); err != nil {
			return nothing, err
		}
		out, err := ask(ctx, s.Documents, in)
		if errors.Is(err, document.ErrDenied) {
			return nothing, problem(http.StatusForbidden, "bucket", "add the bucket to document.buckets of the server's configuration", "%v", err)
		}
		return out, err
	}
}

func (s *server) documentRoutes() []route {
	type listIn struct {
		Batch string `query:"batch" doc:"of this batch, in its order; missing = all, newest first"`
		State string `query:"state" doc:"queued, running, succeeded, failed, parked or cancelled"`
		page
	}
	type limitIn struct {
		Limit int `query:"limit" doc:"1 to 1000; 50 unless given"`
	}
	type daysIn struct {
		From string `query:"from" doc:"first day (UTC), such as 2026-02-21; missing = to"`
		To   string `query:"to" doc:"last day; missing = today"`
	}
	add := handle(s, access.Produce, http.MethodPost, "/v1/documents", "submitDocuments", "Submit documents to be processed by a model",
		ofDocuments(s, access.Produce, func(ctx context.Context, ops document.Ops, in *struct{ Body document.Submission }) (document.Batch, error) {
			return ops.Submit(ctx, in.Body)
		}))
	add.status = http.StatusCreated
	return []route{
		add,
		handle(s, access.Read, http.MethodGet, "/v1/documents", "listDocuments", "List documents",
			ofDocuments(s, access.Read, func(ctx context.Context, ops document.Ops, in *listIn) (document.Documents, error) {
				return ops.Documents(ctx, document.Filter{Batch: in.Batch, State: in.State, Cursor: in.Cursor, Limit: in.Limit})
			})),
		handle(s, access.Read, http.MethodGet, "/v1/documents/batches", "listDocumentBatches", "List what was submitted, newest first",
			ofDocuments(s, access.Read, func(ctx context.Context, ops document.Ops, in *limitIn) (DocumentBatches, error) {
				list, err := ops.Batches(ctx, in.Limit)
				return DocumentBatches{list}, err
			})),
		handle(s, access.Read, http.MethodGet, "/v1/documents/usage", "showDocumentUsage", "Tell calls, tokens and cost by day, provider and model",
			ofDocuments(s, access.Read, func(ctx context.Context, ops document.Ops, in *daysIn) (DocumentUsage, error) {
				list, err := ops.Usage(ctx, in.From, in.To)
				return DocumentUsage{list}, err
			})),
		handle(s, access.Operate, http.MethodPost, "/v1/documents/requeue", "requeueDocuments", "Queue failed or parked documents again, with fresh attempts",
			ofDocuments(s, access.Operate, func(ctx context.Context, ops document.Ops, in *struct{ Body document.Selection }) (document.Requeued, error) {
				return ops.Requeue(ctx, in.Body)
			})),
		handle(s, access.Read, http.MethodGet, "/v1/documents/{id}", "showDocument", "Show a document",
			ofDocuments(s, access.Read, func(ctx context.Context, ops document.Ops, in *idIn) (document.Document, error) {
				return ops.Document(ctx, in.ID)
			})),
		handle(s, access.Read, http.MethodGet, "/v1/documents/{id}/result", "readDocumentResult", "Read the result of a document that is done",
			ofDocuments(s, access.Read, func(ctx context.Context, ops document.Ops, in *idIn) (DocumentResult, error) {
				got, err := ops.Result(ctx, in.ID)
				return DocumentResult{got}, err
			})),
		handle(s, access.Read, http.MethodGet, "/v1/documents/{id}/raw", "readDocumentRaw", "Read what is kept of an answer that was refused",
			ofDocuments(s, access.Read, func(ctx context.Context, ops document.Ops, in *idIn) (document.RawAnswer, error) {
				return ops.Raw(ctx, in.ID)
			})),
		handle(s, access.Operate, http.MethodDelete, "/v1/documents/{id}/raw", "dropDocumentRaw", "Forget what is kept of an answer that was refused",
			ofDocuments(s, access.Operate, func(ctx context.Context, ops document.Ops, in *idIn) (none, error) {
				return none{}, ops.DropRaw(ctx, in.ID)
			})),
	}
}
