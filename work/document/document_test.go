package document_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store/sqlite"
	"github.com/ebbhq/ebb/work/document"
	"github.com/ebbhq/ebb/work/document/model"
	"github.com/ebbhq/ebb/work/document/providertest"
)

// TestEndToEnd: files in, results beside them, over SQLite and a real provider
// protocol.
func TestEndToEnd(t *testing.T) {
	dir := t.TempDir()
	s, err := sqlite.Open(t.Context(), filepath.Join(dir, "ebb.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	r := newRig(t, setup{store: s, open: document.OpenBucket, script: func(c providertest.Call) providertest.Act {
		return providertest.Act{Text: "Here:\n```json\n{\"total\": 12,}\n```"}
	}})
	for name, content := range map[string]string{"a.txt": "Invoice A", "sub/b.html": "<p>Invoice <b>B</b>", "c.docx": "not read"} {
		path := filepath.Join(dir, "in", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	in := submission()
	in.Inputs, in.Output = []string{"file://" + dir + "/in/**/*"}, "file://"+dir+"/out"
	b := r.submit(in)
	all := r.ended(b)
	if len(all) != 2 || b.Documents != 2 || b.Policy != "processing" {
		t.Fatalf("%+v: %+v", b, all)
	}
	for i, want := range []string{"a.txt", "sub/b.html"} {
		d := all[i]
		if d.State != job.Succeeded || d.Stage != document.StageDone || d.Attempts != 1 || d.Calls != 1 || d.Error != "" || d.Job == "" {
			t.Errorf("%+v", d)
		}
		if fmt.Sprint(d.Normalised) != "[fence trailing_comma]" || d.Cost == 0 || math.Abs(d.Cost-float64(d.Usage.Input)*1e-6-float64(d.Usage.Output)*1e-5) > 1e-12 {
			t.Errorf("%v %v %+v", d.Normalised, d.Cost, d.Usage)
		}
		written, err := os.ReadFile(filepath.Join(dir, "out", want+".json"))
		if err != nil || string(written) != "{\"total\": 12}\n" {
			t.Errorf("%q, %v", written, err)
		}
		result, err := r.service.Result(t.Context(), d.ID)
		if err != nil || !json.Valid(result) {
			t.Error(string(result), err)
		}
	}
	prompts := []string{}
	for _, c := range r.provider.Calls() {
		prompts = append(prompts, c.Prompt)
	}
	slices.Sort(prompts)
	if got := strings.Join(prompts, "; "); got != "Total of a.txt: Invoice A; Total of sub/b.html: Invoice B" {
		t.Error(got)
	}
	list, err := r.service.Batches(t.Context(), 0)
	if err != nil || len(list) != 1 || list[0].ID != b.ID {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestAskedAboutNothing(t *testing.T) {
	r := newRig(t, setup{workers: -1})
	ctx := t.Context()
	for name, err := range map[string]error{
		"document": second(r.service.Document(ctx, "none")),
		"result":   second(r.service.Result(ctx, "none")),
		"raw":      second(r.service.Raw(ctx, "none")),
		"drop":     r.service.DropRaw(ctx, "none"),
		"batch":    second(r.service.Documents(ctx, document.Filter{Batch: "none"})),
		"requeue":  second(r.service.Requeue(ctx, document.Selection{IDs: []string{"none"}})),
	} {
		if !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	r.put("a.txt", "A")
	id := r.documents(r.submit(submission("a.txt")))[0].ID
	if _, err := r.service.Result(ctx, id); !errors.Is(err, engine.ErrState) {
		t.Error(err)
	}
	if _, err := r.service.Requeue(ctx, document.Selection{IDs: []string{id}}); !errors.Is(err, engine.ErrState) {
		t.Error(err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestSubmitRefuses(t *testing.T) {
	r := newRig(t, setup{workers: -1})
	r.put("a.txt", "A")
	for want, change := range map[string]func(*document.Submission){
		"no inputs":             func(s *document.Submission) { s.Inputs = nil },
		"no output":             func(s *document.Submission) { s.Output = "" },
		"want PROVIDER/MODEL":   func(s *document.Submission) { s.Model = "gpt" },
		`no provider "nobody"`:  func(s *document.Submission) { s.Model = "nobody/m" },
		"the prompt is empty":   func(s *document.Submission) { s.Prompt = " " },
		"prompt: template":      func(s *document.Submission) { s.Prompt = "{{.Text" },
		"knows .Text":           func(s *document.Submission) { s.Prompt = "{{.Body}}" },
		"the schema is missing": func(s *document.Submission) { s.Schema = nil },
		"schema: not JSON":      func(s *document.Submission) { s.Schema = json.RawMessage("{") },
		"document: schema": func(s *document.Submission) {
			s.Schema = json.RawMessage(`{"type": "object", "$ref": "file:///etc/passwd"}`)
		},
		"jsonschema":              func(s *document.Submission) { s.Schema = json.RawMessage(`{"type": 7}`) },
		"can be read":             func(s *document.Submission) { s.Inputs = []string{"s3://docs/a.docx"} },
		"want s3://":              func(s *document.Submission) { s.Inputs = []string{"ftp://x/a.txt"} },
		"want an absolute path":   func(s *document.Submission) { s.Inputs = []string{"file://a.txt"} },
		"matches nothing":         func(s *document.Submission) { s.Inputs = []string{"s3://docs/*.pdf"} },
		"names no object":         func(s *document.Submission) { s.Inputs = []string{"s3://docs"} },
		"without a password":      func(s *document.Submission) { s.Output = "s3://key:secret@docs/out" },
		"syntax error in pattern": func(s *document.Submission) { s.Inputs = []string{"s3://docs/[.txt"} },
		`policy "none"`:           func(s *document.Submission) { s.Policy = "none" },
		"temperature":             func(s *document.Submission) { hot := 3.0; s.Temperature = &hot },
		"limits":                  func(s *document.Submission) { s.Limits.MaxText = -1 },
		"priority":                func(s *document.Submission) { s.Priority = 10 },
	} {
		in := submission("a.txt")
		change(&in)
		if _, err := r.service.Submit(t.Context(), in); err == nil || !errors.Is(err, engine.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if list, err := r.service.Batches(t.Context(), 0); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v: a refused submission left something", list, err)
	}
}

// TestAllowed: over the API only the listed buckets are read and written.
func TestAllowed(t *testing.T) {
	s := newRig(t, setup{workers: -1, settings: document.Settings{Buckets: []string{"s3://docs/in?region=a", "file:///srv/docs"}}}).service
	for at, ok := range map[string]bool{
		"s3://docs/in/a.txt?region=a":                                       true,
		"s3://docs/in/**/*.txt?region=a":                                    true,
		"s3://docs/in/a.txt":                                                false,
		"s3://docs/in/a.txt?region=a&endpoint=http%3A%2F%2F169.254.169.254": false,
		"s3://docs/inside/a.txt?region=a":                                   false,
		"s3://other/in/a.txt?region=a":                                      false,
		"file:///srv/docs/a.txt":                                            true,
		"file:///srv/docs/../secret.txt":                                    false,
		"file:///srv/docs2/a.txt":                                           false,
		"file:///etc/a.txt":                                                 false,
		"file:///srv/docs/%2e%2e/secret/a.txt":                              false,
	} {
		in := submission()
		in.Inputs, in.Output = []string{at}, "file:///srv/docs/out"
		if err := s.Allowed(in); (err == nil) != ok {
			t.Errorf("%s: %v", at, err)
		}
	}
	in := submission()
	in.Inputs, in.Output = []string{"file:///srv/docs/a.txt"}, "file:///tmp"
	if err := s.Allowed(in); !errors.Is(err, document.ErrDenied) {
		t.Error(err)
	}
}

// TestUsage: tokens and cost are summed by document and by day, and folding
// changes no sum.
func TestUsage(t *testing.T) {
	r := newRig(t, setup{script: func(providertest.Call) providertest.Act { return providertest.Act{Text: `{"total": 1234567}`} }})
	var inputs []string
	for i := range 7 {
		name := fmt.Sprintf("%d.txt", i)
		r.put(name, strings.Repeat("word ", 50))
		inputs = append(inputs, name)
	}
	var want model.Usage
	var cost float64
	for _, d := range r.ended(r.submit(submission(inputs...))) {
		want.Input += d.Usage.Input
		want.Output += d.Usage.Output
		cost += d.Cost
	}
	for range 2 {
		got, err := r.service.Usage(t.Context(), "", "")
		if err != nil || len(got) != 1 || got[0].Calls != 7 || got[0].Input != want.Input || got[0].Output != want.Output || math.Abs(got[0].Cost-cost) > 1e-12 || cost == 0 {
			t.Fatalf("%+v, %v; want %+v %v", got, err, want, cost)
		}
		if more, err := r.service.Fold(t.Context()); more || err != nil {
			t.Fatal(more, err)
		}
	}
	if got, err := r.service.Usage(t.Context(), "2001-01-01", "2001-01-02"); err != nil || len(got) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := r.service.Usage(t.Context(), "2001-01-02", "2001-01-01"); !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("backwards: %v", err)
	}
	if _, err := r.service.Usage(t.Context(), "yesterday", ""); !errors.Is(err, engine.ErrInvalid) {
		t.Error(err)
	}
}
