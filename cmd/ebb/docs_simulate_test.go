package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ebbhq/ebb/simulate/file"
)

const scenarioReference = "# Scenario reference\n\nEvery key of a scenario file, generated from the one table that the parser, the canonical print and the JSON Schema (`ebb simulate schema`) read. [simulate.md](simulate.md) is the guide.\n\nDurations have a unit: `90s`, `1.5ms`, `1h30m`, `2d`. Rates are numbers a second or `200/s`, `12/m`, `5/h`. Shares are `0.05` or `5%`. Where a list is expected one element may stand alone.\n\n"

func TestScenarioReferenceInDocs(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "scenario-reference.md")
	want := scenarioReference + file.Reference()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("docs/scenario-reference.md is not what the table says (%v); run: go test ./cmd/ebb -update", err)
	}
}

// What the guide shows is what ebb prints: a yaml block whose first line is
// "# NAME.yaml" is that file, a console block is a command and its output.
// After a meant change: go test ./cmd/ebb -update.
func TestOutputsInSimulateGuide(t *testing.T) {
	path, err := filepath.Abs("../../docs/simulate.md")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	var out strings.Builder
	commands := 0
	for i, part := range strings.Split(string(text), "```") {
		if i%2 == 0 {
			out.WriteString(part)
			continue
		}
		kind, body, _ := strings.Cut(part, "\n")
		switch kind {
		case "yaml":
			writeNamed(t, body)
		case "console":
			commands++
			command, shown, _ := strings.Cut(body, "\n")
			got := guideCommand(t, command)
			if got != shown {
				if !*update {
					t.Errorf("%s prints\n%s\nthe guide shows\n%s", command, got, shown)
				}
				body = command + "\n" + got
			}
		}
		out.WriteString("```" + kind + "\n" + body + "```")
	}
	if commands < 5 {
		t.Errorf("%d commands in the guide", commands)
	}
	if *update {
		if err := os.WriteFile(path, []byte(out.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func writeNamed(t *testing.T, body string) {
	t.Helper()
	first, _, _ := strings.Cut(body, "\n")
	name, ok := strings.CutPrefix(first, "# ")
	if !ok || !strings.HasSuffix(name, ".yaml") {
		return
	}
	if err := os.WriteFile(name, []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
}

// guideCommand runs a line of the guide and returns what it prints.
func guideCommand(t *testing.T, line string) string {
	t.Helper()
	args, ok := strings.CutPrefix(line, "$ ebb ")
	if !ok {
		t.Fatalf("not a command of the guide: %s", line)
	}
	var stdout, stderr strings.Builder
	if code := run(t.Context(), strings.Fields(args), strings.NewReader(""), &stdout, &stderr, noEnv); code != exitDone && code != exitNo {
		t.Fatalf("%s: exit %d: %s", line, code, stderr.String())
	}
	return stdout.String()
}
