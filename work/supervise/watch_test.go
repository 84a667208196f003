package supervise

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ebbhq/ebb/policy"
)

var t0 = time.Date(2026, 1, 19, 9, 0, 0, 0, time.UTC)

var fifty = policy.Thresholds{Timeout: 50, HTTP: 50}

func sealed(t testing.TB, s Spec) *Spec {
	t.Helper()
	if s.Name == "" {
		s.Name = "crawl"
	}
	s.Dir = "/srv/crawl"
	if s.Command == nil {
		s.Command = Words("crawl-it")
	}
	s, err := Seal(s)
	if err != nil {
		t.Fatal(err)
	}
	return &s
}

func TestThresholdsCountErrorsWithoutProgress(t *testing.T) {
	w := NewWatch(sealed(t, Spec{}), fifty, t0)
	for range 49 {
		w.Error("timeout")
		w.Error("http")
		w.Error("other")
	}
	if v := w.Verdict(t0); v != nil {
		t.Fatalf("after 49: %+v", v)
	}
	if w.Count(0, t0) || w.Errors.Timeout != 49 {
		t.Fatal("a counter that stands is no progress")
	}
	if !w.Count(1, t0) || w.Errors != (ErrorCounts{}) {
		t.Fatalf("progress left %+v", w.Errors)
	}
	if w.Count(1, t0) || w.Count(0, t0) || w.Units != 1 {
		t.Fatal("the same or less is no progress")
	}
	for range 50 {
		w.Error("http")
	}
	if v := w.Verdict(t0); v == nil || v.Reason != "error_threshold_http" || !v.Adapt || v.Class.String() != "server" {
		t.Fatalf("after 50: %+v", v)
	}
}

func TestThreeClocks(t *testing.T) {
	s := sealed(t, Spec{Progress: Progress{NoSignal: Duration(10 * time.Minute), NoProgress: Duration(time.Hour), Slow: Slow{Units: 10, Per: Duration(2 * time.Hour)}}})
	w := NewWatch(s, fifty, t0)
	at := func(d time.Duration) string {
		if v := w.Verdict(t0.Add(d)); v != nil {
			return v.Reason
		}
		return ""
	}
	if at(10*time.Minute-1) != "" || at(10*time.Minute) != "no_signal" {
		t.Error("no_signal")
	}
	for d := time.Duration(0); d < time.Hour; d += time.Minute {
		w.Signal(t0.Add(d))
	}
	if at(time.Hour-1) != "" || at(time.Hour) != "no_progress" {
		t.Error("no_progress", at(time.Hour-1), at(time.Hour))
	}
	// Nine units in two hours: every clock but the third is content.
	w = NewWatch(s, fifty, t0)
	for i := range 9 {
		w.Count(int64(i+1), t0.Add(time.Duration(i)*13*time.Minute))
		w.Signal(t0.Add(time.Duration(i) * 13 * time.Minute))
	}
	w.Signal(t0.Add(2 * time.Hour))
	if at(2*time.Hour-1) != "" || at(2*time.Hour) != "too_slow" {
		t.Error("too_slow", at(2*time.Hour-1), at(2*time.Hour))
	}
	w.Count(10, t0.Add(2*time.Hour))
	if at(2*time.Hour) != "" {
		t.Error("ten are enough", at(2*time.Hour))
	}
}

func TestRate(t *testing.T) {
	w := NewWatch(sealed(t, Spec{}), fifty, t0)
	for i := range 600 { // one a second, for ten minutes
		w.Count(int64(i+1), t0.Add(time.Duration(i+1)*time.Second))
	}
	if r := w.Rate(t0.Add(10 * time.Minute)); r < 0.98 || r > 1.02 {
		t.Errorf("rate %g", r)
	}
	if r := w.Rate(t0.Add(15 * time.Minute)); r > 0.02 {
		t.Errorf("five idle minutes later %g", r)
	}
}

// However errors and progress are mixed: a verdict comes exactly when the
// errors since the last rise reach a threshold.
func TestThresholdsProperty(t *testing.T) {
	s := sealed(t, Spec{})
	rapid.Check(t, func(t *rapid.T) {
		w := NewWatch(s, fifty, t0)
		timeouts, https, units := 0, 0, int64(0)
		for _, step := range rapid.SliceOfN(rapid.IntRange(0, 40), 0, 400).Draw(t, "steps") {
			switch {
			case step == 0:
				units++
				timeouts, https = 0, 0
				w.Count(units, t0)
			case step%2 == 0:
				timeouts++
				w.Error("timeout")
			default:
				https++
				w.Error("http")
			}
			if v := w.Verdict(t0); (v != nil) != (timeouts >= 50 || https >= 50) {
				t.Fatalf("%d timeouts, %d http: %+v", timeouts, https, v)
			}
		}
	})
}

const wgetLog = `--2026-01-19 09:00:00--  http://site/p0.html
HTTP request sent, awaiting response... 200 OK
2026-01-19 09:00:00 (1 MB/s) - 'site/p0.html' saved [10/10]

--2026-01-19 09:00:01--  http://site/p1.html
HTTP request sent, awaiting response... 503 Service Unavailable
2026-01-19 09:00:01 ERROR 503: Service Unavailable.

--2026-01-19 09:00:02--  http://site/p2.html
HTTP request sent, awaiting response... Read error (Connection timed out) in headers.
Retrying.

--2026-01-19 09:00:03--  (try: 2)  http://site/p2.html
HTTP request sent, awaiting response... 200 OK
2026-01-19 09:00:03 (1 MB/s) - 'site/p2.html' saved [12]

--2026-01-19 09:00:04--  http://site/gone.html
HTTP request sent, awaiting response... 404 Not Found
2026-01-19 09:00:04 ERROR 404: Not Found.
--2026-01-19 09:00:05--  http://other/
Connecting to other... failed: Connection refused.
`

func TestMeterReadsWgetPageByPage(t *testing.T) {
	m := NewMeter(sealed(t, Spec{Command: Words("wget", "http://site/p0.html")}))
	var kinds []string
	for line := range strings.Lines(wgetLog) {
		for _, mark := range m.Line("stderr", strings.TrimRight(line, "\n")) {
			kinds = append(kinds, mark.Count)
		}
	}
	if got := strings.Join(kinds, " "); got != "pages http timeout pages absent other" {
		t.Errorf("marks %s", got)
	}
	if got := strings.Join(m.Remaining(), " "); got != "http://other/ http://site/p1.html" {
		t.Errorf("remaining %s", got)
	}
	c := m.Counts()
	if m.Units() != 2 || c["open"] != 2 || c["open.http"] != 1 || c["open.timeout"] != 0 || c["absent"] != 1 {
		t.Errorf("counts %v", c)
	}
}

func TestMeterCounts(t *testing.T) {
	m := NewMeter(sealed(t, Spec{Progress: Progress{Counter: "crawled", Sources: []Source{
		{Kind: "json", From: "stdout", Field: "details.crawled", Count: "crawled"},
		{Kind: "lines", Pattern: `done (?P<n>\d+) of`, Count: "said"},
		{Kind: "lines", From: "stderr", Pattern: `^warn`, Count: "warnings"},
	}}}))
	for _, l := range [][2]string{
		{"stdout", `{"details": {"crawled": 5}}`},
		{"stdout", `{"details": {"crawled": 5}}`},
		{"stdout", `{"details": {"crawled": "x"}}`},
		{"stdout", `{"details": 7`},
		{"stderr", `{"details": {"crawled": 9}}`},
		{"stdout", "done 41 of 100"},
		{"stdout", "warn"},
		{"stderr", "warn"},
	} {
		m.Line(l[0], l[1])
	}
	if c := m.Counts(); m.Units() != 5 || c["said"] != 41 || c["warnings"] != 1 {
		t.Errorf("%v", c)
	}
}
