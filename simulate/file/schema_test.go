package file_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	yaml "github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/ebbhq/ebb/simulate/file"
)

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(file.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("scenario.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("scenario.json")
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

// The schema and the parser refuse the same single faults.
func TestSchemaAndParserRefuse(t *testing.T) {
	schema := compileSchema(t)
	const good = "version: 1\nlength: 1m\ncallers: [{name: a, arrivals: poisson 1/s, policy: none, targets: x}]\ndownstreams: [{name: x}]\n"
	if err := validate(schema, good); err != nil {
		t.Fatal(err)
	}
	for _, change := range []struct{ old, new string }{
		{"version: 1", "version: 2"},
		{"version: 1\n", ""},
		{"length: 1m", "length: 60"},
		{"length: 1m", "length: {tmie: 1m}"},
		{"length: 1m", "length: {time: 1m, end: dry}"},
		{"length: 1m", "length: 1m\nseeds: 0"},
		{"length: 1m", "length: 1m\nmore: 1"},
		{"length: 1m", "length: 1m\nwarm_up: soon"},
		{"length: 1m", "length: 1m\npolicies: {Bad: {}}"},
		{"length: 1m", "length: 1m\npolicies: {bad: {attemts: 1}}"},
		{"length: 1m", "length: 1m\nvariants: [{policy: none}]"},
		{"length: 1m", "length: 1m\nvariants: [{name: v, polcy: none}]"},
		{"length: 1m", "length: 1m\nvariants: [{name: v, callers: [{policy: none}]}]"},
		{"name: a, ", ""},
		{"name: a", "name: a, mode: lasting"},
		{"name: a", "name: a, clients: 1.5"},
		{"name: a", "name: a, clients: -1"},
		{"policy: none, ", ""},
		{"poisson 1/s", "{rate: 1/s}"},
		{"poisson 1/s", "{kind: poisson, rate: 1/y}"},
		{"poisson 1/s", "{kind: poisson, rate: {steps: {now: 1/s}}}"},
		{"poisson 1/s", "{kind: poisson, rate: {base: 1/s, spikes: [{from: 1s}]}}"},
		{"{name: x}", "{name: x, service: {knd: exponential}}"},
		{"{name: x}", "{name: x, service: {kind: expo}}"},
		{"{name: x}", "{name: x, full: 200}"},
		{"{name: x}", "{name: x, full: nothing}"},
		{"{name: x}", "{name: x, faults: [{from: 1m}]}"},
		{"{name: x}", "{name: x, limit: {rate: 1/s}}"},
		{"{name: x}", "{name: x, per_job: maybe}"},
		{"{name: x}", "{name: x, load: [{in_service: 1}]}"},
		{"{name: x}", "{name: x, calls: [{policy: none}]}"},
	} {
		text := strings.Replace(good, change.old, change.new, 1)
		if _, err := file.Parse("bad.yaml", []byte(text), nil); err == nil {
			t.Errorf("the parser accepts:\n%s", text)
		}
		if err := validate(schema, text); err == nil {
			t.Errorf("the schema accepts:\n%s", text)
		}
	}
}

func TestReferenceHasTypesAndForms(t *testing.T) {
	text := file.Reference()
	for _, row := range []string{
		"| `service` | distribution | no | how long a server is busy with one request; default no time |",
		"| `rate` | rate | no | tokens a second |",
		"| `capacity` | function of time | no | multiplies servers over time; default 1 |",
		"| `arrivals` | list of arrivals | yes | streams of jobs, which add up |",
		"In one line: `503`: an HTTP status; `timeout`, `reset`, …: a class of failure.",
	} {
		if !strings.Contains(text, row+"\n") {
			t.Errorf("no row %s in:\n%s", row, text)
		}
	}
}
