package document_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"gocloud.dev/blob"
	"gocloud.dev/blob/memblob"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/memory"
	"github.com/ebbhq/ebb/work/document"
	"github.com/ebbhq/ebb/work/document/providertest"
	"github.com/ebbhq/ebb/worker"
)

const schema = `{"type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"], "additionalProperties": false}`

// rig is a worker with the service on it.
type rig struct {
	t        *testing.T
	store    store.Store
	ops      *engine.Engine
	service  *document.Service
	provider *providertest.Server
	bucket   *blob.Bucket // what mem://docs is

	mu      sync.Mutex
	settled []worker.Event
	wake    chan struct{}
}

// setup is what a test wants otherwise.
type setup struct {
	store    store.Store // default: in memory
	script   func(providertest.Call) providertest.Act
	piped    bool         // for a fake clock
	base     string       // of another provider than the scripted one
	http     *http.Client // that reaches it; default: the service's own
	settings document.Settings
	policies []policy.Policy
	open     func(context.Context, string) (*blob.Bucket, error)
	workers  int // default 1; negative = none
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

func newRig(t *testing.T, c setup) *rig {
	t.Helper()
	r := &rig{t: t, store: c.store, wake: make(chan struct{}, 1)}
	if r.store == nil {
		m := memory.New(memory.Config{})
		r.store = m
		t.Cleanup(func() { _ = m.Close() })
	}
	if c.script == nil {
		c.script = func(providertest.Call) providertest.Act { return providertest.Act{Text: `{"total": 7}`} }
	}
	client := c.http
	if c.piped {
		r.provider, client = providertest.NewPiped(c.script)
	} else {
		r.provider = providertest.New(c.script)
	}
	t.Cleanup(r.provider.Close)
	if c.open == nil {
		r.bucket = memblob.OpenBucket(nil)
		c.open = func(_ context.Context, at string) (*blob.Bucket, error) {
			if strings.HasPrefix(at, "s3://docs") {
				return r.bucket, nil
			}
			return nil, fmt.Errorf("no bucket %s", at)
		}
	}
	if c.settings.Providers == nil {
		c.settings.Providers = map[string]document.Provider{"test": {Prices: map[string]document.Price{"m-1": {Input: 1, Output: 10}}}}
	}
	for name, p := range c.settings.Providers {
		p.BaseURL = cmp.Or(c.base, r.provider.Base())
		c.settings.Providers[name] = p
	}
	policies := c.policies
	if len(policies) == 0 {
		policies = []policy.Policy{policy.MustPreset("processing")}
	}
	r.ops = engine.New(r.store, policies, engine.Config{Actor: "test"})
	var err error
	r.service, err = document.New(document.Config{Store: r.store, Ops: r.ops, Settings: c.settings, HTTP: client, Open: c.open, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.service.Close() })
	if c.workers == 0 {
		c.workers = 1
	}
	for range c.workers {
		r.work(policies)
	}
	return r
}

// work runs a worker until the test ends.
func (r *rig) work(policies []policy.Policy) *worker.Worker {
	r.t.Helper()
	w, err := worker.New(r.store, worker.Config{
		Handlers: map[string]worker.Handler{document.Kind: r.service.Handle}, Queues: []string{document.Queue},
		Policies: policies, Seed: 7, Observe: r.note,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- w.Run(context.Background()) }()
	r.t.Cleanup(func() {
		w.Stop()
		w.Stop()
		if err := <-ended; err != nil {
			r.t.Error(err)
		}
	})
	return w
}

func (r *rig) note(e worker.Event) {
	r.service.Observe(e)
	if e.What != worker.Settled {
		return
	}
	r.mu.Lock()
	r.settled = append(r.settled, e)
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// put writes an object into s3://docs.
func (r *rig) put(key, content string) {
	r.t.Helper()
	if err := r.bucket.WriteAll(r.t.Context(), key, []byte(content), nil); err != nil {
		r.t.Fatal(err)
	}
}

// submission is one of s3://docs.
func submission(inputs ...string) document.Submission {
	s := document.Submission{
		Pipeline: document.Pipeline{Name: "invoices", Model: "test/m-1", Prompt: "Total of {{.Name}}: {{.Text}}", Schema: json.RawMessage(schema)},
		Output:   "s3://docs/out",
	}
	for _, in := range inputs {
		s.Inputs = append(s.Inputs, "s3://docs/"+in)
	}
	return s
}

func (r *rig) submit(in document.Submission) document.Batch {
	r.t.Helper()
	b, err := r.service.Submit(r.t.Context(), in)
	if err != nil {
		r.t.Fatal(err)
	}
	return b
}

// documents returns a batch.
func (r *rig) documents(b document.Batch) []document.Document {
	r.t.Helper()
	got, err := r.service.Documents(r.t.Context(), document.Filter{Batch: b.ID, Limit: 1000})
	if err != nil {
		r.t.Fatal(err)
	}
	return got.Documents
}

// ended waits until all of a batch have.
func (r *rig) ended(b document.Batch) []document.Document {
	r.t.Helper()
	for {
		left := 0
		all := r.documents(b)
		for i := range all {
			if s := all[i].State; s == job.Queued || s == job.Running {
				left++
			}
		}
		if left == 0 {
			return all
		}
		select {
		case <-r.wake:
		case <-r.t.Context().Done():
			r.t.Fatalf("%d of %d documents have not ended", left, len(all))
		}
	}
}
