package ebb_test

import (
	"slices"
	"strconv"
	"testing"
	"testing/fstest"
)

// TestCheckLayers proves the checker on trees that break one rule each.
func TestCheckLayers(t *testing.T) {
	const up = "retry imports github.com/ebbhq/ebb/worker: it stands below"
	cases := []struct {
		name  string
		files map[string][]string // file → imports
		want  []string
	}{
		{"downward is fine", map[string][]string{"retry/a.go": {module + "/policy", module + "/failure", "time"}}, nil},
		{"upward", map[string][]string{"retry/a.go": {module + "/worker"}}, []string{up}},
		{"upward in a file of another platform", map[string][]string{"retry/a_windows.go": {module + "/worker"}}, []string{up}},
		{"upward in a test", map[string][]string{"retry/a_test.go": {module + "/worker"}}, []string{
			"retry imports github.com/ebbhq/ebb/worker in a test: it stands below",
		}},
		{"test support and foreign modules in tests", map[string][]string{
			"worker/a_test.go":  {module + "/ebbtest", module + "/worker", "pgregory.net/rapid"},
			"failure/a_test.go": {"os/exec"},
		}, nil},
		{"test support in what ships", map[string][]string{"worker/a.go": {module + "/ebbtest"}}, []string{
			"worker imports github.com/ebbhq/ebb/ebbtest: it stands below",
		}},
		{"unknown package", map[string][]string{"util/a.go": nil}, []string{
			"util has no place in the order: add a row to layers_test.go and to docs/architecture.md",
		}},
		{"unknown package below a known one", map[string][]string{"failure/sql/a.go": nil}, []string{
			"failure/sql has no place in the order: add a row to layers_test.go and to docs/architecture.md",
		}},
		{"import of an unknown package", map[string][]string{"cmd/ebb/a.go": {module + "/bench"}}, []string{
			"cmd/ebb imports github.com/ebbhq/ebb/bench: that package has no place in the order",
		}},
		{"workloads import each other", map[string][]string{"work/fetch/a.go": {module + "/work/webhook"}}, []string{
			"work/fetch imports github.com/ebbhq/ebb/work/webhook: peers never import each other",
		}},
		{"a workload's own parts", map[string][]string{"work/supervise/a.go": {module + "/work/supervise/campaign"}}, nil},
		{"stores import each other", map[string][]string{"store/sqlite/a.go": {module + "/store/postgres"}}, []string{
			"store/sqlite imports github.com/ebbhq/ebb/store/postgres: peers never import each other",
		}},
		{"the root imports a workload", map[string][]string{"a.go": {module + "/work/fetch"}}, []string{
			"the root reaches a workload: . → work/fetch: library users would compile it",
		}},
		{"the root reaches a workload", map[string][]string{"a.go": {module + "/api"}, "api/a.go": {module + "/work/fetch"}}, []string{
			"the root reaches a workload: . → api → work/fetch: library users would compile it",
		}},
		{"policy imports a driver", map[string][]string{"policy/a.go": {"github.com/jackc/pgx/v5", "database/sql", "os"}}, []string{
			"policy imports database/sql: a pure package does not reach the world",
			"policy imports github.com/jackc/pgx/v5: a pure package imports no driver, SDK or other foreign module",
			"policy imports os: a pure package does not reach the world",
		}},
		{"what a row allows", map[string][]string{
			"policy/file/a.go": {"github.com/goccy/go-yaml/ast"}, "failure/a.go": {"net/http"}, "store/sqlite/a.go": {"database/sql", "modernc.org/sqlite"},
		}, nil},
		{"not of this module", map[string][]string{
			"bench/go.mod": nil, "bench/a.go": {module + "/worker"}, "retry/testdata/a.go": {module + "/worker"}, ".cache/a.go": {module + "/worker"},
		}, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			fsys := fstest.MapFS{}
			for name, imports := range c.files {
				src := "package p\n"
				for _, i := range imports {
					src += "import " + strconv.Quote(i) + "\n"
				}
				fsys[name] = &fstest.MapFile{Data: []byte(src)}
			}
			if got := checkLayers(readTree(t, fsys)); !slices.Equal(got, c.want) {
				t.Errorf("complaints\n%q, want\n%q", got, c.want)
			}
		})
	}
}

func TestCheckComments(t *testing.T) {
	fsys := fstest.MapFS{
		"good/a.go":      {Data: []byte("package good\n")},
		"good/good.go":   {Data: []byte("// Package good is good.\npackage good\n")},
		"cmd/ebb/a.go":   {Data: []byte("// Command ebb runs.\npackage main\n")},
		"bare/a.go":      {Data: []byte("package bare\n")},
		"off/a.go":       {Data: []byte("// Package on is another.\npackage off\n")},
		"only/a_test.go": {Data: []byte("package only_test\n")},
	}
	want := []string{
		`bare: its package comment must begin with "Package bare ", has ""`,
		`off: its package comment must begin with "Package off ", has "Package on is another.\n"`,
	}
	if got := checkComments(readTree(t, fsys)); !slices.Equal(got, want) {
		t.Errorf("complaints\n%q, want\n%q", got, want)
	}
}
