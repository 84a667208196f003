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
