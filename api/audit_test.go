package api_test

import (
	"testing"

	"github.com/ebbhq/ebb/access"
)

// TestAudit: every order leaves a row that names the token's owner.
func TestAudit(t *testing.T) {
	b := newBench(t)
	maya := b.token("maya", access.Admin)
	first, second := b.enqueue(maya, `{"kind":"k"}`), b.enqueue(maya, `{"kind":"k"}`)
	before, err := b.store.Audit(t.Context(), 100)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct{ method, path, body, act string }{
		{"POST", "/v1/queues/q/pause", "", "queue.pause"},
		{"POST", "/v1/queues/q/resume", "", "queue.resume"},
		{"PUT", "/v1/queues/q/limit", `{"rate":2}`, "queue.limit"},
		{"POST", "/v1/kinds/k/pause", "", "kind.pause"},
		{"POST", "/v1/kinds/k/resume", "", "kind.resume"},
		{"POST", "/v1/targets/t/pause", "", "target.pause"},
		{"POST", "/v1/targets/t/resume", "", "target.resume"},
		{"PUT", "/v1/periodics/p", `{"name":"p","cron":"@daily","job":{"kind":"k"}}`, "periodic.put"},
		{"DELETE", "/v1/periodics/p", "", "periodic.drop"},
		{"POST", "/v1/jobs/" + first + "/cancel", "", "job.cancel"},
		{"POST", "/v1/jobs/" + second + "/retry", "", "job.retry"},
		{"POST", "/v1/redrives", `{"filter":{"kind":"k"}}`, "dead.redrive"},
		{"POST", "/v1/tokens", `{"name":"ci","scopes":["read"]}`, "token.create"},
	} {
		if g := b.do(maya, c.method, c.path, c.body); g.status >= 300 {
			t.Fatalf("%s %s: %d %s", c.method, c.path, g.status, g.body)
		}
		rows, err := b.store.Audit(t.Context(), 100)
		if err != nil {
			t.Fatal(err)
		}
		if len(rows) != len(before)+i+1 || rows[0].Actor != "maya" || rows[0].Act != c.act {
			t.Fatalf("%s %s: %d rows, the newest is %+v, want %s", c.method, c.path, len(rows)-len(before), rows[0], c.act)
		}
	}
}
