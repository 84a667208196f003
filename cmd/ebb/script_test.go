package main

import (
	"flag"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/ebbhq/ebb/store/pgtest"
)

var update = flag.Bool("update", false, "rewrite golden files and generated docs")

// tests runs them with the PostgreSQL server that they share.
type tests struct{ m *testing.M }

func (t tests) Run() int { return pgtest.Run(t.m) }

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
	onStore(t, func() string { return "sqlite:ebb.db" })
}

func TestScriptsOnPostgreSQL(t *testing.T) {
	onStore(t, func() string { return pgtest.Database(t) })
}

func onStore(t *testing.T, database func() string) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/store",
		Setup: func(e *testscript.Env) error {
			e.Setenv("DB", database())
			return nil
		},
	})
}
