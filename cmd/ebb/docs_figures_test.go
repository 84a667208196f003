package main

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// measures of docs/scaling.md and where docs/benchmarks.md records them: the
// first group of each expression, for SQLite and for PostgreSQL.
var measures = []struct{ what, sqlite, postgres string }{
	{"jobs taken in by the library, batches of 5,000", `(?s)SQLite, sync.*?\n\| Ebb +\| +([\d,]+)`, `\| Ebb +\| +([\d,]+) \| +[\d,]+ \| +[\d,]+ \| +\d+ \|`},
	{"jobs that do nothing, drained by one worker", `(?s)SQLite, sync.*?\n\| Ebb +\| +[\d,]+ \| +([\d,]+)`, `\| Ebb +\| +[\d,]+ \| +([\d,]+) \| +[\d,]+ \| +\d+ \|`},
	{"jobs that fail once, then succeed", `(?s)SQLite, sync.*?\n\| Ebb +\| +[\d,]+ \| +[\d,]+ \| +([\d,]+)`, `\| Ebb +\| +[\d,]+ \| +[\d,]+ \| +([\d,]+) \| +\d+ \|`},
	{"jobs taken in over HTTP, one a request", `on sqlite takes in ([\d,]+) jobs/s, 1 a request`, `on postgres takes in ([\d,]+) jobs/s, 1 a request`},
	{"jobs taken in over HTTP, a hundred a request", `on sqlite takes in ([\d,]+) jobs/s, 100 a request`, `on postgres takes in ([\d,]+) jobs/s, 100 a request`},
	{"webhooks delivered, endpoints that answer at once", `Ebb on SQLite +\| +([\d,]+)`, `Ebb on PostgreSQL +\| +([\d,]+)`},
	{"webhooks delivered, endpoints that answer after 10 ms", `Ebb on SQLite +\| +[\d,]+ \| +[\d,]+ \| +[\d.]+ \| +([\d,]+)`, `Ebb on PostgreSQL +\| +[\d,]+ \| +[\d,]+ \| +[\d.]+ \| +([\d,]+)`},
	{"documents, 32 at once, a model that answers in 100 ms", `\n\| SQLite +\| +([\d,]+)`, `\n\| PostgreSQL +\| +([\d,]+) `},
	{"jobs that do nothing with a target out of 100, of the rate without", `flow.limits_over_100_targets.sqlite measured ([\d.]+)x`, `flow.limits_over_100_targets.postgresql measured ([\d.]+)x`},
	{"jobs that do nothing with a target out of 1,000, of the rate without", `limits over 1,000 targets, SQLite: ([\d.]+)x`, `limits over 1,000 targets, PostgreSQL: ([\d.]+)x`},
	{"jobs without a target beside work that has one, of the rate alone", `flow.plain_beside_flow.sqlite measured ([\d.]+)x`, `flow.plain_beside_flow.postgresql measured ([\d.]+)x`},
	{"slowest page of the console or the API beside a million jobs, 95 of 100", `pages.slowest.sqlite measured ([\d.]+) ms`, `pages.slowest.postgres measured ([\d.]+) ms`},
}

// Figures on other pages are those of the last recorded benchmarks, rounded to
// two digits, shares to a hundredth. A new recording may be up to twice or half
// of what a page says: machines and their load differ by more. To take it over,
// or after a larger change: go test ./cmd/ebb -run Figures -update.
func TestFiguresInDocs(t *testing.T) {
	const begin, end = "<!-- figures:begin -->\n", "<!-- figures:end -->"
	recorded, err := os.ReadFile(filepath.Join(root, "docs", "benchmarks.md"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, "docs", "scaling.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(page), begin)
	shown, after, ok := strings.Cut(rest, end)
	if !ok {
		t.Fatal("docs/scaling.md: the markers of the figures are missing")
	}
	table := "| what | SQLite | PostgreSQL |\n|---|---|---|\n"
	for _, f := range measures {
		unit, written := " a second", twoDigits
		switch {
		case strings.HasPrefix(f.what, "slowest"):
			unit = " ms"
		case strings.Contains(f.what, ", of the rate"):
			unit, written = " %", func(n float64) string { return strconv.Itoa(int(math.Round(100 * n))) }
		}
		table += "| " + f.what
		for _, expression := range []string{f.sqlite, f.postgres} {
			m := regexp.MustCompile(expression).FindSubmatch(recorded)
			if m == nil {
				t.Fatalf("docs/benchmarks.md: %s is not recorded where %s looks", f.what, expression)
			}
			table += " | " + written(number(t, string(m[1]))) + unit
		}
		table += " |\n"
	}
	if *update {
		if err := os.WriteFile(path, []byte(before+begin+table+end+after), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	digits := regexp.MustCompile(`\| ([\d,]+) `)
	want, got := digits.FindAllStringSubmatch(table, -1), digits.FindAllStringSubmatch(shown, -1)
	if len(want) != 2*len(measures) || len(got) != len(want) {
		t.Fatalf("docs/scaling.md has %d figures, want %d; run: go test ./cmd/ebb -run Figures -update", len(got), len(want))
	}
	for i := range want {
		if w, g := number(t, want[i][1]), number(t, got[i][1]); g > 2*w || g < w/2 {
			t.Errorf("docs/scaling.md: %s: it says %s, recorded is %s; run: go test ./cmd/ebb -run Figures -update", measures[i/2].what, got[i][1], want[i][1])
		}
	}
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// twoDigits rounds a figure and writes it as the pages do.
func twoDigits(n float64) string {
	unit := math.Pow(10, math.Floor(math.Log10(n))-1)
	text := strconv.FormatFloat(math.Round(n/unit)*unit, 'f', -1, 64)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func TestTwoDigits(t *testing.T) {
	for n, want := range map[float64]string{260879: "260,000", 1822.6: "1,800", 74.7: "75", 158: "160", 99.6: "100", 1767: "1,800"} {
		if got := twoDigits(n); got != want {
			t.Errorf("%v is %s, want %s", n, got, want)
		}
	}
}

// What the README says of the simulated outage is what the simulator prints,
// which TestOutputsInSimulateGuide holds on its page.
func TestSimulatedFiguresInReadme(t *testing.T) {
	guide, err := os.ReadFile(filepath.Join(root, "docs", "simulate.md"))
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	verdict := regexp.MustCompile(`old is safer than new: 0 % dead letters instead of ([\d.]+ %)`).FindSubmatch(guide)
	if verdict == nil {
		t.Fatal("docs/simulate.md has no verdict on pr-247")
	}
	said := regexp.MustCompile(`(?:dead-letters|the new one) ([\d.]+ %)`).FindAllSubmatch(readme, -1)
	if len(said) < 2 {
		t.Errorf("README.md tells %d times what pr-247 loses, want 2", len(said))
	}
	for _, s := range said {
		if string(s[1]) != string(verdict[1]) {
			t.Errorf("README.md says %s of pr-247, the simulator %s", s[1], verdict[1])
		}
	}
}
