package main

import (
	"bytes"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestServeTraces: with the standard variables set, one trace leads from who
// asked, through the enqueue and the start, to the call that was made.
func TestServeTraces(t *testing.T) {
	var mu sync.Mutex
	var spans []byte
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		spans = append(spans, body...)
	}))
	defer collector.Close()
	called := make(chan string, 10)
	shop := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { called <- r.Header.Get("traceparent") }))
	defer shop.Close()
	t.Setenv("OTEL_SDK_DISABLED", "")
	t.Setenv("OTEL_TRACES_EXPORTER", "")
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	config := filepath.Join(t.TempDir(), "ebb.yaml")
	if err := os.WriteFile(config, []byte("webhook: {allow_networks: [127.0.0.0/8]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	base, login, stop := served(t, "--config", config)
	maya := asMaya(t, login)
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	post := func(path, body string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("traceparent", "00-"+trace+"-00f067aa0ba902b7-01")
		answer, err := maya.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }()
		if text, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode >= 300 {
			t.Fatalf("%s: %d %s %v", path, answer.StatusCode, text, err)
		}
	}
	post("/v1/endpoints", `{"url": "`+shop.URL+`"}`)
	post("/v1/jobs", `{"kind": "ebb.check"}`)
	post("/v1/events", `{"type": "order.paid", "payload": {}}`)
	if parent := <-called; !strings.HasPrefix(parent, "00-"+trace+"-") {
		t.Errorf("the endpoint was called with the traceparent %q", parent)
	}
	for done := false; !done; {
		_, text := fetchPage(t, maya, base+"/v1/jobs?state=succeeded")
		done = strings.Count(text, `"id":`) == 2
	}
	if code := stop(); code != exitDone {
		t.Errorf("exit %d", code)
	}
	id, err := hex.DecodeString(trace)
	if err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if n := bytes.Count(spans, id); n < 4 {
		t.Errorf("the trace has %d spans, want an enqueue, two starts and a call", n)
	}
	for _, name := range []string{"enqueue ebb.check", "start ebb.check", "start webhook", "url.full"} {
		if !bytes.Contains(spans, []byte(name)) {
			t.Errorf("no span has %s", name)
		}
	}
}

func TestServeRefusesOtherExporters(t *testing.T) {
	t.Setenv("OTEL_SDK_DISABLED", "")
	t.Setenv("OTEL_TRACES_EXPORTER", "zipkin")
	var told bytes.Buffer
	code := run(t.Context(), []string{"serve", "--listen", "127.0.0.1:0", "--db", "sqlite:" + filepath.Join(t.TempDir(), "a.db")}, strings.NewReader(""), &told, &told, noEnv)
	if code != exitUsage || !strings.Contains(told.String(), `OTEL_TRACES_EXPORTER "zipkin": must be otlp or none`) {
		t.Errorf("exit %d: %s", code, told.String())
	}
}
