package main

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// unpacked puts a database that an older ebb wrote into a directory of its own.
func unpacked(t *testing.T, name string) string {
	t.Helper()
	packed, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	text, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(text)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "ebb.db")
	if err := os.WriteFile(path, body, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestOlderDatabases opens databases that the binaries of older commits wrote,
// named after them. Each holds five jobs: one that waits for 2099, one
// cancelled, one that succeeded with a result, one that failed and waits for
// its retry, one dead letter; and a schedule, a limit, a paused kind, a token.
func TestOlderDatabases(t *testing.T) {
	files, err := filepath.Glob("testdata/upgrade/*.db.gz")
	if err != nil || len(files) == 0 {
		t.Fatalf("no databases: %v", err)
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			db := "sqlite:" + unpacked(t, name)
			ebb := func(args ...string) string {
				t.Helper()
				var out, errs strings.Builder
				if code := run(t.Context(), append(args, "--db", db), strings.NewReader(""), &out, &errs, noEnv); code != exitDone {
					t.Fatalf("ebb %s: exit %d: %s", strings.Join(args, " "), code, errs.String())
				}
				return out.String()
			}
			var list struct {
				Jobs []struct{ ID, Kind, State string } `json:"jobs"`
			}
			if err := json.Unmarshal([]byte(ebb("job", "list", "--json")), &list); err != nil {
				t.Fatal(err)
			}
			ids := map[string]string{}
			for _, j := range list.Jobs {
				ids[j.Kind+" "+j.State] = j.ID
			}
			for job, say := range map[string]string{
				"mail queued":    "2099-01-01",
				"mail cancelled": "cancelled",
				"won succeeded":  "succeeded",
				"retried queued": "failed its 1st of 6 attempts with server (http status 503",
				"dead failed":    "http status 400",
			} {
				if ids[job] == "" {
					t.Errorf("there is no %s among %v", job, list.Jobs)
				} else if why := ebb("job", "why", ids[job]); !strings.Contains(why, say) {
					t.Errorf("why of %s does not say %q:\n%s", job, say, why)
				}
			}
			if shown := ebb("job", "show", ids["won succeeded"], "--json"); !strings.Contains(shown, `"sent": true`) {
				t.Errorf("the result is gone:\n%s", shown)
			}
			for command, say := range map[string]string{
				"periodic list":  "Europe/Berlin",
				"queue list":     "later",
				"kind list":      "report",
				"token list":     "worker",
				"dead groups":    "http status 400",
				"migrate status": "queue",
			} {
				if out := ebb(strings.Fields(command)...); !strings.Contains(out, say) {
					t.Errorf("ebb %s does not say %q:\n%s", command, say, out)
				}
			}
			ebb("dead", "redrive", "--kind", "dead")
			ebb("job", "enqueue", "--kind", "mail", "--quiet")
			ebb("migrate", "down", "--yes")
			ebb("migrate", "up")
		})
	}
}
