package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/work/document"
	"github.com/ebbhq/ebb/work/document/providertest"
)

// desk is a directory with documents, a pipeline and a provider.
type desk struct {
	*testing.T
	dir      string
	env      map[string]string
	provider *providertest.Server
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{T: t, dir: t.TempDir()}
	d.provider = providertest.New(func(c providertest.Call) providertest.Act {
		switch {
		case c.Key != "sk-1":
			return providertest.Act{Status: 401, Message: "who are you?"}
		case strings.Contains(c.Prompt, "riddle"):
			return providertest.Act{Text: "I wonder."}
		}
		return providertest.Act{Text: "```json\n{\"total\": 7}\n```"}
	})
	t.Cleanup(d.provider.Close)
	d.env = map[string]string{"EBB_CONFIG": d.file("ebb.yaml", fmt.Sprintf(`db: sqlite:ebb.db
document:
  providers:
    test: {base_url: %q, key_env: TEST_KEY, concurrency: 4, requests_per_minute: 60000, prices: {m-1: {input: 1000000, output: 1000000}}}
  buckets: [%q]
`, d.provider.Base(), "file://"+d.dir)), "HOME": d.dir, "TEST_KEY": "sk-1"}
	d.file("prompt.md", "Total of {{.Name}}?\n{{.Text}}")
	d.file("schema.json", `{"type": "object", "required": ["total"]}`)
	d.file("in/a.txt", "Invoice A")
	d.file("in/deep/b.txt", "Invoice B")
	d.file("odd/c.txt", "A riddle")
	d.file("pipeline.yaml", "version: 1\nname: invoices\nmodel: test/m-1\nprompt_file: prompt.md\nschema: {type: object, required: [total]}\ninput: [in/**/*.txt]\noutput: results\n")
	return d
}

func (d *desk) file(name, content string) string {
	d.Helper()
	path := filepath.Join(d.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		d.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		d.Fatal(err)
	}
	return path
}

func (d *desk) lookup(name string) (string, bool) { v, ok := d.env[name]; return v, ok }

// ebb runs a command line and holds its exit code against the wanted one.
func (d *desk) ebb(code int, args ...string) (stdout, stderr string) {
	d.Helper()
	var out, errs bytes.Buffer
	if got := run(d.Context(), args, strings.NewReader(""), &out, &errs, d.lookup); got != code {
		d.Fatalf("ebb %s: exit %d, want %d\n%s%s", strings.Join(args, " "), got, code, out.String(), errs.String())
	}
	return out.String(), errs.String()
}

func decoded[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}

// TestDocumentCommands: the whole way on one machine: submit, run, status,
// results, raw, requeue, usage.
func TestDocumentCommands(t *testing.T) {
	d := newDesk(t)
	at := func(name string) string { return filepath.Join(d.dir, name) }
	out, _ := d.ebb(exitDone, "document", "submit", "-f", at("pipeline.yaml"), "--run")
	if !strings.Contains(out, "2 succeeded") {
		t.Error(out)
	}
	for _, name := range []string{"a.txt", "deep/b.txt"} {
		if got, err := os.ReadFile(at("results/" + name + ".json")); err != nil || string(got) != "{\"total\": 7}\n" {
			t.Errorf("%q, %v", got, err)
		}
	}
	// One that cannot be answered: exit 3, its answer is kept.
	out, errs := d.ebb(exitIncomplete, "document", "submit", at("odd/*.txt"), "--schema", at("schema.json"), "--prompt", at("prompt.md"),
		"--model", "test/m-1", "--out", at("results"), "--run", "--json")
	sum := decoded[struct {
		Batch  document.Batch
		States map[string]int
		Cost   float64
	}](t, out)
	if sum.States["failed"] != 1 || sum.Cost == 0 || sum.Batch.Policy != "processing.test" || !strings.Contains(errs, "Try: ebb document status "+sum.Batch.ID) {
		t.Errorf("%+v\n%s", sum, errs)
	}
	list := decoded[document.Documents](t, first(d.ebb(exitDone, "document", "status", sum.Batch.ID, "--json"))).Documents
	if len(list) != 1 || list[0].State != job.Failed || list[0].Invalid != document.ReasonUnparseable || list[0].Attempts != 1 {
		t.Fatalf("%+v", list)
	}
	id := list[0].ID
	if out, _ := d.ebb(exitDone, "document", "results", id, "--raw"); out != "I wonder.\n" {
		t.Errorf("%q", out)
	}
	if out, _ := d.ebb(exitDone, "document", "status", id); !strings.Contains(out, "unparseable") || !strings.Contains(out, "answered 1 time") {
		t.Error(out)
	}
	d.ebb(exitNo, "document", "results", id)
	d.ebb(exitIncomplete, "document", "results", sum.Batch.ID)
	if out, _ := d.ebb(exitDone, "document", "requeue", sum.Batch.ID); out != "1 document queued again\n" {
		t.Error(out)
	}
	if got := decoded[document.Document](t, first(d.ebb(exitDone, "document", "status", id, "--json"))); got.State != job.Queued || got.DueAt.IsZero() {
		t.Errorf("%+v", got)
	}
	d.ebb(exitDone, "document", "results", id, "--drop-raw")
	d.ebb(exitNo, "document", "results", id, "--raw")
	d.ebb(exitUsage, "document", "status", "--state", "failed")
	d.ebb(exitUsage, "document", "status", id, "--state", "failed")
	if _, errs := d.ebb(exitUsage, "document", "requeue"); !strings.Contains(errs, "Try: ebb document requeue --help") {
		t.Error(errs)
	}
	if _, errs := d.ebb(exitUsage, "document", "submit", "-f", binary(t)); !strings.Contains(errs, "no text in UTF-8") {
		t.Errorf("%q", errs)
	}
	batches := decoded[struct{ Batches []document.Batch }](t, first(d.ebb(exitDone, "document", "status", "--json"))).Batches
	out, _ = d.ebb(exitDone, "document", "results", batches[1].ID)
	if lines := strings.Split(strings.TrimSpace(out), "\n"); len(lines) != 2 || !strings.Contains(lines[1], `"result":{"total": 7}`) && !strings.Contains(lines[1], `"result":{"total":7}`) {
		t.Error(out)
	}
	used := decoded[struct{ Usage []document.Spent }](t, first(d.ebb(exitDone, "document", "usage", "--json"))).Usage
	if len(used) != 1 || used[0].Calls != 3 || used[0].Cost != float64(used[0].Input+used[0].Output) {
		t.Errorf("%+v", used)
	}
	for _, show := range []string{"status", "usage"} {
		if out, _ := d.ebb(exitDone, "document", show); !strings.Contains(out, "m-1") {
			t.Error(out)
		}
	}
}

func first(out, _ string) string { return out }

// TestDocumentCommandsRefuse: what is wrong is said, with what would be right.
func TestDocumentCommandsRefuse(t *testing.T) {
	d := newDesk(t)
	at := func(name string) string { return filepath.Join(d.dir, name) }
	d.file("bad.yaml", "version: 1\nmodel: test/m-1\npromt: x\n")
	d.ebb(exitDone, "migrate", "up")
	for want, args := range map[string][]string{
		"bad.yaml":                  {"submit", "-f", at("bad.yaml")},
		"[3:1]":                     {"submit", "-f", at("bad.yaml")},
		"--prompt: open":            {"submit", "x.txt", "--prompt", at("none.md")},
		"no inputs":                 {"submit", "--model", "test/m-1"},
		"matches nothing":           {"submit", at("in/*.pdf"), "-f", at("pipeline.yaml")},
		`no provider "nobody"`:      {"submit", "-f", at("pipeline.yaml"), "--model", "nobody/m"},
		"not known here":            {"submit", "-f", at("pipeline.yaml"), "--policy", "none"},
		"are of one document":       {"results", "d1-x", "--raw"},
		"must be failed or parked":  {"requeue", "d1-x", "--state", "queued"},
		"day \"yesterday\"":         {"usage", "--from", "yesterday"},
		"if any flags in the group": {"submit", "-f", at("pipeline.yaml"), "--run", "--wait"},
	} {
		if _, errs := d.ebb(exitUsage, append([]string{"document"}, args...)...); !strings.Contains(errs, want) || !strings.Contains(errs, "Try: ") {
			t.Errorf("%v: want %q\n%s", args, want, errs)
		}
	}
	for _, args := range [][]string{{"status", "d1-x"}, {"status", "d1-x-000001"}, {"results", "d1-x-000001"}, {"requeue", "d1-x-000001"}} {
		if _, errs := d.ebb(exitNo, append([]string{"document"}, args...)...); !strings.Contains(errs, "there is none") {
			t.Errorf("%v: %s", args, errs)
		}
	}
}

// serve runs a server over the desk's database until the test ends.
func (d *desk) serve() (base, login string) {
	d.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	in, out := io.Pipe()
	code := make(chan int, 1)
	var stderr bytes.Buffer
	go func() {
		code <- run(ctx, []string{"serve", "--listen", "127.0.0.1:0", "--json"}, strings.NewReader(""), out, &stderr, d.lookup)
		_ = out.Close()
	}()
	d.Cleanup(func() {
		cancel()
		if got := <-code; got != exitDone {
			d.Errorf("serve: exit %d: %s", got, stderr.String())
		}
	})
	var at struct{ Address, Login string }
	if err := json.NewDecoder(in).Decode(&at); err != nil {
		d.Fatalf("no address: %v", err)
	}
	go func() { _, _ = io.Copy(io.Discard, in) }()
	return at.Address, at.Login
}

// TestDocumentCommandsOnServer: the same through a server, whose settings
// bound what may be read and written; its metrics and pages show it.
func TestDocumentCommandsOnServer(t *testing.T) {
	d := newDesk(t)
	base, login := d.serve()
	token := decoded[struct{ Secret string }](t, first(d.ebb(exitDone, "token", "create", "me", "--scope", "admin", "--json"))).Secret
	d.env = maps.Clone(d.env) // the server reads the old one
	d.env["EBB_URL"], d.env["EBB_TOKEN"] = base, token
	file := func(name string) string { return filepath.Join(d.dir, name) }
	sum := decoded[struct {
		Batch  document.Batch
		States map[string]int
	}](t, first(d.ebb(exitDone, "document", "submit", "-f", file("pipeline.yaml"), "--wait", "--json")))
	if sum.States["succeeded"] != 2 {
		t.Fatalf("%+v", sum)
	}
	if out, _ := d.ebb(exitDone, "document", "results", sum.Batch.ID); strings.Count(out, "\n") != 2 {
		t.Error(out)
	}
	if _, errs := d.ebb(exitNo, "document", "submit", "-f", file("pipeline.yaml"), "--out", t.TempDir()); !strings.Contains(errs, "document.buckets") {
		t.Error(errs)
	}
	d.ebb(exitUsage, "document", "submit", "-f", file("pipeline.yaml"), "--run")
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	fetchPage(t, browser, login)
	for path, wants := range map[string][]string{
		"/metrics": {
			`ebb_document_ended_total{class="",provider="test",state="succeeded"} 2`, `ebb_document_tokens_total{direction="input",model="m-1",provider="test"}`,
			`ebb_document_succeeded_seconds_count{provider="test"} 2`, `ebb_document_normalisations_total{step="fence"} 2`,
		},
		"/documents":                             {sum.Batch.ID, "invoices", "test/m-1", "100"},
		"/batches/" + sum.Batch.ID:               {sum.Batch.ID + "-000002", "succeeded", "in/deep/b.txt"},
		"/documents/" + sum.Batch.ID + "-000001": {"&#34;total&#34;: 7", "fence", "processing.test"},
		"/target?name=test":                      {"processing.test", "4"},
	} {
		status, text := fetchPage(t, browser, base+path)
		for _, want := range wants {
			if status != http.StatusOK || !strings.Contains(text, want) {
				t.Errorf("%s: %d, no %s", path, status, want)
			}
		}
	}
}

// binary is a file that is no text.
func binary(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipeline.yaml")
	if err := os.WriteFile(path, []byte("version: 1\x00\xff"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
