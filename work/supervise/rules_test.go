package supervise

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	rulesFile = "../../ops/prometheus/ebb-runs.rules.yml"
	rulesTest = "../../ops/prometheus/ebb-runs.rules.test.yml"
	manual    = "../../docs/supervise.md"
)

func TestAlertRules(t *testing.T) {
	for _, args := range [][]string{{"check", "rules", rulesFile}, {"test", "rules", rulesTest}} {
		if out, err := exec.CommandContext(t.Context(), "promtool", args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}

// Rules and manual name only metrics that are told, and the manual names all;
// every alert has a runbook and a test.
func TestAlertsAreDocumented(t *testing.T) {
	read := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	rules, tests, text := read(rulesFile), read(rulesTest), read(manual)
	var told []string
	for _, g := range gauges {
		told = append(told, g.name)
		if !strings.Contains(text, "`"+g.name+"`") {
			t.Errorf("the manual does not name %s", g.name)
		}
	}
	for _, name := range regexp.MustCompile(`\bebb_run_[a-z_]+`).FindAllString(rules+text, -1) {
		if !slices.Contains(told, name) {
			t.Errorf("%s is not told", name)
		}
	}
	for _, m := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(rules, -1) {
		if !strings.Contains(text, "### "+m[1]+"\n") || !strings.Contains(tests, m[1]) || !strings.Contains(rules, "docs/supervise.md#"+strings.ToLower(m[1])) {
			t.Errorf("%s has no runbook or no test", m[1])
		}
	}
}

// The file of the manual is one that can be read.
func TestFileOfTheManual(t *testing.T) {
	text, err := os.ReadFile(manual)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```yaml\n")
	src, _, _ := strings.Cut(rest, "```")
	s, err := Parse("crawl.yaml", []byte(src), "/etc")
	if err != nil {
		t.Fatal(err)
	}
	if s.Name != "hc" || s.Crawler != "wget@1" || len(s.Progress.Sources) != 5 || s.Ready.Disk[0].Again != 25e9 || s.Success.Against != "hc-2025" || s.MaxContainerRestarts != 20 {
		t.Errorf("%+v", s)
	}
}
