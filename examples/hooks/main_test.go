package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/ebbhq/ebb/work/webhook"
)

func TestSend(t *testing.T) {
	got := make(chan string, 1)
	customer := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Header.Get("Webhook-Signature") != "" {
			got <- string(body)
		}
	}))
	defer customer.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, err := open(ctx, filepath.Join(t.TempDir(), "hooks.db"), netip.MustParsePrefix("127.0.0.0/8"))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.hooks.Add(ctx, webhook.NewEndpoint{URL: customer.URL}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.hooks.Send(ctx, webhook.Message{Type: "invoice.paid", Payload: []byte(`{"id": 17}`)}); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.jobs.Run(ctx) }()
	if body := <-got; body != `{"id": 17}` {
		t.Errorf("got %s", body)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	s.hooks.Close()
	if err := s.jobs.Close(); err != nil {
		t.Error(err)
	}
}
