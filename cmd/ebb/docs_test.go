package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/policy/file"
)

const (
	contractBegin = "<!-- contract:begin -->\n"
	contractEnd   = "<!-- contract:end -->"
)

// The contract table of the documents is what `ebb policy show` says.
// After a meant change: go test ./cmd/ebb -update.
func TestContractTableInDocs(t *testing.T) {
	want := contractTable(t)
	for _, name := range []string{"README.md", "docs/architecture.md", "docs/contract.md", "docs/reliability.md"} {
		path := filepath.Join("..", "..", name)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
			continue
		}
		before, rest, ok := strings.Cut(string(text), contractBegin)
		got, after, ok2 := strings.Cut(rest, contractEnd)
		if !ok || !ok2 {
			t.Errorf("%s: the markers of the contract table are missing", name)
			continue
		}
		if got == want {
			continue
		}
		if *update {
			if err := os.WriteFile(path, []byte(before+contractBegin+want+contractEnd+after), 0o600); err != nil {
				t.Error(err)
			}
			continue
		}
		t.Errorf("%s: the contract table differs from `ebb policy show`:\n%s\nwant:\n%s", name, got, want)
	}
}

func TestPolicyReferenceInDocs(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "policy-reference.md")
	want := "# Policy reference\n\nEvery field of a policy, generated from the one table that the parser, the canonical form and the JSON Schema read. The default is that of policies without a preset's name; `ebb policy show NAME` prints the value in force and where it came from.\n\n" + file.Reference()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("docs/policy-reference.md is not what the field table says (%v); run: go test ./cmd/ebb -update", err)
	}
}

// What the README shows of lint is what lint prints.
func TestLintOutputInReadme(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir("../../demo")
	var out, errs strings.Builder
	if code := run(t.Context(), []string{"policy", "lint", "pr-247.yaml"}, strings.NewReader(""), &out, &errs, noEnv); code != exitNo {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	want := "    $ ebb policy lint pr-247.yaml\n"
	for line := range strings.Lines(out.String()) {
		want += "    " + line
	}
	if !strings.Contains(string(readme), want) {
		t.Errorf("README.md does not show:\n%s", want)
	}
}

// contractTable prints the presets as the documents show them, from the JSON
// that users get.
func contractTable(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("| preset | promise | delays, with the ends of their jitter | one try | at once |\n|---|---|---|---|---|\n")
	for _, name := range policy.PresetNames() {
		var out, errs strings.Builder
		if code := run(t.Context(), []string{"policy", "show", name, "--json"}, strings.NewReader(""), &out, &errs, noEnv); code != 0 {
			t.Fatalf("policy show %s: exit %d: %s", name, code, errs.String())
		}
		var s shown
		if err := json.Unmarshal([]byte(out.String()), &s); err != nil {
			t.Fatal(err)
		}
		values := map[string]string{}
		for _, v := range s.Values {
			values[v.Path] = v.Value
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", name, s.Words, delayText(s.Delays), timeoutText(values["timeout"]), loadText(values))
	}
	return b.String()
}

func noEnv(string) (string, bool) { return "", false }

func delayText(delays []shownDelay) string {
	if n := len(delays); n > 6 {
		return fmt.Sprintf("%d × %s", n, secondsText(delays[0].Nominal))
	}
	var parts []string
	for _, d := range delays {
		parts = append(parts, fmt.Sprintf("%s (%s–%s)", secondsText(d.Nominal), secondsText(d.Min), secondsText(d.Max)))
	}
	return strings.Join(parts, ", ")
}

func secondsText(s float64) string { return span(time.Duration(s * float64(time.Second))) }

func timeoutText(timeout string) string {
	if timeout == "" {
		return "no limit"
	}
	return "at most " + timeout
}

func loadText(values map[string]string) string {
	text := values["concurrency"]
	if s := values["spacing"]; s != "" {
		text += ", " + s + " apart"
	}
	if c := values["waves.concurrency"]; c != "" {
		text += "; in waves " + c + ", " + values["waves.spacing"] + " apart"
	}
	if values["concurrency"] != "1" {
		text += "; batches of " + values["batch"]
	}
	return text
}
