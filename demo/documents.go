package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httputil"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/work/document"
)

// Seed 001's kind of trouble: documents to be processed by a provider that
// browns out, and some whose answers break the schema, which no retry mends.
const (
	documentsBroken = 2
	brownout        = 2 * time.Minute
)

const documentSchema = `{"type": "object", "required": ["title", "total"], "properties": {"title": {"type": "string"}, "total": {"type": "number"}}, "additionalProperties": false}`

// documents submits a directory of invoices.
func documents(ctx context.Context, w *world) (result, error) {
	in, out := filepath.Join(w.dir, "in"), filepath.Join(w.dir, "out")
	for _, dir := range []string{in, out} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return result{}, err
		}
	}
	for i := range w.size.documents {
		text := fmt.Sprintf("Invoice %d\nTotal: %d.50\n", i+1, 100+i)
		if i < documentsBroken {
			text = "Invoice without a total\n"
		}
		if err := os.WriteFile(filepath.Join(in, fmt.Sprintf("invoice-%02d.txt", i+1)), []byte(text), 0o600); err != nil {
			return result{}, err
		}
	}
	w.provider.brownOut()
	batch, err := w.documents.Submit(ctx, document.Submission{
		Pipeline: document.Pipeline{
			Name: "invoices", Model: "demo/small", Policy: "processing", Schema: json.RawMessage(documentSchema),
			Prompt: "Give the title and the total of this invoice as JSON.",
		},
		Inputs: []string{"file://" + in + "/*.txt"}, Output: "file://" + out,
	})
	if err != nil {
		return result{}, err
	}
	var done, dead, invalid int
	err = until(ctx, func() (bool, error) {
		list, err := w.documents.Documents(ctx, document.Filter{Batch: batch.ID, Limit: 1000})
		done, dead, invalid = 0, 0, 0
		for _, d := range list.Documents {
			switch {
			case d.State == "succeeded":
				done++
			case d.State == "failed" && d.Invalid != "":
				invalid++
			case d.State == "failed":
				dead++
			}
		}
		return done+dead+invalid == w.size.documents, err
	})
	if err != nil {
		return result{}, err
	}
	said := fmt.Sprintf("%d calls of the model for %d documents done", w.provider.calls.Load(), done)
	if invalid > 0 {
		said += fmt.Sprintf("; %d refused at once for their schema, the raw answers kept", invalid)
	}
	k := w.counts.seen(document.Kind)
	return result{
		asked:  fmt.Sprintf("%d documents; the provider answers 503 for %s, and %d answers break the schema", w.size.documents, policy.FormatDuration(brownout), documentsBroken),
		failed: k.failures() + "; " + k.retries(),
		lost:   dead,
		said:   said,
	}, nil
}

// provider speaks OpenAI's chat completions, and browns out when told.
type provider struct {
	*server
	clock clock.Clock
	from  atomic.Pointer[time.Time]
	calls atomic.Int64
}

func newProvider(ctx context.Context, c clock.Clock) (*provider, error) {
	p := &provider{clock: c}
	var err error
	p.server, err = listen(ctx, p.serve)
	return p, err
}

func (p *provider) brownOut() {
	now := p.clock.Now()
	p.from.Store(&now)
}

// Close ends it.
func (p *provider) Close() { p.close() }

func (p *provider) settings() document.Settings {
	return document.Settings{Providers: map[string]document.Provider{"demo": {
		BaseURL: p.base + "/v1", KeyEnv: "DEMO_KEY", Concurrency: 8,
		Prices: map[string]document.Price{"*": {Input: 0.4, Output: 1.6}},
	}}}
}

func (p *provider) serve(w http.ResponseWriter, r *http.Request) {
	p.calls.Add(1)
	w.Header().Set("Content-Type", "application/json")
	if from := p.from.Load(); from != nil && p.clock.Now().Sub(*from) < brownout {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte(`{"error": {"message": "overloaded", "type": "server_error"}}`))
		return
	}
	body, err := httputil.DumpRequest(r, true)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	answer := `{"title": "Invoice", "total": 100.5}`
	if strings.Contains(string(body), "without a total") {
		answer = `{"title": "Invoice", "total": "none"}`
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"id": "demo", "object": "chat.completion", "model": "small",
		"choices": []any{map[string]any{"index": 0, "finish_reason": "stop", "message": map[string]any{"role": "assistant", "content": answer}}},
		"usage":   map[string]any{"prompt_tokens": len(body) / 4, "completion_tokens": len(answer) / 4, "total_tokens": (len(body) + len(answer)) / 4},
	})
}
