package document_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

const rules = "../../ops/prometheus/ebb-document.rules.yml"

// TestRules: promtool accepts the rules and their tests pass; every metric in
// them is one that a server tells, and every alert has its runbook.
func TestRules(t *testing.T) {
	for _, args := range [][]string{{"check", "rules", rules}, {"test", "rules", strings.TrimSuffix(rules, ".yml") + ".test.yml"}} {
		if out, err := exec.CommandContext(t.Context(), "promtool", args...).CombinedOutput(); err != nil {
			t.Fatalf("promtool %s: %v (scripts/need prometheus installs it)\n%s", strings.Join(args, " "), err, out)
		}
	}
	text, err := os.ReadFile(rules)
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]bool{}
	for _, c := range newRig(t, setup{workers: -1}).service.Collectors() {
		described := make(chan *prometheus.Desc, 8)
		c.Describe(described)
		close(described)
		for d := range described {
			told[regexp.MustCompile(`fqName: "([^"]+)"`).FindStringSubmatch(d.String())[1]] = true
		}
	}
	used := regexp.MustCompile(`\bebb_document_\w+`).FindAllString(string(text), -1)
	for _, name := range used {
		base := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
		if !told[name] && !told[base] {
			t.Errorf("no server tells %s", name)
		}
	}
	manual, err := os.ReadFile("../../docs/documents.md")
	if err != nil {
		t.Fatal(err)
	}
	alerts := regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(string(text), -1)
	for _, a := range alerts {
		if !strings.Contains(string(manual), "### "+a[1]+"\n") || !strings.Contains(string(text), "documents.md#"+strings.ToLower(a[1])) {
			t.Errorf("%s has no runbook", a[1])
		}
	}
	for name := range told {
		if !strings.Contains(string(manual), name) {
			t.Errorf("documents.md does not tell of %s", name)
		}
	}
	if len(used) < 5 || len(alerts) < 4 || len(told) < 10 {
		t.Errorf("%d metrics used, %d alerts, %d metrics told", len(used), len(alerts), len(told))
	}
}
