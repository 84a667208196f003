package file_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/policy/file"
)

func mustParse(t testing.TB, src string) *file.File {
	t.Helper()
	f, err := file.Parse("policies.yaml", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// one returns the only policy of a file with this body.
func one(t testing.TB, name, body string) file.Entry {
	t.Helper()
	f := mustParse(t, "version: 1\npolicies:\n  "+name+":\n    "+strings.ReplaceAll(body, "\n", "\n    ")+"\n")
	if len(f.Entries) != 1 {
		t.Fatalf("%d policies, want 1", len(f.Entries))
	}
	return f.Entries[0]
}

func TestPresetNameStartsFromThePreset(t *testing.T) {
	for _, name := range policy.PresetNames() {
		got := one(t, name, "{}").Policy
		if diff := cmp.Diff(policy.MustPreset(name), got); diff != "" {
			t.Errorf("%s: {} is not the preset:\n%s", name, diff)
		}
	}
}

func TestOtherNamesStartFromDefault(t *testing.T) {
	got := one(t, "order-sync", "timeout: 5s").Policy
	want := policy.Base("order-sync")
	want.Timeout = 5e9
	want, err := policy.Seal(want)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestInheritance(t *testing.T) {
	tests := []struct {
		name, policy, body string
		want               map[string]string
	}{
		{"steps replace the schedule", "webhook", "backoff: {steps: [30s, 2m]}", map[string]string{
			"backoff.base": "0s", "backoff.factor": "0", "backoff.steps": "[30s, 2m]", "backoff.jitter.kind": "proportional", "backoff.jitter.ratio": "0.2",
		}},
		{"one field keeps the others", "webhook", "backoff: {base: 45s}", map[string]string{"backoff.base": "45s", "backoff.factor": "2"}},
		{"jitter by word drops the ratio", "webhook", "backoff: {jitter: full}", map[string]string{"backoff.jitter.kind": "full", "backoff.jitter.ratio": "0"}},
		{"jitter kinds with a ratio share it", "webhook", "backoff: {jitter: additive}", map[string]string{"backoff.jitter.kind": "additive", "backoff.jitter.ratio": "0.2"}},
		{"same budget kind keeps its fields", "webhook", "budget: {kind: window, floor: 5}", map[string]string{"budget.ratio": "0.2", "budget.floor": "5", "budget.ttl": "10s"}},
		{"another budget kind inherits nothing", "webhook", "budget: {kind: share, ratio: 0.1}", map[string]string{"budget.ratio": "0.1", "budget.floor": "0", "budget.ttl": "0s"}},
		{"budget none", "webhook", "budget: none", map[string]string{"budget.kind": "none", "budget.ratio": "0", "budget.floor": "0", "budget.ttl": "0s"}},
		{"breaker off", "webhook", "breaker: off", map[string]string{"breaker.consecutive": "0", "breaker.ratio": "0", "breaker.open": "0s", "breaker.cap": "0s"}},
		{"breaker false", "webhook", "breaker: false", map[string]string{"breaker.consecutive": "0", "breaker.open": "0s"}},
		{"waves off", "scrape", "waves: off", map[string]string{"waves.count": "0", "waves.cooldown": "0s", "waves.classes": "[]"}},
		{"restarts give attempts", "annual-crawl", "restarts: {max: 30}", map[string]string{"restarts.max": "30", "attempts": "31"}},
		{"low restarts are raised", "annual-crawl", "max_container_restarts: 5", map[string]string{"restarts.max": "20", "attempts": "21"}},
		{"low restarts and matching attempts are raised", "annual-crawl", "restarts: {max: 5}\nattempts: 6", map[string]string{"restarts.max": "20", "attempts": "21"}},
		{"minutes", "annual-crawl", "backoff_delay_minutes: 2.5", map[string]string{"backoff.base": "2m30s"}},
		{"thresholds", "annual-crawl", "error_threshold_timeout: 60\nerror_threshold_http: 70", map[string]string{"thresholds.timeout": "60", "thresholds.http": "70"}},
		{"a scalar is a list of one", "scrape", "waves: {classes: server}\nbackoff: {steps: 10s}", map[string]string{"waves.classes": "[server]", "backoff.steps": "[10s]"}},
		{"hold follows the attempts", "webhook", "attempts: 3", map[string]string{"max_hold": "3m"}},
		{"hold as written", "webhook", "attempts: 3\nmax_hold: 5m", map[string]string{"max_hold": "5m"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := one(t, tt.policy, tt.body)
			for path, want := range tt.want {
				f, ok := policy.FieldAt(path)
				if !ok {
					t.Fatalf("no field %s", path)
				}
				if got := f.Text(&e.Policy); got != want {
					t.Errorf("%s = %s, want %s", path, got, want)
				}
			}
		})
	}
}

func TestClassesReplaceThePresets(t *testing.T) {
	e := one(t, "webhook", "classes:\n  - {match: {status: 404}, action: fail}")
	want := []policy.Rule{{
		Match:  policy.Match{Status: []int{404}},
		Action: policy.Fail, Counts: policy.CountsAttempt, Label: "classes[0]",
	}}
	if diff := cmp.Diff(want, e.Policy.Classes); diff != "" {
		t.Error(diff)
	}
	if got := one(t, "webhook", "classes: []").Policy.Classes; len(got) != 0 {
		t.Errorf("classes: [] left %v", got)
	}
	if got := len(one(t, "webhook", "timeout: 20s").Policy.Classes); got != 2 {
		t.Errorf("%d rules inherited, want 2", got)
	}
}

func TestFilesKeepTheirOrder(t *testing.T) {
	f := mustParse(t, "version: 1\npolicies: {zeta: {}, webhook: {}, alpha: {}}")
	var names []string
	for _, p := range f.Policies() {
		names = append(names, p.Name)
	}
	if diff := cmp.Diff([]string{"zeta", "webhook", "alpha"}, names); diff != "" {
		t.Error(diff)
	}
	if _, ok := f.Entry("alpha"); !ok {
		t.Error("alpha is not found")
	}
	if _, ok := f.Entry("beta"); ok {
		t.Error("beta is found")
	}
}

// A file of garbage once filled the screen, a line of error for each of its own.
func TestErrorsPrintTheFirstTwenty(t *testing.T) {
	_, err := file.Parse("noise.yaml", bytes.Repeat([]byte("\xff\n"), 1000))
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 21 || lines[20] != "… and 980 more" {
		t.Errorf("%d lines, the last %q", len(lines), lines[len(lines)-1])
	}
}

func TestErrorsUnwrap(t *testing.T) {
	_, err := file.Parse("p.yaml", []byte("version: 1\npolicies:\n  webhook:\n    backoff: {base: 60}\n"))
	var single file.Error
	if !errors.As(err, &single) {
		t.Fatalf("%T holds no file.Error", err)
	}
	want := file.Error{
		File: "p.yaml", Line: 4, Column: 21,
		Path: "policies.webhook.backoff.base", Msg: `"60" has no unit; write 60s, 60m or 60h`,
	}
	if diff := cmp.Diff(want, single); diff != "" {
		t.Error(diff)
	}
}

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policies.yaml")
	if _, err := file.Load(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file gives %v", err)
	}
	if err := os.WriteFile(path, []byte("\xef\xbb\xbfversion: 1\r\npolicies: {webhook: {}}\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := file.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if f.Name != path || len(f.Entries) != 1 {
		t.Errorf("read %q with %d policies", f.Name, len(f.Entries))
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("#", file.MaxSize+1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := file.Load(path); err == nil || !strings.Contains(err.Error(), "larger than 1 MiB") {
		t.Errorf("a file over the limit gives %v", err)
	}
}

// TestHugeInput must end, and without a fatal stack overflow.
func TestHugeInput(t *testing.T) {
	fill := func(unit string) string { return strings.Repeat(unit, (file.MaxSize-64)/len(unit)) }
	inputs := map[string]string{
		"dashes": fill("- "), "brackets": fill("["), "braces": fill("{a: "), "keys in a line": fill("a: "),
		"same key": fill("a: b\n"), "keys without value": fill("a:\n"), "list of keys": fill("- a:\n"), "empty items": fill("-\n"),
		"long word": "version: " + fill("x"), "quotes": fill("\""), "open quote": "a: '" + fill("x\n"),
		"anchors": fill("&a "), "tags": fill("!a "), "questions": fill("? "), "documents": fill("---\n"),
		"colons": fill(": "), "escapes": "a: \"" + fill("\\"), "closing": fill("]"), "flow keys": "{" + fill("x, "), "comments": fill("#\n"),
		"flow pairs": "version: 1\npolicies: {" + fill("x: y, ") + "}", "staircase": staircase(1400), "unknown keys": "version: 1\npolicies:\n  a:\n" + fill("    abcdefg: 1\n"),
		"spread mappings": "a:\n" + fill("- a:\n  b:\n  c:\n"), "block text": "a: |\n" + fill("  x\n"), "folded": "a: x\n" + fill("  x\n"),
		"policies": "version: 1\npolicies:\n" + manyPolicies(1999, "  p%: {backoff: {bse: 1}}\n") + "  q: 1\n",
	}
	for name, input := range inputs {
		t.Run(name, func(t *testing.T) {
			if _, err := file.Parse("huge.yaml", []byte(input)); err == nil {
				t.Error("parsed without an error")
			}
		})
	}
}

func staircase(depth int) string {
	var b strings.Builder
	for i := range depth {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

func manyPolicies(n int, line string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.ReplaceAll(line, "%", strings.Repeat("x", i%40)+string(rune('a'+i/40%26))+string(rune('a'+i/1040))))
	}
	return b.String()
}

func TestThousandPolicies(t *testing.T) {
	src := "version: 1\npolicies:\n" + manyPolicies(1000, "  p%: {timeout: 5s}\n")
	if got := len(mustParse(t, src).Entries); got != 1000 {
		t.Errorf("%d policies, want 1000", got)
	}
}
