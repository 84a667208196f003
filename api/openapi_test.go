package api_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ebbhq/ebb/access"
)

// described is one operation of /openapi.json under /v1.
type described struct {
	method, path, scope string
}

var parameter = regexp.MustCompile(`\{[a-z]+\}`)

// sample is the path with names in it.
func (d described) sample() string { return parameter.ReplaceAllString(d.path, "x") }

type document struct {
	OpenAPI string
	Paths   map[string]map[string]struct {
		OperationID string
		Description string
		Responses   map[string]any
	}
	Components struct{ Schemas map[string]any }
}

func read(b *bench) (d document) {
	b.Helper()
	if err := json.Unmarshal(b.do("", "GET", "/openapi.json", "").body, &d); err != nil {
		b.Fatal(err)
	}
	return d
}

func routesOf(b *bench) (list []described) {
	b.Helper()
	for path, operations := range read(b).Paths {
		for method, o := range operations {
			if strings.HasPrefix(path, "/v1/") {
				scope := strings.TrimSuffix(strings.TrimPrefix(o.Description, "Needs the scope "), ".")
				list = append(list, described{strings.ToUpper(method), path, scope})
			}
		}
	}
	slices.SortFunc(list, func(x, y described) int { return strings.Compare(x.path+x.method, y.path+y.method) })
	return list
}

// TestDocumentIsServed: every path of the document is served, with the scope
// that it names, and refers only to what it has.
func TestDocumentIsServed(t *testing.T) {
	b := newBench(t)
	admin := b.token("root", access.Admin)
	d := read(b)
	if d.OpenAPI != "3.1.0" || len(d.Paths) < 25 {
		t.Fatalf("got version %q and %d paths", d.OpenAPI, len(d.Paths))
	}
	ids := map[string]bool{}
	for path, operations := range d.Paths {
		for method, o := range operations {
			if ids[o.OperationID] || o.OperationID == "" {
				t.Errorf("%s %s: operation id %q is not its own", method, path, o.OperationID)
			}
			ids[o.OperationID] = true
			at := described{strings.ToUpper(method), path, ""}
			g := b.do(admin, at.method, at.sample(), "")
			if code := g.problem().Code; code == "method" || g.status == 404 && strings.Contains(string(g.body), "no such path") {
				t.Errorf("%s %s is in the document but not served: %s", method, path, g.body)
			}
		}
	}
	for _, ref := range regexp.MustCompile(`#/components/schemas/([A-Za-z]+)`).FindAllStringSubmatch(string(b.do("", "GET", "/openapi.json", "").body), -1) {
		if d.Components.Schemas[ref[1]] == nil {
			t.Errorf("schema %s is referred to and missing", ref[1])
		}
	}
}
