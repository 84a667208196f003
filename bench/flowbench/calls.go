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

// calling drains jobs that call an HTTP server on loopback once, plain and over so
// many targets: the least that work with a target does.
func calling(targets int) func(context.Context, *bench, database, bool) (measured, measured, error) {
	return func(ctx context.Context, b *bench, d database, swapped bool) (measured, measured, error) {
		call, leave := caller()
		defer leave()
		how := drain{jobs: b.plan.calls, slots: callSlots, policies: []policy.Policy{plain(), aimed()}, handle: call}
		return bothWays(ctx, d, targets, how, swapped)
	}
}

// caller returns a handler that calls a server of this process once.
func caller() (handle func(context.Context, *ebb.Task) error, leave func()) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	transport := &http.Transport{MaxIdleConns: callSlots, MaxIdleConnsPerHost: callSlots}
	client := &http.Client{Transport: transport}
	handle = func(ctx context.Context, _ *ebb.Task) error {
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
	return handle, func() {
		transport.CloseIdleConnections()
		server.Close()
	}
}
