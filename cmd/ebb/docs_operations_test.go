package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// What the operator's page quotes is said somewhere in the code.
func TestTroubleshootingQuotesTheCode(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(page), "## Troubleshooting by message")
	if !ok {
		t.Fatal("docs/operations.md has no part on messages")
	}
	var code strings.Builder
	for name, text := range sources(t, ".go") {
		if !strings.HasSuffix(name, "_test.go") {
			code.WriteString(text)
		}
	}
	rows := regexp.MustCompile("(?m)^\\| `([^`]+)`").FindAllStringSubmatch(table, -1)
	if len(rows) < 15 {
		t.Fatalf("%d messages: the search is broken", len(rows))
	}
	for _, m := range rows {
		if !strings.Contains(code.String(), m[1]) {
			t.Errorf("nothing says %q", m[1])
		}
	}
}

// Every alert of the rules has a row on the operator's page, and none that is
// gone is left there.
func TestAlertsInDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "## Alerts")
	table, _, ok := strings.Cut(table, "\n## ")
	if !ok {
		t.Fatal("docs/operations.md has no part on alerts")
	}
	alerts := map[string]bool{}
	for name, text := range sources(t, ".rules.yml") {
		for _, m := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(text, -1) {
			alerts[m[1]] = true
			if !regexp.MustCompile(`\b` + m[1] + `\b`).MatchString(table) {
				t.Errorf("docs/operations.md: no row for %s of %s", m[1], name)
			}
		}
	}
	for _, name := range regexp.MustCompile(`\bEbb[A-Z]\w+`).FindAllString(table, -1) {
		if !alerts[name] {
			t.Errorf("docs/operations.md: no rule has the alert %s", name)
		}
	}
	if len(alerts) < 20 {
		t.Errorf("%d alerts: the search is broken", len(alerts))
	}
}
