package file_test

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ebbhq/ebb/simulate"
	"github.com/ebbhq/ebb/simulate/file"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const separator = "----------\n"

// beside are the files that the golden files name.
var beside = map[string]string{
	"policies.yaml": "version: 1\npolicies:\n  webhook: {attempts: 3}\n  other: {}\n",
	"single.yaml":   "version: 1\npolicies:\n  only: {attempts: 2}\n",
	"broken.yaml":   "version: 1\npolicies:\n  only: {attemts: 2}\n",
	"times.csv":     "time,what\n0.5,a\n1.25,b\n2s,c\n",
	"instants.csv":  "2026-04-08T09:00:00Z\n2026-04-08T09:00:01.5Z\n",
	"samples.csv":   "# measured\n12ms\n15ms\n",
	"falling.csv":   "1\n2\n1.5\n",
	"wrong.csv":     "1\nlong\n",
}

func open(path string) ([]byte, error) {
	if text, ok := beside[path]; ok {
		return []byte(text), nil
	}
	return nil, fmt.Errorf("%s: %w", path, fs.ErrNotExist)
}

func golden(t *testing.T, path string) (input, want string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	input, want, ok := strings.Cut(string(text), separator)
	if !ok {
		t.Fatalf("%s has no separator line %q", path, separator)
	}
	return input, want
}

func compare(t *testing.T, path, input, got, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(input+separator+got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: -want +got:\n%s", path, diff)
	}
}

func goldens(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("no golden files %s: %v", pattern, err)
	}
	return paths
}

func TestBadFiles(t *testing.T) {
	for _, path := range goldens(t, "testdata/bad/*.yaml") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			input, want := golden(t, path)
			_, err := file.Parse("s.yaml", []byte(input), open)
			if err == nil {
				t.Fatal("parsed without an error")
			}
			var list file.Errors
			if !errors.As(err, &list) {
				t.Fatalf("the error is %T", err)
			}
			for _, e := range list {
				if e.Line < 1 || e.Column < 1 {
					t.Errorf("no place: %v", e)
				}
			}
			compare(t, path, input, err.Error()+"\n", want)
		})
	}
}

// Reading a print gives the same scenarios back, and printing them the same
// print.
func TestGoodFiles(t *testing.T) {
	for _, path := range goldens(t, "testdata/good/*.yaml") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			input, want := golden(t, path)
			f, err := file.Parse("s.yaml", []byte(input), open)
			if err != nil {
				t.Fatal(err)
			}
			got := f.Print()
			compare(t, path, input, got, want)
			again, err := file.Parse("s.yaml", []byte(got), nil)
			if err != nil {
				t.Fatalf("the print does not parse: %v\n%s", err, got)
			}
			if second := again.Print(); second != got {
				t.Errorf("the print of the print differs:\n%s", cmp.Diff(got, second))
			}
			for _, scenario := range []*simulate.Scenario{&f.Scenario, &again.Scenario} {
				forget(scenario)
			}
			for i := range f.Variants {
				forget(&f.Variants[i].Scenario)
				forget(&again.Variants[i].Scenario)
			}
			if diff := cmp.Diff(f, again); diff != "" {
				t.Errorf("the print reads back differently:\n%s", diff)
			}
		})
	}
}

// forget drops what a print may change: the name of a policy whose name
// another has, and the version that depends on it.
func forget(s *simulate.Scenario) {
	for i := range s.Callers {
		s.Callers[i].Policy.Name, s.Callers[i].Policy.Version = "", ""
	}
}

func TestFilesAreLookedForBesideTheScenario(t *testing.T) {
	dir := t.TempDir()
	text := "version: 1\ncallers: [{name: a, arrivals: trace times.csv, policy: single.yaml, targets: x}]\ndownstreams: [{name: x}]\n"
	for name, content := range map[string]string{"s.yaml": text, "times.csv": beside["times.csv"], "single.yaml": beside["single.yaml"]} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, err := file.Load(filepath.Join(dir, "s.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintln(f.Scenario.Name, f.Scenario.Callers[0].Arrivals[0].Times, f.Scenario.Callers[0].Policy.Attempts); got != "s [500ms 1.25s 2s] 2\n" {
		t.Error(got)
	}
	if _, err := file.Load(filepath.Join(dir, "none.yaml")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/good/*.yaml", "testdata/bad/*.yaml"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			input, _, _ := strings.Cut(string(text), separator)
			f.Add(input)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := file.Parse("s.yaml", []byte(text), open)
		if err != nil {
			return
		}
		if err := simulate.Check(&s.Scenario); err != nil {
			t.Fatalf("what is read cannot be: %v", err)
		}
		print := s.Print()
		again, err := file.Parse("s.yaml", []byte(print), nil)
		if err != nil {
			t.Fatalf("the print does not parse: %v\n%s", err, print)
		}
		if second := again.Print(); second != print {
			t.Fatalf("the print of the print differs:\n%s", cmp.Diff(print, second))
		}
	})
}
