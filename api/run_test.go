package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/api"
	"github.com/ebbhq/ebb/store/memory"
	"github.com/ebbhq/ebb/work/supervise"
)

func newRunBench(t *testing.T, commands bool) *bench {
	t.Helper()
	s := memory.New(memory.Config{})
	runs, err := supervise.New(supervise.Config{Store: s, Self: []string{"ebb"}})
	if err != nil {
		t.Fatal(err)
	}
	return newBenchOn(t, s, func(c *api.Config, _ *api.LeasesConfig) { c.Runs, c.RunCommands = runs, commands })
}

const newRun = `{"spec": {"name": "hc", "dir": "/srv/hc", "command": ["wget", "--recursive", ["--input-file", "{remaining}"], "https://example.org/"]}}`

func TestRunsOverHTTP(t *testing.T) {
	b := newRunBench(t, true)
	admin, reader := b.token("ops", access.Admin), b.token("eye", access.Read)
	b.expect(b.do(reader, "POST", "/v1/runs", newRun), http.StatusForbidden, "scope admin")
	b.expect(b.do(admin, "POST", "/v1/runs", newRun), http.StatusCreated, `"name":"hc","job":"`, `"state":"queued"`)
	b.expect(b.do(admin, "POST", "/v1/runs", newRun), http.StatusConflict, "queued, running or parked already")
	b.expect(b.do(reader, "GET", "/v1/runs", ""), http.StatusOK, `"name":"hc"`, `"restarts_left":20`)
	b.expect(b.do(reader, "GET", "/v1/runs/hc", ""), http.StatusOK, `"command":"wget --recursive --input-file {remaining} https://example.org/"`, `"counter":"pages"`)
	b.expect(b.do(reader, "GET", "/v1/runs/hc/log", ""), http.StatusOK, `{"stdout":"","stderr":""}`)
	b.expect(b.do(reader, "GET", "/v1/runs/none", ""), http.StatusNotFound, "not_found")
	changed := strings.Replace(newRun, "--recursive", "--mirror", 1)
	b.expect(b.do(admin, "PUT", "/v1/runs/hc", changed), http.StatusOK, `"state":"queued"`)
	b.expect(b.do(admin, "PUT", "/v1/runs/phac", changed), http.StatusUnprocessableEntity, "is not the run's")
	b.expect(b.do(admin, "PUT", "/v1/runs/hc", `{"spec": {"name": "hc", "pages": 5}}`), http.StatusUnprocessableEntity, `unknown field \"pages\"`)
	b.expect(b.do(admin, "GET", "/v1/runs/hc", ""), http.StatusOK, "wget --mirror")
	b.expect(b.do(admin, "POST", "/v1/runs/hc/release", ""), http.StatusOK, `"state":"queued"`)
}

// Who may submit a command runs programs: the configuration must say so.
func TestCommandsAreRefusedUnlessAllowed(t *testing.T) {
	b := newRunBench(t, false)
	b.expect(b.do(b.token("ops", access.Admin), "POST", "/v1/runs", newRun), http.StatusForbidden, "no_commands")
}

func TestServerWithoutRunsSaysSo(t *testing.T) {
	b := newBench(t)
	b.expect(b.do(b.token("eye", access.Read), "GET", "/v1/runs", ""), http.StatusNotFound, "no_runs", "this server has none")
}

// expect checks an answer's status and parts of its body.
func (b *bench) expect(g got, status int, parts ...string) {
	b.Helper()
	if g.status != status {
		b.Errorf("status %d, want %d: %s", g.status, status, g.body)
	}
	for _, part := range parts {
		if !strings.Contains(string(g.body), part) {
			b.Errorf("no %q in %s", part, g.body)
		}
	}
}
