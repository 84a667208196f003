package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store/pgtest"
)

var update = flag.Bool("update", false, "rewrite golden files and generated docs")

// tests runs them with the PostgreSQL server that they share. What the
// commands say is the subject, not what survives a power cut.
type tests struct{ m *testing.M }

func (t tests) Run() int { return pgtest.RunWith(t.m, pgtest.Config{NoSync: true}) }

func TestMain(m *testing.M) {
	testscript.Main(tests{m}, map[string]func(){
		"ebb":  main,
		"work": func() { os.Exit(work()) },
	})
}

// Each script is a person at a terminal in an empty directory.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: *update,
		Setup: func(e *testscript.Env) error {
			hurry(e)
			pr247, err := os.ReadFile("../../demo/pr-247.yaml")
			if err != nil {
				return err
			}
			return os.WriteFile(e.WorkDir+"/pr-247.yaml", pr247, 0o600)
		},
	})
}

// What is asked of a store is answered alike by both databases: DB names one
// that is empty.
func TestScriptsOnSQLite(t *testing.T) {
	onStore(t, "testdata/store", onSQLite)
}

func TestScriptsOnPostgreSQL(t *testing.T) {
	onStore(t, "testdata/store", onPostgreSQL)
}

// Databases that scripts run on; a line that begins with [sqlite] is for that
// one alone.
const (
	onSQLite     = "sqlite"
	onPostgreSQL = "postgresql"
)

func onStore(t *testing.T, dir, database string) {
	testscript.Run(t, testscript.Params{
		Dir:  dir,
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"id": nameIDs, "setid": wordOf},
		Condition: func(cond string) (bool, error) {
			if cond != onSQLite && cond != onPostgreSQL {
				return false, fmt.Errorf("no condition %q", cond)
			}
			return cond == database, nil
		},
		Setup: func(e *testscript.Env) error {
			hurry(e)
			e.Setenv("DB", "sqlite:ebb.db")
			if database == onPostgreSQL {
				e.Setenv("DB", pgtest.Database(t))
			}
			return nil
		},
	})
}

// nameIDs is the command "id NAME...": it names the jobs that the last command
// enqueued, for each store numbers them in its own way.
func nameIDs(ts *testscript.TestScript, neg bool, names []string) {
	lines := strings.Split(strings.TrimSpace(ts.ReadFile("stdout")), "\n")
	if neg || len(lines) != len(names) {
		ts.Fatalf("id: %d names for %d lines", len(names), len(lines))
	}
	for i, line := range lines {
		id, _, _ := strings.Cut(line, " ")
		if _, err := job.ParseID(id); err != nil {
			ts.Fatalf("id: %v", err)
		}
		ts.Setenv(names[i], id)
	}
}

// wordOf is the command "setid NAME FILE [LINE]": it sets NAME to the id on the
// file's line, the first unless told: its first word, or the one after
// "delivery".
func wordOf(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: setid NAME FILE [LINE]")
	}
	line := 1
	if len(args) > 2 {
		line = int(args[2][0] - '0')
	}
	words := strings.Fields(strings.Split(ts.ReadFile(args[1]), "\n")[line-1])
	if words[0] == "delivery" {
		words = words[1:]
	}
	ts.Setenv(args[0], words[0])
}

// hurry keeps programs built with the race detector from waiting for a second
// each before they exit: the scripts run more than a hundred.
func hurry(e *testscript.Env) {
	e.Setenv("GORACE", strings.TrimSpace("atexit_sleep_ms=0 "+os.Getenv("GORACE")))
}

// Words about an instant of another day name its date: what a script awaits
// must fit within minutes of midnight as well.
func TestScriptsFitAtMidnight(t *testing.T) {
	scripts, err := filepath.Glob("testdata/*/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("scripts: %v, %v", scripts, err)
	}
	dated := regexp.MustCompile(`T\)?\??\.\.:\.\.:\.\.`)
	for _, path := range scripts {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if rest := dated.ReplaceAllString(string(text), ""); strings.Contains(rest, "..:..:..") {
			t.Errorf("%s awaits a time without its date: write (20..-..-..T)?..:..:..Z", path)
		}
	}
}
