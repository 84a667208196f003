package console_test

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/console"
	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/memory"
	"github.com/ebbhq/ebb/work/document"
	"github.com/ebbhq/ebb/work/document/providertest"
	"github.com/ebbhq/ebb/worker"
)

// clerk processes documents over the store, with a model that knows most of
// them.
func clerk(t *testing.T, keeps store.Store, c *clock.Fake) *document.Service {
	t.Helper()
	provider := providertest.New(func(c providertest.Call) providertest.Act {
		switch {
		case strings.Contains(c.Prompt, "riddle"):
			return providertest.Act{Text: `The total is <b>"seven"</b> & a half.`}
		case strings.Contains(c.Prompt, "outage"):
			return providertest.Act{Status: 503, Message: "overloaded"}
		}
		return providertest.Act{Text: "```json\n{\"total\": 1712, \"currency\": \"EUR\", \"note\": \"<b>&</b>\"}\n```"}
	})
	t.Cleanup(provider.Close)
	s, err := document.New(document.Config{
		Store: keeps, Ops: engine.New(keeps, nil, engine.Config{Clock: c, Actor: "maya"}), Clock: c,
		Settings: document.Settings{Providers: map[string]document.Provider{"openai": {BaseURL: provider.Base(), Prices: map[string]document.Price{"*": {Input: 400, Output: 1600}}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// papers writes documents into a directory and submits them.
func papers(t *testing.T, s *document.Service, dir string) document.Batch {
	t.Helper()
	for name, text := range map[string]string{"2026-02-invoice.txt": "Invoice over 1712 EUR", "a-riddle.txt": "A riddle", "late.txt": "of the outage"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b, err := s.Submit(t.Context(), document.Submission{
		Pipeline: document.Pipeline{Name: "invoices", Model: "openai/gpt-4.1-mini", Prompt: "{{.Text}}", Schema: []byte(`{"type": "object"}`)},
		Inputs:   []string{"file://" + dir + "/*.txt"}, Output: "file://" + dir + "/out",
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// documentWorld gives the world a batch: one document is done, one was
// answered in words, one waits for its retry.
var documentWorld = worldPart{
	open: func(t *testing.T, keeps store.Store, c *clock.Fake, config *console.Config) {
		config.Documents = clerk(t, keeps, c)
	},
	live: func(w *world) {
		s := clerk(w.T, w.store, w.clock)
		dir := filepath.Join(filepath.Dir(w.file), "papers")
		w.ok(os.Mkdir(dir, 0o750))
		b := papers(w.T, s, dir)
		w.serve([]string{document.Queue}, map[string]worker.Handler{document.Kind: s.Handle})
		w.batch = b.ID
	},
}

func TestNoDocumentsNoPages(t *testing.T) {
	s := open(t)
	s.page(404, "/documents")
	if text := s.page(200, "/"); strings.Contains(text, `href="/documents"`) {
		t.Error("the navigation leads nowhere")
	}
}

// Batches and documents on pages: how far, what it cost, the result, the
// answer that was refused, and queueing again.
func TestDocumentPages(t *testing.T) {
	c := clock.NewFake(t0)
	keeps := memory.New(memory.Config{Clock: c})
	k, err := access.New(keeps, c, nil)
	if err != nil {
		t.Fatal(err)
	}
	service := clerk(t, keeps, c)
	s := over(t, keeps, c, func(config *console.Config) { config.Keeper, config.Documents = k, service })
	s.login(k, operates)
	s.page(200, "/documents", "Nothing was submitted yet")
	b := papers(t, service, t.TempDir())
	s.serve([]string{document.Queue}, map[string]worker.Handler{document.Kind: service.Handle})
	list, err := service.Documents(t.Context(), document.Filter{Batch: b.ID})
	if err != nil || len(list.Documents) != 3 {
		t.Fatal(list, err)
	}
	done, refused, late := list.Documents[0], list.Documents[1], list.Documents[2]
	if done.State != job.Succeeded || refused.State != job.Failed || late.State != job.Queued {
		t.Fatal(done.State, refused.State, late.State)
	}
	s.page(200, "/documents", b.ID, "invoices", "1 succeeded", "1 failed", "1 queued", "calls of models today", `aria-current="page">Documents`)
	s.page(200, "/batches/"+b.ID, done.ID, "a-riddle.txt", "503", "Queue all failed")
	if text := s.page(200, "/batches/"+b.ID+"?state=failed", refused.ID); strings.Contains(text, done.ID) {
		t.Error("the filter shows others too")
	}
	s.page(200, "/documents/"+done.ID, "1712", "&lt;b&gt;&amp;&lt;/b&gt;", "fence", "succeeded")
	s.page(200, "/documents/"+refused.ID, "unparseable", "&lt;b&gt;", "Queue again")
	s.page(200, "/documents/"+late.ID, "503", "queued")
	s.page(404, "/documents/none-such-1", "there is none.")
	s.page(404, "/batches/none")
	s.orderHook("/batches/"+b.ID+"/requeue", url.Values{}, "Queued again")
	if d, err := service.Document(t.Context(), refused.ID); err != nil || d.State != job.Queued {
		t.Error(d.State, err)
	}
	s.order(http.StatusConflict, "/documents/"+done.ID+"/requeue", url.Values{}, "Sec-Fetch-Site", "same-origin")
}
