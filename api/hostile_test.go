package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/api"
	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
)

// TestReservedKinds: what a workload of the server does is ordered by its own
// routes; a token that may enqueue cannot make such a job past them.
func TestReservedKinds(t *testing.T) {
	b := newBench(t, func(c *api.Config, _ *api.LeasesConfig) { c.Reserved = []string{"supervise.run"} })
	body := `{"kind":"supervise.run","args":{"run":"crawl"}}`
	for _, scope := range []access.Scope{access.Produce, access.Operate} {
		token := b.token(string(scope), scope)
		for _, c := range []struct{ method, path, body string }{
			{"POST", "/v1/jobs", body},
			{"POST", "/v1/jobs/batch", `{"jobs":[{"kind":"k"},` + body + `]}`},
			{"PUT", "/v1/periodics/p", `{"name":"p","cron":"@daily","job":` + body + `}`},
		} {
			if c.method == "PUT" && scope == access.Produce {
				continue // it lacks the scope anyway
			}
			p := b.refused(b.do(token, c.method, c.path, c.body), 403, "forbidden")
			if want := "scope admin for the kind supervise.run is missing"; !strings.Contains(p.Detail, want) {
				t.Errorf("got %q, want %q", p.Detail, want)
			}
		}
	}
	admin := b.token("root", access.Admin)
	if list := want[engine.Jobs](b, b.do(admin, "GET", "/v1/jobs", ""), 200); len(list.Jobs) != 0 {
		t.Fatalf("there are %d jobs", len(list.Jobs))
	}
	want[engine.Enqueued](b, b.do(admin, "POST", "/v1/jobs", body), 201)
}

// TestNames: what can be no name is refused in words, before a database is
// asked that would refuse it in its own.
func TestNames(t *testing.T) {
	b := newBench(t)
	admin := b.token("root", access.Admin)
	long, longer := strings.Repeat("n", 256), strings.Repeat("n", 769)
	for _, field := range []string{"kind", "queue", "policy"} {
		n := map[string]string{"kind": "k", field: long}
		text, _ := json.Marshal(n)
		p := b.refused(b.do(admin, "POST", "/v1/jobs", string(text)), 422, "invalid")
		if want := fmt.Sprintf(`enqueue: %s "nnnnnnnnnnnnnnnnnnnn"…: has 256 bytes, at most 255`, field); p.Detail != want {
			t.Errorf("got %q, want %q", p.Detail, want)
		}
		n[field] = "a\x00b"
		text, _ = json.Marshal(n)
		b.refused(b.do(admin, "POST", "/v1/jobs", string(text)), 422, "invalid")
	}
	for _, field := range []string{"target", "key", "unique", "batch", "trace"} {
		text, _ := json.Marshal(map[string]string{"kind": "k", field: longer})
		b.refused(b.do(admin, "POST", "/v1/jobs", string(text)), 422, "invalid")
	}
	for _, name := range []string{long, "a%00b", "a%ffb"} {
		b.refused(b.do(admin, "POST", "/v1/queues/"+name+"/pause", ""), 422, "invalid")
		b.refused(b.do(admin, "PUT", "/v1/queues/"+name+"/limit", `{"rate":1}`), 422, "invalid")
		b.refused(b.do(admin, "POST", "/v1/kinds/"+name+"/pause", ""), 422, "invalid")
		if name != long {
			b.refused(b.do(admin, "POST", "/v1/targets/"+name+"/pause", ""), 422, "invalid")
			b.refused(b.do(admin, "GET", "/v1/targets/"+name, ""), 422, "invalid")
			b.refused(b.do(admin, "GET", "/v1/jobs?queue="+name, ""), 422, "invalid")
			b.refused(b.do(admin, "GET", "/v1/jobs?key="+name, ""), 422, "invalid")
		}
	}
}

// TestBytesThatAreNoText: a body that is not UTF-8 is refused, and bytes that
// are not go out as base64: every answer can be read.
func TestBytesThatAreNoText(t *testing.T) {
	b := newBench(t)
	admin := b.token("root", access.Admin)
	b.refused(b.do(admin, "POST", "/v1/jobs", "{\"kind\":\"k\",\"args\":{\"name\":\"\xff\"}}"), 400, "json")
	if _, err := b.store.Enqueue(t.Context(), b.clock.Now(), []job.New{{Kind: "k", Args: []byte("{\"name\":\"\xff\"}")}}); err != nil {
		t.Fatal(err)
	}
	g := b.do(admin, "GET", "/v1/jobs", "")
	if !utf8.Valid(g.body) {
		t.Fatalf("the list is no text: %q", g.body)
	}
	if j := want[engine.Jobs](b, g, 200).Jobs[0]; string(j.ArgsBase64) != "{\"name\":\"\xff\"}" || j.Args != nil {
		t.Errorf("args %s, as base64 %q", j.Args, j.ArgsBase64)
	}
	g = b.do(admin, "POST", "/v1/leases", `{"kinds":["k"]}`)
	if !utf8.Valid(g.body) {
		t.Fatalf("the lease is no text: %q", g.body)
	}
	if l := want[api.Claimed](b, g, 200).Leases; len(l) != 1 || string(l[0].ArgsBase64) != "{\"name\":\"\xff\"}" {
		t.Errorf("got %+v", l)
	}
}

// TestFinishOfAnotherQueue: an order of another queue, or none, is not seen
// through by a token of one queue.
func TestFinishOfAnotherQueue(t *testing.T) {
	b := newBench(t)
	admin, mail := b.token("root", access.Admin), b.token("mailer", access.Operate, "mail")
	order := want[engine.Redrive](b, b.do(admin, "POST", "/v1/redrives", `{"filter":{"queue":"bills"}}`), 200)
	b.refused(b.do(mail, "POST", "/v1/redrives/"+order.ID+"/finish", ""), 403, "forbidden")
	b.refused(b.do(mail, "POST", "/v1/redrives/999/finish", ""), 404, "not_found")
	want[engine.Redrive](b, b.do(admin, "POST", "/v1/redrives/"+order.ID+"/finish", ""), 200)
	b.refused(b.do(mail, "GET", "/v1/audit", ""), 403, "forbidden")
}

// TestRequestsThatMeanNothing: what cannot be meant is refused in words that
// say what would be right, not half understood.
func TestRequestsThatMeanNothing(t *testing.T) {
	b := newBench(t)
	admin := b.token("root", access.Admin)
	for _, c := range []struct {
		method, path, body string
		headers            []string
		status             int
		code, words        string
	}{
		{"GET", "/v1/jobs?quee=mail", "", nil, 400, "parameter", `parameter "quee": there is no such parameter`},
		{"GET", "/v1/queues?limit=1", "", nil, 400, "parameter", `parameter "limit": there is no such parameter`},
		{"GET", "/v1/jobs?%zz=1", "", nil, 400, "parameter", "the query cannot be read"},
		{"GET", "/v1/jobs?queue=a;b", "", nil, 400, "parameter", "the query cannot be read"},
		{"POST", "/v1/jobs?queue=mail", `{"kind":"k"}`, nil, 400, "parameter", `parameter "queue"`},
		{"POST", "/v1/jobs", `{"kind":"k"}`, []string{"Content-Encoding", "gzip"}, 415, "media_type", `encoded with "gzip"`},
		{"POST", "/v1/jobs", `{"kind":7}`, nil, 400, "json", "the body: kind: got number, want a string"},
		{"POST", "/v1/jobs", `{"kind":"k","priority":1e3}`, nil, 400, "json", "the body: priority: got number 1e3, want a whole number that is not too large"},
		{"POST", "/v1/jobs", `[]`, nil, 400, "json", "the body: got array, want an object"},
		{"POST", "/v1/jobs/batch", `{"jobs":{}}`, nil, 400, "json", "the body: jobs: got object, want an array"},
		{"POST", "/v1/jobs", `{"kind":"k","due_at":"0000-01-01T00:00:00Z"}`, nil, 422, "invalid", "must be in 1970 or later"},
		{"POST", "/v1/leases", `{"kinds":["a\u0000b"]}`, nil, 422, "invalid", "1 to 255 bytes of text"},
		{"POST", "/v1/leases", `{"kinds":["k"],"queues":["` + strings.Repeat("q", 256) + `"]}`, nil, 422, "invalid", "1 to 255 bytes of text"},
		{"POST", "/v1/leases/heartbeat", `{"leases":[` + strings.Repeat(`{"id":"x","epoch":1},`, 1000) + `{"id":"x","epoch":1}]}`, nil, 422, "invalid", "1001 rows: at most 1000 at once"},
		{"GET", "/v1/targets?cursor=%00", "", nil, 422, "invalid", "cursor"},
	} {
		p := b.refused(b.do(admin, c.method, c.path, c.body, c.headers...), c.status, c.code)
		if !strings.Contains(p.Detail, c.words) {
			t.Errorf("%s %s: got %q, want %q", c.method, c.path, p.Detail, c.words)
		}
	}
}
