package document_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/sqlite"
	"github.com/ebbhq/ebb/work/document"
	"github.com/ebbhq/ebb/worker"
)

// childEnv holds what a child process is told; set = this is one.
const childEnv = "EBB_DOCUMENT_CHILD"

func TestMain(m *testing.M) {
	if told := os.Getenv(childEnv); told != "" {
		if err := child(told); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// orders are what a child process is told.
type orders struct {
	DB       string    `json:"db"`
	Evidence string    `json:"evidence"` // where it notes what it has kept
	Base     string    `json:"base"`     // of the provider
	Start    time.Time `json:"start"`    // of policy time
	Factor   float64   `json:"factor"`
}

func (o *orders) clock() clock.Clock { return clock.Scaled{Start: o.Start, Factor: o.Factor} }

// patient is the preset but for how long a gate may hold work: a test's
// breaker is held open by a busy machine.
func patient() policy.Policy {
	p := policy.MustPreset("processing")
	p.MaxHold = 24 * time.Hour
	p, err := policy.Seal(p)
	if err != nil {
		panic(err)
	}
	return p
}

func (o *orders) settings() document.Settings {
	return document.Settings{Providers: map[string]document.Provider{
		"test":   {BaseURL: o.Base, Prices: map[string]document.Price{"*": {Input: 1, Output: 10}}},
		"stream": {BaseURL: o.Base, Protocol: "anthropic", Stream: true, Idle: document.Duration(500 * time.Millisecond)},
	}}
}

// child is a worker process until it is killed.
func child(told string) error {
	var o orders
	if err := json.Unmarshal([]byte(told), &o); err != nil {
		return err
	}
	ctx := context.Background()
	s, err := sqlite.Open(ctx, o.DB, sqlite.Options{})
	if err != nil {
		return err
	}
	evidence, err := os.OpenFile(o.Evidence, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	service, err := document.New(document.Config{Store: &witness{Store: s, to: evidence}, Settings: o.settings(), Clock: o.clock(), Log: quiet})
	if err != nil {
		return err
	}
	go func() { _ = service.Run(ctx) }() // it ends with the process
	w, err := worker.New(s, worker.Config{
		Handlers: map[string]worker.Handler{document.Kind: service.Handle}, Queues: []string{document.Queue},
		Policies: []policy.Policy{patient()}, Clock: o.clock(), Lease: 2 * time.Second, Beat: 300 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

// witness notes answers after they are durable: what it has noted must not be
// asked again.
type witness struct {
	store.Store
	to *os.File
}

func (w *witness) Write(ctx context.Context, now time.Time, write store.Write) ([]store.Enqueued, error) {
	out, err := w.Store.Write(ctx, now, write)
	if err == nil {
		for _, r := range write.Puts {
			if r.Kind == "document" && bytes.Contains(r.Body, []byte(`"answer":`)) {
				_, _ = fmt.Fprintf(w.to, "%s %d\n", r.ID, time.Now().UnixNano())
			}
		}
	}
	return out, err
}
