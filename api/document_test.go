package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/api"
	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store/memory"
	docs "github.com/ebbhq/ebb/work/document"
	"github.com/ebbhq/ebb/work/document/providertest"
	"github.com/ebbhq/ebb/worker"
)

func TestServerWithoutDocuments(t *testing.T) {
	b := newBench(t)
	for _, path := range []string{"/v1/documents", "/v1/documents/batches", "/v1/documents/usage", "/v1/documents/d1", "/v1/documents/d1/raw"} {
		b.refused(b.do(b.token("all", access.Admin), "GET", path, ""), 404, "no_documents")
	}
}

// papers is a server that processes documents of a directory, with a model that
// adds up one of them and talks about the other.
func papers(t *testing.T) (b *bench, dir string, settled chan job.State) {
	t.Helper()
	s := memory.New(memory.Config{})
	dir = t.TempDir()
	for name, text := range map[string]string{"good.txt": "Total 7", "bad.txt": "Riddle"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	provider := providertest.New(func(c providertest.Call) providertest.Act {
		if c.Prompt == "Riddle" {
			return providertest.Act{Text: "Who knows?"}
		}
		return providertest.Act{Text: `{"total": 7}`}
	})
	t.Cleanup(provider.Close)
	service, err := docs.New(docs.Config{Store: s, Ops: engine.New(s, nil, engine.Config{}), Settings: docs.Settings{
		Buckets:   []string{"file://" + dir},
		Providers: map[string]docs.Provider{"local": {BaseURL: provider.Base(), Prices: map[string]docs.Price{"*": {Input: 1e6}}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = service.Close() })
	settled = make(chan job.State, 16)
	w, err := worker.New(s, worker.Config{
		Handlers: map[string]worker.Handler{docs.Kind: service.Handle}, Queues: []string{docs.Queue},
		Observe: func(e worker.Event) {
			if e.What == worker.Settled {
				settled <- e.To
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- w.Run(context.Background()) }()
	t.Cleanup(func() {
		w.Stop()
		w.Stop()
		<-ended
	})
	return newBenchOn(t, s, func(c *api.Config, _ *api.LeasesConfig) { c.Documents = service.Guarded() }), dir, settled
}

// Documents are submitted, listed, read, requeued and accounted for over HTTP,
// within the buckets that the server lists.
func TestDocuments(t *testing.T) {
	b, dir, settled := papers(t)
	produce, read, operate := b.token("submit", access.Produce), b.token("look", access.Read), b.token("ops", access.Operate)
	body := func(in, out string) string {
		return fmt.Sprintf(`{"model": "local/m", "prompt": "{{.Text}}", "schema": {"type": "object", "required": ["total"]}, "inputs": [%q], "output": %q}`, in, out)
	}
	b.refused(b.do(produce, "POST", "/v1/documents", body("file:///etc/a.txt", "file://"+dir)), 403, "bucket")
	b.refused(b.do(produce, "POST", "/v1/documents", body("file://"+dir+"/*.txt", "file:///tmp")), 403, "bucket")
	b.refused(b.do(produce, "POST", "/v1/documents", `{"model": "local/m", "prompt": "p", "schema": {}, "inputs": [], "output": ""}`), 422, "invalid")
	b.refused(b.do(read, "POST", "/v1/documents", body("file://"+dir+"/*.txt", "file://"+dir)), 403, "forbidden")
	b.refused(b.do(b.token("other", access.Produce, "mail"), "POST", "/v1/documents", body("file://"+dir+"/*.txt", "file://"+dir)), 403, "forbidden")

	batch := want[docs.Batch](b, b.do(produce, "POST", "/v1/documents", body("file://"+dir+"/*.txt", "file://"+dir+"/out")), 201)
	<-settled
	<-settled
	list := want[docs.Documents](b, b.do(read, "GET", "/v1/documents?batch="+batch.ID, ""), 200).Documents
	if batch.Documents != 2 || len(list) != 2 || list[0].State != job.Failed || list[1].State != job.Succeeded || list[0].Invalid != docs.ReasonUnparseable {
		t.Fatalf("%+v: %+v", batch, list)
	}
	if got := want[docs.Documents](b, b.do(read, "GET", "/v1/documents?state=failed", ""), 200).Documents; len(got) != 1 || got[0].ID != list[0].ID {
		t.Errorf("failed: %+v", got)
	}
	if got := want[api.DocumentBatches](b, b.do(read, "GET", "/v1/documents/batches", ""), 200); len(got.Batches) != 1 || got.Batches[0].ID != batch.ID {
		t.Errorf("%+v", got)
	}
	at := "/v1/documents/"
	if got := want[api.DocumentResult](b, b.do(read, "GET", at+list[1].ID+"/result", ""), 200); !jsonEqual(got.Result, `{"total": 7}`) {
		t.Errorf("%s", got.Result)
	}
	b.refused(b.do(read, "GET", at+list[0].ID+"/result", ""), 409, "state")
	if got := want[docs.RawAnswer](b, b.do(read, "GET", at+list[0].ID+"/raw", ""), 200); got.Text != "Who knows?" || got.Reason != docs.ReasonUnparseable {
		t.Errorf("%+v", got)
	}
	if g := b.do(operate, "DELETE", at+list[0].ID+"/raw", ""); g.status != 204 {
		t.Errorf("%d %s", g.status, g.body)
	}
	b.refused(b.do(read, "GET", at+list[0].ID+"/raw", ""), 404, "not_found")
	b.refused(b.do(operate, "POST", at+"requeue", `{"ids": [`+fmt.Sprintf("%q", list[1].ID)+`]}`), 409, "state")
	b.refused(b.do(read, "POST", at+"requeue", `{"batch": "x"}`), 403, "forbidden")
	if got := want[docs.Requeued](b, b.do(operate, "POST", at+"requeue", `{"batch": "`+batch.ID+`"}`), 200); len(got.Documents) != 1 {
		t.Errorf("%+v", got)
	}
	<-settled
	if d := want[docs.Document](b, b.do(read, "GET", at+list[0].ID, ""), 200); d.State != job.Failed || d.Calls != 2 {
		t.Errorf("requeued: %+v", d)
	}
	used := want[api.DocumentUsage](b, b.do(read, "GET", at+"usage", ""), 200).Usage
	if len(used) != 1 || used[0].Calls != 3 || used[0].Cost != float64(used[0].Input) {
		t.Errorf("%+v", used)
	}
}

func jsonEqual(got json.RawMessage, wanted string) bool {
	var a, b any
	if json.Unmarshal(got, &a) != nil || json.Unmarshal([]byte(wanted), &b) != nil {
		return false
	}
	return fmt.Sprint(a) == fmt.Sprint(b)
}
