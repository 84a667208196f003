package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/work/fetch"
)

// FetchList is a part of the fetches, the newest of each name first.
type FetchList struct {
	Fetches []fetch.Fetch `json:"fetches"`
	Next    string        `json:"next,omitempty" doc:"cursor of the next part; missing = that was all"`
}

var errNoFetches = problem(http.StatusNotFound, "no_fetches", "ask a server that fetches", "this server has none")

// fetchScope is what tokens name for fetches: their queues begin so.
const fetchScope = "fetch"

// ofFetches asks about fetches, if there are any here and the principal may.
func ofFetches[In, Out any](s *server, scope access.Scope, ask func(context.Context, fetch.Ops, *In) (Out, error)) func(context.Context, *In) (Out, error) {
	return func(ctx context.Context, in *In) (Out, error) {
		var nothing Out
		if s.Fetches == nil {
			return nothing, errNoFetches
		}
		if err := may(ctx, scope, fetchScope); err != nil {
			return nothing, err
		}
		out, err := ask(ctx, s.Fetches, in)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return nothing, problem(http.StatusNotFound, "not_found", "GET /v1/fetches", "there is no such fetch")
		case errors.Is(err, fetch.ErrBusy):
			return nothing, problem(http.StatusConflict, "busy", "wait until it has ended, or look at /v1/fetches", "%v", err)
		case errors.Is(err, fetch.ErrOrder), errors.Is(err, fetch.ErrWord):
			return nothing, problem(http.StatusUnprocessableEntity, "invalid", "see /openapi.json", "%v", err)
		case errors.Is(err, fetch.ErrNoDir):
			return nothing, problem(http.StatusUnprocessableEntity, "no_dir", "set fetch.dir in the server's ebb.yaml", "%v", err)
		}
		return out, err
	}
}

func (s *server) fetchRoutes() []route {
	type startIn struct{ Body fetch.Order }
	type retryIn struct {
		idIn
		Body fetch.Retry
	}
	return []route{
		handle(s, access.Read, http.MethodGet, "/v1/fetches", "listFetches", "List fetches", ofFetches(s, access.Read,
			func(ctx context.Context, ops fetch.Ops, in *page) (FetchList, error) {
				limit := in.Limit
				if limit <= 0 {
					limit = engine.DefaultLimit
				}
				list, err := ops.Fetches(ctx, in.Cursor, min(limit, engine.MaxLimit))
				out := FetchList{Fetches: list}
				if len(list) == limit {
					out.Next = list[len(list)-1].ID
				}
				return out, err
			})),
		handle(s, access.Produce, http.MethodPost, "/v1/fetches", "startFetch", "Fetch a list of URLs on the server", ofFetches(s, access.Produce,
			func(ctx context.Context, ops fetch.Ops, in *startIn) (fetch.Fetch, error) {
				return ops.Start(ctx, in.Body)
			})),
		handle(s, access.Read, http.MethodGet, "/v1/fetches/{id}", "showFetch", "Show a fetch: its account, its waves, why it stopped", ofFetches(s, access.Read,
			func(ctx context.Context, ops fetch.Ops, in *idIn) (fetch.Fetch, error) { return ops.Fetch(ctx, in.ID) })),
		handle(s, access.Operate, http.MethodPost, "/v1/fetches/{id}/retry", "retryFetch", "Try again what failed in a fetch", ofFetches(s, access.Operate,
			func(ctx context.Context, ops fetch.Ops, in *retryIn) (fetch.Fetch, error) {
				return ops.Retry(ctx, in.ID, in.Body)
			})),
	}
}
