package client_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ebbhq/ebb/client"
	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/policy"
)

// soon retries three times, almost at once.
var soon = policy.Policy{Attempts: 4, Backoff: policy.Backoff{Base: time.Millisecond, Factor: 1}}

// flaky answers with the statuses in their order, the last for ever, and keeps
// the idempotency keys that it saw.
func flaky(t *testing.T, statuses ...int) (c *client.Client, keys *[]string) {
	t.Helper()
	keys = new([]string)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		n := min(len(*keys), len(statuses)-1)
		*keys = append(*keys, r.Header.Get("Idempotency-Key"))
		w.WriteHeader(statuses[n])
		_, _ = io.WriteString(w, `{"jobs":[{"id":"0000000000001"}],"detail":"told","code":"unavailable"}`)
	}))
	t.Cleanup(server.Close)
	c, err := client.New(server.URL, "ebb_x", client.WithPolicy(soon))
	if err != nil {
		t.Fatal(err)
	}
	return c, keys
}

// TestRetries: a request is made again with the same key, so that what was
// done and not answered is not done twice.
func TestRetries(t *testing.T) {
	c, keys := flaky(t, 503, 502, 201)
	added, err := c.Enqueue(t.Context(), engine.NewJob{Kind: "k"})
	if err != nil || len(added) != 1 {
		t.Fatalf("got %v, %v", added, err)
	}
	if k := *keys; len(k) != 3 || k[0] == "" || k[0] != k[1] || k[1] != k[2] {
		t.Fatalf("the keys were %q", k)
	}
}

// TestGivesUp: after four starts the last answer's words are told; a refusal
// is not asked again.
func TestGivesUp(t *testing.T) {
	c, keys := flaky(t, 503)
	_, err := c.Enqueue(t.Context(), engine.NewJob{Kind: "k"})
	if err == nil || !strings.HasSuffix(err.Error(), ": told") || len(*keys) != 4 {
		t.Fatalf("after %d requests: %v", len(*keys), err)
	}
	c, keys = flaky(t, 403)
	var p *client.Problem
	if _, err := c.Jobs(t.Context(), engine.Filter{}, engine.Page{}); !errors.As(err, &p) || p.Status != 403 || len(*keys) != 1 {
		t.Fatalf("after %d requests: %v", len(*keys), err)
	}
	if (*keys)[0] != "" {
		t.Fatal("a question needs no key")
	}
}

// TestNoRedirects: the token goes nowhere but to its server.
func TestNoRedirects(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	defer elsewhere.Close()
	server := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer server.Close()
	c, err := client.New(server.URL, "ebb_x", client.WithPolicy(soon))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Queues(t.Context()); err == nil || !strings.Contains(err.Error(), "is that an Ebb server?") {
		t.Fatalf("got %v", err)
	}
}

func TestAddress(t *testing.T) {
	for _, wrong := range []string{"", "127.0.0.1:7070", "ftp://h", "http://", "sqlite:x"} {
		if _, err := client.New(wrong, "ebb_x"); err == nil {
			t.Errorf("%q was taken for the address of a server", wrong)
		}
	}
}
