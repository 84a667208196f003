package console_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/console"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/work/supervise"
)

// withRuns is a console with one run that was queued, and the log of its
// first attempt.
func withRuns(t *testing.T, s *site) *supervise.Service {
	t.Helper()
	runs, err := supervise.New(supervise.Config{Store: s.store, Self: []string{"ebb"}, Clock: s.clock})
	if err != nil {
		t.Fatal(err)
	}
	spec := supervise.Spec{Version: 1, Name: "hc", Dir: t.TempDir(), Command: supervise.Words("wget", "--recursive", "https://example.org/<b>")}
	if _, err := runs.Submit(t.Context(), s.clock.Now(), supervise.Submission{Spec: spec, Actor: "maya"}); err != nil {
		t.Fatal(err)
	}
	attempt := filepath.Join(spec.Dir, "attempts", "0001")
	if err := os.MkdirAll(attempt, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(attempt, "stderr.log"), []byte("saved <p1>\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	status := `{"attempt":1,"units":41,"high":41,"workers":4,"initial_workers":8,"errors":{"timeout":3,"http":2,"other":0},"progress_at":"2026-03-01T11:58:00Z","hold_text":"disk: /srv: 5 bytes free, want 100"}`
	if _, err := s.store.Write(t.Context(), s.clock.Now(), store.Write{Puts: []store.Record{{Kind: "run-status", ID: "hc", Version: store.AnyVersion, Body: []byte(status)}}}); err != nil {
		t.Fatal(err)
	}
	return runs
}

func TestRuns(t *testing.T) {
	s := open(t)
	runs := withRuns(t, s)
	var err error
	if s.handler, err = console.New(console.Config{Ops: s.ops, Now: s.clock.Now, Runs: runs}); err != nil {
		t.Fatal(err)
	}
	s.page(http.StatusOK, "/runs", `<a href="/runs/hc">hc</a>`, "41 <span class=\"soft\">pages</span>", "2 min ago", "https://example.org/&lt;b&gt;")
	s.page(http.StatusOK, "/runs/hc", "Run hc", "41 pages", "0 used, 20 left", "1, 4 workers", "3 timeouts, 2 HTTP, 0 other",
		"Disk: /srv: 5 bytes free, want 100.", "saved &lt;p1&gt;")
	s.page(http.StatusNotFound, "/runs/none", "There is no such run.")
}

func TestReleaseOfARunNeedsTheScope(t *testing.T) {
	s := open(t)
	runs := withRuns(t, s)
	k, err := access.New(s.store, s.clock, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.handler, err = console.New(console.Config{Ops: s.ops, Keeper: k, Now: s.clock.Now, Runs: runs}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		scope  access.Scope
		status int
	}{{access.Read, http.StatusForbidden}, {access.Operate, http.StatusSeeOther}} {
		s.login(k, access.Principal{Name: "maya", Scopes: []access.Scope{access.Read, c.scope}})
		if w := s.ask("POST", "/runs/hc/release", http.NoBody, "Sec-Fetch-Site", "same-origin"); w.Code != c.status {
			t.Errorf("%s: status %d, want %d: %s", c.scope, w.Code, c.status, w.Body)
		}
	}
}
