package report_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ebbhq/ebb/work/fetch/input"
	"github.com/ebbhq/ebb/work/fetch/report"
)

var update = flag.Bool("update", false, "write the golden files anew")

var start = time.Date(2026, 2, 21, 10, 0, 0, 0, time.UTC)

// votes is the incident of seed 000 with every outcome in it.
func votes() *report.Report {
	failures := []report.Failure{
		{URL: "http://www.kslegislature.gov/vote/17", Outcome: report.Exhausted, Class: "server", Reason: "503 Service Unavailable", Status: 503, Starts: 12, Wave: 3, At: start.Add(time.Hour), Context: []report.Column{{Name: "bill", Value: "HB 2017"}, {Name: "reason", Value: "final action, \"yea\""}}},
		{URL: "http://www.kslegislature.gov/vote/18", Outcome: report.Permanent, Class: "client", Reason: "404 Not Found", Status: 404, Starts: 1, At: start, Context: []report.Column{{Name: "bill", Value: "<script>alert(1)</script>"}}},
		{URL: "http://www.kslegislature.gov/vote/19", Outcome: report.Soft, Class: "soft_error", Reason: "soft error by rule title:Error: the title is \"Error | *sorry*\"", Status: 200, Starts: 3},
		{URL: "http://www.kslegislature.gov/vote/20", Outcome: report.Permanent, Class: "client", Reason: "404 Not Found", Status: 404, Starts: 1, At: start},
		{URL: "http://www.kslegislature.gov/private", Outcome: report.Robots, Class: "policy_denied", Reason: "forbidden by line 3 of robots.txt: disallow: /private"},
		{URL: "http://www.kslegislature.gov/private/2", Outcome: report.Robots, Class: "policy_denied", Reason: "forbidden by line 3 of robots.txt: disallow: /private"},
	}
	return &report.Report{
		Name: "kslegislature.gov votes 2025_26", ID: "votes.000002", Policy: "polite", Version: "0123456789abcdef", StartedAt: start, EndedAt: start.Add(72*time.Minute + 5*time.Second),
		Input: 882, Repeated: 3,
		Counts: map[report.Outcome]int64{report.OK: 800, report.Unchanged: 76, report.Exhausted: 1, report.Permanent: 2, report.Soft: 1, report.Robots: 2},
		Bytes:  123_456_789, Requests: 1034,
		Reasons: []report.Reason{
			{Outcome: report.Exhausted, Class: "server", Reason: "503 Service Unavailable", Count: 1, Example: "http://www.kslegislature.gov/vote/17"},
			{Outcome: report.Permanent, Class: "client", Reason: "404 Not Found", Count: 2, Example: "http://www.kslegislature.gov/vote/18"},
			{Outcome: report.Soft, Class: "soft_error", Reason: "soft error by rule title:Error", Count: 1, Example: "http://www.kslegislature.gov/vote/19"},
			{Outcome: report.Robots, Reason: "forbidden by line 3 of robots.txt: disallow: /private", Count: 2, Example: "http://www.kslegislature.gov/private"},
		},
		Waves: []report.Wave{
			{Number: 0, Planned: 882, Tried: 880, Recovered: 823, Concurrency: 5, Spacing: 150 * time.Millisecond, StartedAt: start, EndedAt: start.Add(3 * time.Minute)},
			{Number: 1, Planned: 55, Tried: 55, Recovered: 50, Cooldown: 90 * time.Second, Concurrency: 2, Spacing: 500 * time.Millisecond, StartedAt: start.Add(5 * time.Minute), EndedAt: start.Add(6 * time.Minute)},
			{Number: 2, Planned: 5, Tried: 5, Recovered: 4, Cooldown: 90 * time.Second, Concurrency: 2, Spacing: 500 * time.Millisecond, StartedAt: start.Add(8 * time.Minute), EndedAt: start.Add(9 * time.Minute)},
		},
		Stopped: "all 3 waves are used", Comparison: report.Compare("votes.000001", 1200, 876), Waivers: []string{"spacing 10ms under the floor of 100ms: a mirror of our own"},
		Columns: []string{"bill", "reason"}, Manifest: "failures.csv",
		Failures: func(do func(report.Failure) error) error {
			for _, f := range failures {
				if err := do(f); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// small is a fetch that went well.
func small() *report.Report {
	return &report.Report{Name: "one page", ID: "x.000001", Policy: "scrape", StartedAt: start, EndedAt: start.Add(1500 * time.Millisecond), Input: 1, Counts: map[report.Outcome]int64{report.OK: 1}}
}

// What users see, as files. go test -update writes them.
func TestForms(t *testing.T) {
	for name, r := range map[string]*report.Report{"votes": votes(), "small": small()} {
		for ending, form := range map[string]func(io.Writer) error{".txt": r.Text, ".md": r.Markdown, ".json": r.JSON, ".csv": r.CSV, ".jsonl": r.JSONL, ".html": r.HTML} {
			var got bytes.Buffer
			if err := form(&got); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", name+ending)
			if *update {
				if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("%s: %s", path, diff)
			}
		}
	}
}

func TestPageIsSafe(t *testing.T) {
	r := votes()
	r.Name = `</title><script>x</script>`
	r.Reasons[0].Example = "javascript:alert(1)"
	var b bytes.Buffer
	if err := r.HTML(&b); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, bad := range []string{"<script", `href="javascript`, "src=", "url(", "@import", "ZgotmplZ"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page holds %q", bad)
		}
	}
	var text bytes.Buffer
	r.Notes = []string{"a \x1b[31mred\x1b[0m\nnote"}
	if err := r.Text(&text); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text.String(), "\x1b") || !strings.Contains(text.String(), "a [31mred[0m note") {
		t.Errorf("control characters reach the terminal: %q", text.String())
	}
}

func TestAccount(t *testing.T) {
	r := votes()
	if err := r.Check(); err != nil {
		t.Error(err)
	}
	r.Input++
	if err := r.Check(); err == nil || err.Error() != "report: the account does not add up: 883 URLs, but outcomes of 882" {
		t.Error(err)
	}
	for _, counts := range []map[report.Outcome]int64{{"other": 1}, {report.OK: 2, report.Soft: -1}} {
		if err := (&report.Report{Input: 1, Counts: counts}).Check(); err == nil {
			t.Errorf("%v was taken", counts)
		}
	}
}

func TestStates(t *testing.T) {
	n := func(pairs ...any) map[report.Outcome]int64 {
		m := make(map[report.Outcome]int64)
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i].(report.Outcome)] = int64(pairs[i+1].(int))
		}
		return m
	}
	for _, c := range []struct {
		name     string
		counts   map[report.Outcome]int64
		followed bool
		running  bool
		want     string
	}{
		{"all", n(report.OK, 3, report.Unchanged, 1), false, false, "complete: 4 of 4 pages are here (100 %)"},
		{"none", n(), false, false, "complete: 0 of 0 pages are here (100 %)"},
		{"one missing of many", n(report.OK, 99_999, report.Exhausted, 1), false, false, "incomplete: 99,999 of 100,000 pages are here (99.9 %)"},
		{"one here of many", n(report.OK, 1, report.Exhausted, 99_999), false, false, "incomplete: 1 of 100,000 pages are here (0.1 %)"},
		{"gone", n(report.OK, 3, report.Permanent, 1), false, false, "incomplete: 3 of 4 pages are here (75 %)"},
		{"gone, but found by links", n(report.OK, 3, report.Permanent, 1, report.Robots, 1), true, false, "complete: 3 of 5 pages are here (60 %)"},
		{"nothing found by links", n(report.Permanent, 1), true, false, "incomplete: 0 of 1 page is here (0 %)"},
		{"parked", n(report.OK, 3, report.Parked, 1), false, false, "parked: 3 of 4 pages are here (75 %)"},
		{"soft", n(report.OK, 3, report.Soft, 1), true, false, "incomplete: 3 of 4 pages are here (75 %)"},
		{"running", n(report.OK, 3, report.Pending, 1), false, true, "running: 3 of 4 pages are here (75 %)"},
		{"stopped", n(report.OK, 3, report.Pending, 1), false, false, "incomplete: 3 of 4 pages are here (75 %)"},
	} {
		r := &report.Report{Counts: c.counts, Followed: c.followed}
		if !c.running {
			r.EndedAt = start
		}
		for _, v := range c.counts {
			r.Input += v
		}
		if got := r.Headline(); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestCompare(t *testing.T) {
	for _, c := range []struct {
		before, now int64
		want        report.Level
		text        string
	}{
		{1000, 1000, report.Fine, "1,000 pages are here, 100 % of the 1,000 that x had"},
		{1000, 800, report.Fine, "800 pages are here, 80 % of the 1,000 that x had"},
		{1000, 799, report.Warn, "warning (under 80 %): 799 pages are here, 79.9 % of the 1,000 that x had"},
		{1000, 700, report.Warn, "warning (under 80 %): 700 pages are here, 70 % of the 1,000 that x had"},
		{1000, 699, report.Critical, "critical (under 70 %): 699 pages are here, 69.9 % of the 1,000 that x had"},
		{0, 0, report.Fine, "0 pages are here, 100 % of the 0 that x had"},
		{10, 20, report.Fine, "20 pages are here, 200 % of the 10 that x had"},
	} {
		got := report.Compare("x", c.before, c.now)
		if got.Level != c.want || got.String() != c.text {
			t.Errorf("%d then %d: %s %q, want %s %q", c.before, c.now, got.Level, got, c.want, c.text)
		}
	}
	c := report.Compare("x", 10, 10)
	c.Lost, c.Gained = 2, 2
	if got := c.String(); !strings.HasSuffix(got, "; 2 that it had are gone, 2 are new") {
		t.Error(got)
	}
}

// The manifest is itself an input: what failed can be fetched again, with its
// context.
func TestManifestIsInput(t *testing.T) {
	var b bytes.Buffer
	if err := votes().CSV(&b); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(bytes.NewReader(b.Bytes())).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"url", "outcome", "class", "reason", "status", "starts", "wave", "at", "bill", "input reason"}, rows[0]); diff != "" {
		t.Error(diff)
	}
	var urls []string
	for item, err := range input.Read([]input.Source{{Name: "failures.csv"}}, input.Options{Open: func(string) (io.ReadCloser, error) { return io.NopCloser(&b), nil }}).All() {
		if err != nil {
			t.Fatal(err)
		}
		urls = append(urls, item.URL+" "+item.Context[7].Value)
	}
	urls = urls[:3]
	want := []string{"http://www.kslegislature.gov/vote/17 HB 2017", "http://www.kslegislature.gov/vote/18 <script>alert(1)</script>", "http://www.kslegislature.gov/vote/19 "}
	if diff := cmp.Diff(want, urls); diff != "" {
		t.Error(diff)
	}
}

// Of a million failures a page shows the first and counts the rest.
func TestManyFailures(t *testing.T) {
	r := votes()
	r.Failures = func(do func(report.Failure) error) error {
		for range 5000 {
			if err := do(report.Failure{URL: "http://a/", Outcome: report.Exhausted}); err != nil {
				return err
			}
		}
		return nil
	}
	var text, object bytes.Buffer
	if err := errors.Join(r.Text(&text), r.JSON(&object)); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(text.String(), "http://a/"); got != 20 || !strings.Contains(text.String(), "And 4,980 more: all of them are in failures.csv.") {
		t.Errorf("%d failures in\n%s", got, text.String())
	}
	var parsed struct {
		Failures []any `json:"failures"`
		Total    int   `json:"failures_total"`
	}
	if err := json.Unmarshal(object.Bytes(), &parsed); err != nil || len(parsed.Failures) != 500 || parsed.Total != 5000 {
		t.Errorf("%d of %d failures, %v", len(parsed.Failures), parsed.Total, err)
	}
}

func TestBrokenLedger(t *testing.T) {
	broken := errors.New("ledger gone")
	r := votes()
	r.Failures = func(func(report.Failure) error) error { return broken }
	for name, form := range map[string]func(io.Writer) error{"text": r.Text, "markdown": r.Markdown, "json": r.JSON, "csv": r.CSV, "jsonl": r.JSONL, "html": r.HTML} {
		if err := form(io.Discard); !errors.Is(err, broken) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
