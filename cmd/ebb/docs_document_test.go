package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ebbhq/ebb/work/document"
)

// TestDocumentsManual: the files that docs/documents.md shows are read as they
// stand there: the pipeline, the settings, and the rule that parks.
func TestDocumentsManual(t *testing.T) {
	manual, err := os.ReadFile("../../docs/documents.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(manual), -1)
	if len(shown) != 3 {
		t.Fatalf("%d files, want 3", len(shown))
	}
	d := newDesk(t)
	d.file("invoice.schema.json", `{"type": "object"}`)
	in, err := document.ReadFile(d.file("shown.yaml", shown[0][1]))
	if err != nil || in.Model != "openai/gpt-4.1-mini" || in.Limits.MaxOutputTokens != 4096 {
		t.Errorf("pipeline: %+v, %v", in, err)
	}
	d.file("policies.yaml", shown[2][1])
	config := d.file("ebb.yaml", "db: sqlite:ebb.db\npolicies: policies.yaml\n"+shown[1][1])
	d.env["EBB_CONFIG"] = config
	d.ebb(exitDone, "policy", "lint", filepath.Join(d.dir, "policies.yaml"))
	a := &app{lookup: d.lookup}
	policies, err := a.knownPolicies()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range policies {
		names = append(names, policies[i].Name)
		if policies[i].Name == "processing.openai" && (policies[i].PerTarget.Concurrency != 32 || len(policies[i].Classes) != 3) {
			t.Errorf("%+v", policies[i])
		}
	}
	if !strings.Contains(strings.Join(names, " "), "processing.openai") {
		t.Error(names)
	}
}
