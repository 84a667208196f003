package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// suite is a module's test file with the guarded test and a neighbour.
const suite = `package m

import "testing"

func TestBackoff(t *testing.T) {
	t.Run("first retry", func(t *testing.T) {})
	t.Run("jitter", func(t *testing.T) {})
}
`

const list = "# guarded\n\nexample.org/m TestBackoff/first_retry\nexample.org/m TestBackoff/jitter\n"

// TestGuard runs the real go test -json on a module in which a backoff test
// was tampered with.
func TestGuard(t *testing.T) {
	cases := []struct {
		name     string
		from, to string
		code     int
		says     string
	}{
		{name: "untouched", code: 0, says: "all 2 listed tests ran and passed"},
		{
			name: "skipped", from: `t.Run("jitter", func(t *testing.T) {})`, to: `t.Run("jitter", func(t *testing.T) { t.Skip("flaky") })`,
			code: 1, says: "example.org/m TestBackoff/jitter: was skipped",
		},
		{
			name: "parent skipped", from: "t.Run(\"first", to: "t.Skip()\n\tt.Run(\"first",
			code: 1, says: "example.org/m TestBackoff/first_retry: did not run",
		},
		{
			name: "unlisted skipped", from: "func TestBackoff(", to: "func TestBackoffMore(t *testing.T) { t.Skip() }\n\nfunc TestBackoff(",
			code: 1, says: "example.org/m TestBackoffMore: was skipped",
		},
		{
			name: "renamed", from: "first retry", to: "some retry",
			code: 1, says: "example.org/m TestBackoff/first_retry: did not run",
		},
		{
			name: "removed", from: `t.Run("jitter", func(t *testing.T) {})`, to: "",
			code: 1, says: "example.org/m TestBackoff/jitter: did not run",
		},
		{
			name: "failed", from: `t.Run("jitter", func(t *testing.T) {})`, to: `t.Run("jitter", func(t *testing.T) { t.Error("no") })`,
			code: 1, says: "example.org/m TestBackoff/jitter: failed",
		},
		{
			name: "excluded by a build tag", from: "package m", to: "//go:build never\n\npackage m",
			code: 1, says: "example.org/m TestBackoff/first_retry: did not run",
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "go.mod", "module example.org/m\n\ngo 1.26\n")
			write(t, dir, "m.go", "package m\n")
			write(t, dir, "m_test.go", strings.Replace(suite, c.from, c.to, 1))
			listPath := write(t, dir, "list.txt", list)
			results := write(t, dir, "results.json", goTestJSON(t, dir))

			var stdout, stderr bytes.Buffer
			code := run([]string{"-list", listPath, results}, &stdout, &stderr)
			if code != c.code {
				t.Errorf("exit %d, want %d\n%s%s", code, c.code, &stdout, &stderr)
			}
			if said := stdout.String() + stderr.String(); !strings.Contains(said, c.says) {
				t.Errorf("said %q, want %q in it", said, c.says)
			}
		})
	}
}

// goTestJSON runs the module's tests; that they fail is for the guard to say.
func goTestJSON(t *testing.T, dir string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "test", "-json", "./...")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "CGO_ENABLED=0")
	out, err := cmd.Output()
	if len(out) == 0 {
		t.Fatalf("go test -json: no output: %v", err)
	}
	return string(out)
}

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestCannotTell: what the guard cannot read is an error, never a pass.
func TestCannotTell(t *testing.T) {
	dir := t.TempDir()
	good := write(t, dir, "good.json", `{"Action":"pass","Package":"example.org/m","Test":"TestBackoff/first_retry"}`+"\n"+
		`{"Action":"pass","Package":"example.org/m","Test":"TestBackoff/jitter"}`)
	listPath := write(t, dir, "list.txt", list)
	cases := []struct {
		name string
		args []string
		says string
	}{
		{"no results", []string{"-list", listPath}, "usage"},
		{"missing results", []string{"-list", listPath, filepath.Join(dir, "none.json")}, "none.json"},
		{"missing list", []string{"-list", filepath.Join(dir, "none.txt"), good}, "none.txt"},
		{"empty list", []string{"-list", write(t, dir, "empty.txt", "# nothing\n"), good}, "guards nothing"},
		{"malformed list", []string{"-list", write(t, dir, "bad.txt", "TestBackoff\n"), good}, "line 1: want a package and a test"},
		{"plain output", []string{"-list", listPath, write(t, dir, "plain.json", "ok example.org/m 0.1s\n")}, "no events"},
		{"torn output", []string{"-list", listPath, write(t, dir, "torn.json", `{"Action":"pass","Pack`)}, "line 1"},
		{"unknown flag", []string{"-lists", listPath, good}, "not defined"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := run(c.args, &stdout, &stderr); code != 2 {
				t.Errorf("exit %d, want 2", code)
			}
			if !strings.Contains(stderr.String(), c.says) {
				t.Errorf("said %q, want %q in it", stderr.String(), c.says)
			}
		})
	}
	var stdout, stderr bytes.Buffer
	if code := run([]string{"-list", listPath, good}, &stdout, &stderr); code != 0 {
		t.Errorf("good results: exit %d: %s", code, &stderr)
	}
}

// TestOnePassIsNotEnough: a test that ran twice must have passed twice.
func TestOnePassIsNotEnough(t *testing.T) {
	results, err := readResults(strings.NewReader(`{"Action":"fail","Package":"p","Test":"T"}` + "\n" + `{"Action":"pass","Package":"p","Test":"T"}`))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := check([]test{{"p", "T"}}, results), []string{"p T: failed"}; !slices.Equal(got, want) {
		t.Errorf("complaints %q, want %q", got, want)
	}
}

// TestListNamesTheSeed: the checked-in list holds the backoff suite of seed
// 002, so that a test and its line cannot vanish together unnoticed.
func TestListNamesTheSeed(t *testing.T) {
	tests, err := readFile(filepath.Join("..", "backoff-tests.txt"), readList)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"first_retry_around_60s", "second_retry_around_120s", "backoff_is_exponential",
		"delay_never_negative", "jitter_produces_variance",
	} {
		if want := (test{"github.com/ebbhq/ebb/policy", "TestBackoff/" + name}); !slices.Contains(tests, want) {
			t.Errorf("backoff-tests.txt lacks %q", want)
		}
	}
}

// TestListNamesTheWholeFile: every test beside the seed's suite is guarded
// too; exact delays and distributions could once be skipped unseen.
func TestListNamesTheWholeFile(t *testing.T) {
	tests, err := readFile(filepath.Join("..", "backoff-tests.txt"), readList)
	if err != nil {
		t.Fatal(err)
	}
	source, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "..", "policy", "backoff_test.go"), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, decl := range source.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || !strings.HasPrefix(f.Name.Name, "Test") && !strings.HasPrefix(f.Name.Name, "Fuzz") {
			continue
		}
		if !slices.ContainsFunc(tests, func(l test) bool {
			name, _, _ := strings.Cut(l.name, "/")
			return l.pkg == "github.com/ebbhq/ebb/policy" && name == f.Name.Name
		}) {
			t.Errorf("backoff-tests.txt lacks %s of policy/backoff_test.go", f.Name.Name)
		}
	}
}
