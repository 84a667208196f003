package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

// An order that was answered with 201 is mailed; one that was rolled back
// leaves no job behind.
func TestOrderAndReceipt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	mails := make(chan string, 1)
	s, err := open(ctx, "sqlite:"+filepath.Join(t.TempDir(), "shop.db"), func(_ context.Context, to, text string) error {
		mails <- to + ": " + text
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.jobs.Run(ctx) }()

	w := httptest.NewRecorder()
	s.order(w, httptest.NewRequest(http.MethodPost, "/orders", strings.NewReader(`{"customer": "ada@example.com", "item": "kettle"}`)))
	if w.Code != http.StatusCreated {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if got, want := <-mails, "ada@example.com: Thank you for order 1."; got != want {
		t.Errorf("mailed %q, want %q", got, want)
	}
	w = httptest.NewRecorder()
	s.order(w, httptest.NewRequest(http.MethodPost, "/orders", strings.NewReader(`{}`)))
	if w.Code != http.StatusBadRequest {
		t.Errorf("an order of nothing: %d", w.Code)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := s.jobs.Close(); err != nil {
		t.Error(err)
	}
}
