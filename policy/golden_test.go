package policy

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write golden files")

// today is the day on which tests lint.
var today = time.Date(2026, 4, 9, 15, 0, 0, 0, time.UTC)

// golden compares got with a file in testdata, or writes it with -update.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; got:\n%s\nwant:\n%s", path, got, want)
	}
}

// seal seals a policy made from the preset by edit.
func seal(t *testing.T, preset string, edit func(*Policy)) Policy {
	t.Helper()
	p := Base(preset)
	edit(&p)
	p, err := Seal(p)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// pr247 reads testdata/pr247.yaml: plain nested scalars, so the field table
// is parser enough and the package needs none of policy/file.
func pr247(t *testing.T) Policy {
	t.Helper()
	text, err := os.ReadFile("testdata/pr247.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return seal(t, "webhook", func(p *Policy) {
		var path []string
		for line := range strings.Lines(string(text)) {
			depth := (len(line) - len(strings.TrimLeft(line, " "))) / 2
			key, value, ok := strings.Cut(strings.TrimSpace(line), ":")
			if !ok || depth < 2 || strings.HasPrefix(line, "#") {
				continue
			}
			path = append(path[:depth-2], key)
			if value = strings.TrimSpace(value); value == "" {
				continue
			}
			f, ok := FieldAt(strings.Join(path, "."))
			if !ok {
				t.Fatalf("no field %v", path)
			}
			if err := f.Set(p, value); err != nil {
				t.Fatal(err)
			}
		}
	})
}
