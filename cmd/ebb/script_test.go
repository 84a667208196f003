package main

import (
	"context"
	"flag"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "rewrite golden files and generated docs")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"ebb": func() {
			os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.LookupEnv))
		},
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
