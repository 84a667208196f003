package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/ebbhq/ebb/store/pgtest"
	"github.com/ebbhq/ebb/work/document/providertest"
)

// stage is what a page takes as given when its commands are typed. Scripts of
// the shell are run line by line; one that ends in & goes on until the page
// ends. Maps from commands are by how these begin.
type stage struct {
	files  map[string]string // written before those that the page shows
	host   func(*theatre)    // servers that the page calls
	before string            // run before the first command
	words  string            // functions of the shell, for all commands
	swap   []string          // what the page says, and what it is here: pairs
	first  map[string]string // run before a command
	exit   map[string]int    // exit codes of commands that are not to end with 0
	parsed map[string]string // commands that are not run, and why
}

// elsewhere are pages whose commands another test runs, or that are made from
// commands that TestCommandsInDocs reads.
var elsewhere = map[string]string{
	"docs/simulate.md": "TestOutputsInSimulateGuide",
	"docs/cli.md":      "TestCommandReferenceInDocs",
}

const (
	loopbackAllowed = "webhook:\n  allow_networks: [127.0.0.0/8]\n"
	// words that stand for what differs from run to run.
	lookups = `
first() { grep -o "\"$1\": \"[^\"]*" | head -n 1 | cut -d '"' -f 4; }
until_said() { local want=$1; shift; for i in {1..300}; do "$@" 2>&1 | grep -q -- "$want" && return; sleep 0.1; done; "$@"; return 1; }`
)

// stages has a row for every page with commands. A new page gets one here: an
// empty row if its commands run in an empty directory as they stand.
var stages = map[string]stage{
	"README.md": {
		files:  map[string]string{"ebb.yaml": loopbackAllowed},
		before: "ebb webhook listen --listen 127.0.0.1:7373 --status 503 &",
		words:  lookups,
		swap:   []string{"https://crm.example/in", "http://127.0.0.1:7373/in"},
		first:  map[string]string{"ebb job why": "until_said 503 ebb webhook deliveries"},
	},
	"docs/getting-started.md": {
		words: lookups,
		first: map[string]string{"ebb webhook deliveries": "until_said refused ebb webhook deliveries"},
	},
	"docs/incidents.md": {},
	"docs/api.md": {
		before: "ebb token create docs --scope admin --quiet > token\nebb serve &",
		swap:   []string{"ebb_…", "$(cat token)"},
	},
	"docs/campaigns.md": {
		first:  map[string]string{"ebb campaign lint": "sed -i s/--level=inf/--level=5/ annual.yaml"},
		parsed: map[string]string{"ebb serve": "it would crawl sites that are not ours"},
	},
	"docs/console.md": {},
	"docs/documents.md": {
		host:  provider,
		words: lookups,
		swap: []string{
			"BATCH", "$(ebb document status --json | first id)",
			"DOCUMENT", "$(ebb document status $(ebb document status --json | first id) --state failed --json | first id)",
		},
		exit: map[string]int{"ebb document submit": exitIncomplete, "ebb document results $(ebb": exitIncomplete, "ebb document results BATCH": exitIncomplete},
	},
	"docs/fetch.md": {
		host: func(th *theatre) {
			url := website(th)
			th.file("urls.txt", url+"/a\n"+url+"/b\n")
			th.stand("postgres://ebb@db/ebb", pgtest.Database(th.T))
		},
		swap: []string{"/data/votes", "DIR/data/votes"},
	},
	"docs/flow.md": {
		before: "ebb job enqueue --kind hook --target https://crm.example/in --policy webhook",
		words:  lookups,
		swap:   []string{"ID", "$(ebb job list --json | first id)"},
	},
	"docs/jobs.md": {
		before: `ebb job enqueue --kind welcome --args '{"status": 404, "error": "nobody of that name"}' --policy processing
ebb job enqueue --kind welcome --args '{"status": 404, "error": "nobody of that name"}' --policy processing
work welcome`,
		words: lookups,
		swap: []string{
			"ID", "$(ebb job list --state failed --json | first id)",
			"--fingerprint F", "--fingerprint $(ebb dead groups --json | first fingerprint)",
		},
	},
	"docs/operations.md": {
		before: "mkdir backups\nebb migrate up",
		swap:   []string{"/backups", "DIR/backups"},
		first:  map[string]string{"ebb backup": "rm -f backups/*"},
		parsed: map[string]string{"export EBB_DB='postgres://ebb@bouncer": "there is no pooler here; the store is tested behind one"},
	},
	"docs/scaling.md": {
		host: func(th *theatre) { th.stand("postgres://ebb@db/ebb?", withParameters(pgtest.Database(th.T))) },
	},
	"docs/security.md": {
		words: lookups,
		swap:  []string{"5b1c6a0f8d2e4c77", "$(ebb token list --json | first id)"},
	},
	"docs/supervise.md": {
		host: func(th *theatre) {
			th.stand("https://example.org/", website(th)+"/")
			th.stand("postgres://ebb@db/ebb", pgtest.Database(th.T))
		},
		files: map[string]string{"crawl.yaml": "version: 1\nname: hc\ncommand: [echo, done]\n"},
	},
	"docs/webhooks.md": {
		files:  map[string]string{"ebb.yaml": loopbackAllowed},
		before: "ebb webhook listen --listen 127.0.0.1:7373 &",
		words:  lookups,
		swap: []string{
			"https://crm.example/in", "http://127.0.0.1:7373/in",
			"06gxxsd9x6ztf", "$(ebb webhook deliveries --json | first id)",
			"ep_06gxx…", "$(ebb webhook endpoint list --json | first id)",
		},
	},
}

// Every command that a page shows has a place where it is tried.
func TestEveryCommandIsTyped(t *testing.T) {
	used := map[string]bool{}
	for page, text := range sources(t, ".md") {
		found, _ := blocks(page, text)
		for i := range found {
			if !found[i].shell() {
				continue
			}
			used[page] = true
			_, staged := stages[page]
			made := !slices.ContainsFunc(found[i].commands(), func(c command) bool { return !strings.HasPrefix(c.text, "make ") })
			if !staged && elsewhere[page] == "" && !made {
				t.Errorf("%s:%d: nobody tries these commands. Give the page a row in stages, cmd/ebb/docs_stage_test.go (an empty one if they run in an empty directory), and run: go test ./cmd/ebb -run Transcripts", page, found[i].from+1)
			}
		}
	}
	for page := range stages {
		if !used[page] {
			t.Errorf("stages has a row for %s, which has no commands", page)
		}
	}
	if len(used) < 15 {
		t.Errorf("%d pages with commands: the search is broken", len(used))
	}
}

// stand puts something real in the place of what the page says.
func (th *theatre) stand(says, is string) { th.real = append(th.real, [2]string{says, is}) }

func withParameters(url string) string {
	if strings.Contains(url, "?") {
		return url + "&"
	}
	return url + "?"
}

// website is somebody's website: three pages that name each other.
func website(th *theatre) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<title>%s</title><p>A page with enough on it to be one. <a href="/a">a</a> <a href="/b">b</a>`, r.URL.Path)
	}))
	th.Cleanup(s.Close)
	return s.URL
}

// provider answers as a language model would, about two invoices; the second
// puzzles it.
func provider(th *theatre) {
	s := providertest.New(func(c providertest.Call) providertest.Act {
		if strings.Contains(c.Prompt, "riddle") {
			return providertest.Act{Text: "I wonder."}
		}
		return providertest.Act{Text: `{"total": 7}`}
	})
	th.Cleanup(s.Close)
	th.file("ebb.yaml", fmt.Sprintf("document:\n  providers:\n    openai: {base_url: %q}\n", s.Base()))
	th.file("invoice.schema.json", `{"type": "object", "required": ["total"], "properties": {"total": {"type": "number"}}, "additionalProperties": false}`)
	th.file("prompt.md", "What is the total of this invoice?\n{{.Text}}")
	th.file("invoices/a.pdf", onePage("Invoice A, 7 euros"))
	th.file("invoices/b.pdf", onePage("A riddle"))
}

// onePage is a PDF with one line of text.
func onePage(text string) string {
	var b bytes.Buffer
	var at []int
	b.WriteString("%PDF-1.4\n")
	content := "BT /F1 12 Tf 72 720 Td (" + text + ") Tj ET"
	for i, o := range []string{
		"<< /Type /Catalog /Pages 2 0 R >>",
		"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
		"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>",
		fmt.Sprintf("<< /Length %d >>\nstream\n%s\nendstream", len(content), content),
		"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
	} {
		at = append(at, b.Len())
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", i+1, o)
	}
	start := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(at)+1)
	for _, offset := range at {
		fmt.Fprintf(&b, "%010d 00000 n \n", offset)
	}
	fmt.Fprintf(&b, "trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n", len(at)+1, start)
	return b.String()
}
