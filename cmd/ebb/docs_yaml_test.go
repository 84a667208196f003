package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	simulation "github.com/ebbhq/ebb/simulate/file"
	"github.com/ebbhq/ebb/work/document"
	"github.com/ebbhq/ebb/work/supervise"
	"github.com/ebbhq/ebb/work/supervise/campaign"
)

// refused are files that a page shows because lint refuses them.
var refused = []string{
	"README.md pr-247.yaml",
	"docs/getting-started.md policies.yaml",
	"docs/incidents.md pr-247.yaml",
	"docs/simulate.md hasty.yaml",
	"docs/simulate.md policies.yaml",
	"docs/operations.md fixed.yaml",
	"docs/operations.md tries.yaml",
}

var (
	topKey   = regexp.MustCompile(`(?m)^([a-z_]+):`)
	ownName  = regexp.MustCompile(`^# ([a-zA-Z0-9./-]+\.yaml)`)
	nameOver = regexp.MustCompile("`([a-zA-Z0-9./-]+\\.yaml)`:\n$")
)

// TestFilesInDocs: every file that a page shows is read by the program that
// reads such files: policies, scenarios, settings, pipelines, runs, campaigns.
func TestFilesInDocs(t *testing.T) {
	seen := 0
	for page, text := range sources(t, ".md") {
		if strings.Contains(page, "testdata") {
			continue
		}
		found, _ := blocks(page, text)
		lines := strings.Split(text, "\n")
		earlier := ""
		for i := range found {
			b := &found[i]
			switch b.lang {
			case "json":
				seen++
				if !json.Valid([]byte(b.text())) {
					t.Errorf("%s:%d: not JSON", page, b.from+1)
				}
			case "yaml", "yml":
				seen++
				name := fileName(b, lines)
				if err := readable(t, page, name, b.text(), earlier); err != nil {
					t.Errorf("%s:%d: %s: %v", page, b.from+1, name, err)
				}
				if strings.Contains(b.text(), "callers:") && !strings.Contains(b.text(), "variants:") {
					earlier = b.text()
				}
			}
		}
	}
	if seen < 25 {
		t.Errorf("%d files: the search is broken", seen)
	}
}

// fileName is what the page calls the file: in its first line, or above it.
func fileName(b *block, lines []string) string {
	if m := ownName.FindStringSubmatch(b.lines[0]); m != nil {
		return m[1]
	}
	if m := nameOver.FindStringSubmatch(strings.Join(lines[:b.from-2], "\n") + "\n"); b.from > 2 && m != nil {
		return m[1]
	}
	return "shown.yaml"
}

// readable reads a file by what it has: the keys at its top tell whose it is.
// Of a part of a file it makes a whole one; earlier is the page's last
// scenario.
func readable(t *testing.T, page, name, text, earlier string) error {
	t.Helper()
	var keys []string
	for _, m := range topKey.FindAllStringSubmatch(text, -1) {
		keys = append(keys, m[1])
	}
	has := func(key string) bool { return slices.Contains(keys, key) }
	dir := t.TempDir()
	path := filepath.Join(dir, filepath.Base(name))
	write := func(text string) error { return os.WriteFile(path, []byte(text), 0o600) }
	var err error
	switch {
	case has("callers"):
		_, err = simulation.Parse(name, []byte(text), nil)
	case has("variants"):
		_, err = simulation.Parse(name, []byte(earlier+text), nil)
	case has("sources"):
		_, err = campaign.Parse(name, []byte(text), dir)
	case has("model"):
		err = errors.Join(write(text), os.WriteFile(filepath.Join(dir, "invoice.schema.json"), []byte(`{"type": "object"}`), 0o600),
			os.WriteFile(filepath.Join(dir, "prompt.md"), []byte("What is the total?"), 0o600))
		if err == nil {
			_, err = document.ReadFile(path)
		}
	case has("command") && has("version"):
		_, err = supervise.Parse(name, []byte(text), dir)
	case has("command"):
		_, err = supervise.Parse(name, []byte("version: 1\n"+text), dir)
	case has("classes"):
		err = errors.Join(write("version: 1\npolicies:\n  shown:\n    "+strings.ReplaceAll(text, "\n", "\n    ")), linted(t, path, false))
	case has("policies") && has("version"):
		err = errors.Join(write(text), linted(t, path, slices.Contains(refused, page+" "+name)))
	case has("webhook"), has("document"), has("supervise"), has("fetch"), has("db"):
		err = write(text)
		if out, code := quietly(t, "config", "check", "--offline", "--config", path, "--db", "sqlite:"+filepath.Join(dir, "ebb.db")); code != exitDone {
			err = errors.New(out)
		}
	default:
		err = errors.New("nothing here knows such a file: teach cmd/ebb/docs_yaml_test.go to read it, or call the block text")
	}
	return err
}

// linted runs lint over a file; no: it is shown because it does not pass.
func linted(t *testing.T, path string, no bool) error {
	t.Helper()
	want := exitDone
	if no {
		want = exitNo
	}
	if out, code := quietly(t, "policy", "lint", path); code != want {
		return errors.New(out)
	}
	return nil
}

// quietly runs a command and returns all that it said.
func quietly(t *testing.T, args ...string) (said string, code int) {
	t.Helper()
	var out strings.Builder
	code = run(t.Context(), args, strings.NewReader(""), &out, &out, noEnv)
	return out.String(), code
}
