package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/ebbhq/ebb"
	"github.com/ebbhq/ebb/policy"
)

// callSlots is how many calls are under way at once.
const callSlots = 400

// callsPart drains jobs that call an HTTP server on loopback once, plain and
// over 100 targets: the least that work with a target does.
func callsPart(ctx context.Context, b *bench, d database, swapped bool) (base, with measured, err error) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	defer server.Close()
	transport := &http.Transport{MaxIdleConns: callSlots, MaxIdleConnsPerHost: callSlots}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	handle := func(ctx context.Context, _ *ebb.Task) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, http.NoBody)
		if err != nil {
			return err
		}
		answer, err := client.Do(request)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, answer.Body)
		if err = errors.Join(err, answer.Body.Close()); err == nil && answer.StatusCode != http.StatusNoContent {
			err = fmt.Errorf("the server answered %s", answer.Status)
		}
		return err
	}
	how := drain{jobs: b.plan.calls, slots: callSlots, policies: []policy.Policy{plain(), aimed()}, handle: handle}
	return bothWays(ctx, d, 100, how, swapped)
}
