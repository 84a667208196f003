package file_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	yaml "github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/policy/file"
)

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(file.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("policies.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("policies.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// validate reads YAML as an editor would and checks it against the schema.
func validate(schema *jsonschema.Schema, text string) error {
	var value any
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		return err
	}
	plain, err := json.Marshal(value)
	if err != nil {
		return err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(plain))
	if err != nil {
		return err
	}
	return schema.Validate(doc)
}

func TestSchemaAcceptsPresets(t *testing.T) {
	schema := compileSchema(t)
	for _, name := range policy.PresetNames() {
		if err := validate(schema, file.Print(policy.MustPreset(name))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSchemaAcceptsGoodFiles(t *testing.T) {
	schema := compileSchema(t)
	for _, path := range goldens(t, "testdata/good/*.yaml") {
		input, print := golden(t, path)
		for _, text := range []string{input, print} {
			if err := validate(schema, text); err != nil {
				t.Errorf("%s: %v", filepath.Base(path), err)
			}
		}
	}
}

// TestSchemaAndParserRefuse gives both the same single faults.
func TestSchemaAndParserRefuse(t *testing.T) {
	schema := compileSchema(t)
	bodies := []string{
		"attempts: five", "attempts: [5]", `attempts: "5"`, "attempts: 1.5", "atempts: 5", "timeout: 30", "timeout: 30sec", "timeout: -5s", "timeout: {s: 30}",
		"target: server", "gate: maybe", `gate: "true"`, "first_share: much", "backoff: 60s", "backoff: {bse: 60s}",
		"backoff: {base: 60}", "backoff: {steps: []}", "backoff: {steps: [30]}", "backoff: {steps: [30s], base: 10s}", "backoff: {jitter: gauss}", "backoff: {jitter: {kind: gauss}}",
		"budget: tokens", "budget: {kind: bucket}", "breaker: on", "breaker: {size: 1}", "waves: {classes: [crsh]}", "waves: 3",
		"classes: {}", "classes: [crash]", "classes: [{action: retry}]", "classes: [{match: {}}]", "classes: [{match: {}, action: again}]",
		"classes: [{match: {class: crsh}, action: retry}]", "classes: [{match: {status: [99]}, action: retry}]", "classes: [{match: {class: []}, action: retry}]",
		"classes: [{match: {code: 1}, action: retry}]", "classes: [{match: {}, action: retry, max: 251, counts: free}]", "classes: [{match: {}, action: retry, window: 5}]",
		"classes: [{match: {}, action: retry, backoff: {base: 5}}]",
		"waivers: [{rule: jitter, reason: x}]", "waivers: [{rule: jiter, reason: x, expires: 2027-01-31}]", "waivers: [{rule: jitter, reason: x, expires: 2027-02-30}]",
		"max_container_restarts: many", "backoff_delay_minutes: 2m", "error_threshold_http: 5.5",
	}
	files := []string{
		"version: 1", "policies: {webhook: {}}", "version: 2\npolicies: {webhook: {}}", "version: 1\npolicies: {}", "version: 1\npolicies: []", "- 1",
		"version: 1\npolicies: {webhook: {}}\nmore: 1", "version: 1\npolicies: {Webhook: {}}", "version: 1\npolicies: {webhook: 1}",
		"version: 1\npolicies: {" + strings.Repeat("a", 65) + ": {}}",
	}
	for _, body := range bodies {
		files = append(files, "version: 1\npolicies:\n  webhook: {"+body+"}\n")
	}
	for _, text := range files {
		if _, err := file.Parse("bad.yaml", []byte(text)); err == nil {
			t.Errorf("the parser accepts:\n%s", text)
		}
		if err := validate(schema, text); err == nil {
			t.Errorf("the schema accepts:\n%s", text)
		}
	}
}

func TestSchemaDescribesEveryField(t *testing.T) {
	text := string(file.Schema())
	for _, f := range policy.Fields() {
		doc, err := json.Marshal(f.Doc)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(text, string(doc)) {
			t.Errorf("%s is not described", f.Path)
		}
	}
}

func TestReferenceListsEveryField(t *testing.T) {
	text := file.Reference()
	for _, f := range policy.Fields() {
		if !strings.Contains(text, "| `"+f.Path+"` |") {
			t.Errorf("%s is missing", f.Path)
		}
	}
	for _, row := range []string{
		"| `backoff.base` | duration | `30s` | delay before the first retry |",
		"| `backoff_delay_minutes` | `backoff.base` | seed 003's name of backoff.base, a plain number of minutes |",
		"| `breaker` | `off` | `breaker.consecutive: 0`, `breaker.ratio: 0` |",
		"| `match.status` | list | no | HTTP status codes, 100 to 599 |",
		"| `MAX_RETRY_ATTEMPTS` | `attempts` | retries after the first send; attempts is this plus 1 |",
	} {
		if !strings.Contains(text, row+"\n") {
			t.Errorf("no row %s in:\n%s", row, text)
		}
	}
}
