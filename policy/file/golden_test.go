package file_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ebbhq/ebb/policy/file"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const separator = "----------\n"

// golden splits a golden file into input and expected output.
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
		if err := os.WriteFile(path, []byte(input+separator+got), 0o644); err != nil {
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
			_, err := file.Parse("policies.yaml", []byte(input))
			if err == nil {
				t.Fatal("parsed without an error")
			}
			compare(t, path, input, err.Error()+"\n", want)
		})
	}
}

func TestGoodFiles(t *testing.T) {
	for _, path := range goldens(t, "testdata/good/*.yaml") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			input, want := golden(t, path)
			f, err := file.Parse("policies.yaml", []byte(input))
			if err != nil {
				t.Fatal(err)
			}
			got := file.Print(f.Policies()...)
			compare(t, path, input, got, want)
			again, err := file.Parse("print", []byte(got))
			if err != nil {
				t.Fatalf("the print does not parse: %v", err)
			}
			if diff := cmp.Diff(f.Policies(), again.Policies()); diff != "" {
				t.Errorf("the print reads back differently:\n%s", diff)
			}
		})
	}
}
