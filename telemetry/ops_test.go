package telemetry

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

const (
	rulesPath     = "../ops/prometheus/ebb.rules.yml"
	rulesTestPath = "../ops/prometheus/ebb.rules.test.yml"
	dashboardPath = "../ops/grafana/ebb.json"
	docsPath      = "../docs/monitoring.md"
)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// rules is the file of alert rules.
type rules struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Record, Alert, Expr string
			Labels, Annotations map[string]string
		}
	}
}

func readRules(t *testing.T) rules {
	t.Helper()
	var r rules
	if err := yaml.Unmarshal([]byte(read(t, rulesPath)), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// dashboard is what of Grafana's format is checked.
type dashboard struct {
	Title, UID    string
	SchemaVersion int
	Templating    struct {
		List []struct{ Name, Type, Definition string }
	}
	Panels []panel
}

type panel struct {
	ID                       int
	Type, Title, Description string
	Datasource               struct{ Type, UID string }
	GridPos                  struct{ X, Y, W, H int }
	Targets                  []struct{ Expr, RefID string }
	FieldConfig              *struct {
		Defaults struct{ Unit string }
	}
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	var d dashboard
	if err := json.Unmarshal([]byte(read(t, dashboardPath)), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestRules: promtool accepts the rules, their own tests pass, and every alert
// has a test in which it fires, words for people and a runbook.
func TestRules(t *testing.T) {
	promtool(t, "", "check", "rules", rulesPath)
	promtool(t, "", "test", "rules", rulesTestPath)
	docs := read(t, docsPath)
	var tested struct {
		Tests []struct {
			Alerts []struct {
				Alert string           `yaml:"alertname"`
				Fires []map[string]any `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, rulesTestPath)), &tested); err != nil {
		t.Fatal(err)
	}
	fires := make(map[string]bool)
	for _, c := range tested.Tests {
		for _, a := range c.Alerts {
			fires[a.Alert] = fires[a.Alert] || len(a.Fires) > 0
		}
	}
	alerts := 0
	for _, g := range readRules(t).Groups {
		for _, r := range g.Rules {
			if r.Alert == "" {
				continue
			}
			alerts++
			if !fires[r.Alert] {
				t.Errorf("%s: no test in which it fires", r.Alert)
			}
			if s := r.Labels["severity"]; s != "warn" && s != "page" {
				t.Errorf("%s: severity %q", r.Alert, s)
			}
			for _, a := range []string{"summary", "description"} {
				if r.Annotations[a] == "" {
					t.Errorf("%s: no %s", r.Alert, a)
				}
			}
			page, anchor, _ := strings.Cut(r.Annotations["runbook_url"], "#")
			if page != "docs/monitoring.md" || !slices.Contains(anchors(docs), anchor) {
				t.Errorf("%s: the runbook %q is not there", r.Alert, r.Annotations["runbook_url"])
			}
		}
	}
	if alerts < 10 {
		t.Errorf("read only %d alerts", alerts)
	}
}

// anchors are the headings of a page as links name them.
func anchors(page string) []string {
	var list []string
	drop := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for line := range strings.Lines(page) {
		if text := strings.TrimLeft(line, "#"); text != line {
			text = drop.ReplaceAllString(strings.ToLower(strings.TrimSpace(text)), "")
			list = append(list, strings.ReplaceAll(text, " ", "-"))
		}
	}
	return list
}

var metricName = regexp.MustCompile(`\bebb[_:][a-z0-9_:]+\b`)

// exposed returns the names of all metrics: those that have a TYPE, those that
// histograms make of theirs, and what the rules record.
func exposed(t *testing.T) map[string]bool {
	t.Helper()
	names := make(map[string]bool)
	for line := range strings.Lines(exposition(t, goldenTelemetry(t))) {
		fields := strings.Fields(line)
		if fields[0] != "#" || fields[1] != "TYPE" {
			continue
		}
		names[fields[2]] = true
		if fields[3] == "histogram" {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				names[fields[2]+suffix] = true
			}
		}
	}
	for _, g := range readRules(t).Groups {
		for _, r := range g.Rules {
			if r.Record != "" {
				names[r.Record] = true
			}
		}
	}
	return names
}

// TestNamesExist: rules and dashboard speak of metrics that there are.
func TestNamesExist(t *testing.T) {
	names := exposed(t)
	check := func(where, expr string) {
		for _, name := range metricName.FindAllString(expr, -1) {
			if !names[name] {
				t.Errorf("%s: there is no metric %s", where, name)
			}
		}
	}
	for _, g := range readRules(t).Groups {
		for _, r := range g.Rules {
			check(r.Alert+r.Record, r.Expr)
		}
	}
	d := readDashboard(t)
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			check(p.Title, target.Expr)
		}
	}
	for _, v := range d.Templating.List {
		check("variable "+v.Name, v.Definition)
	}
	if metricName.FindString("ebb_nothing_total") == "" || names["ebb_nothing_total"] {
		t.Error("the check cannot find what is missing")
	}
}

// TestDashboard: what Grafana needs is there, panels do not overlap, and every
// one says what it shows.
func TestDashboard(t *testing.T) {
	d := readDashboard(t)
	if d.Title == "" || d.UID == "" || d.SchemaVersion < 30 || len(d.Panels) < 20 {
		t.Fatalf("%q, uid %q, schema %d, %d panels", d.Title, d.UID, d.SchemaVersion, len(d.Panels))
	}
	var variables []string
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name)
	}
	used := regexp.MustCompile(`\$\{?([a-zA-Z_]+)`)
	ids, taken := make(map[int]bool), make(map[[2]int]string)
	for _, p := range d.Panels {
		if ids[p.ID] || p.ID == 0 {
			t.Errorf("%s: id %d is not its own", p.Title, p.ID)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("%s lies on %q or outside", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Title == "" || p.Description == "" || p.Datasource.UID != "${datasource}" || len(p.Targets) == 0 || p.FieldConfig == nil {
			t.Errorf("panel %d (%s) is not whole", p.ID, p.Title)
		}
		if p.Type == "timeseries" && p.FieldConfig.Defaults.Unit == "" {
			t.Errorf("%s has no unit", p.Title)
		}
		refs := make(map[string]bool)
		for _, target := range p.Targets {
			if target.Expr == "" || refs[target.RefID] || target.RefID == "" {
				t.Errorf("%s: query %q is empty or not alone", p.Title, target.RefID)
			}
			refs[target.RefID] = true
			for _, m := range used.FindAllStringSubmatch(target.Expr, -1) {
				if m[1] != "__rate_interval" && !slices.Contains(variables, m[1]) {
					t.Errorf("%s: there is no variable %s", p.Title, m[1])
				}
			}
		}
	}
}

// TestDocumented: the manual has every metric and no other.
func TestDocumented(t *testing.T) {
	docs := read(t, docsPath)
	names := exposed(t)
	for name := range names {
		if base := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, ""); base != name && names[base] {
			continue
		}
		if !strings.Contains(docs, "`"+name+"`") {
			t.Errorf("docs/monitoring.md does not tell of %s", name)
		}
	}
	for _, name := range metricName.FindAllString(docs, -1) {
		if !names[name] && !strings.HasSuffix(name, "_") {
			t.Errorf("docs/monitoring.md tells of %s, which there is not", name)
		}
	}
}
