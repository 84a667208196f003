package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/simulate"
)

// outage is a scenario with a disturbance, small enough for many runs.
func outage(t *testing.T, attempts int) simulate.Scenario {
	t.Helper()
	p := policy.Base("tries")
	p.Attempts, p.Timeout = attempts, time.Second
	p.Backoff = policy.Backoff{Base: 5 * time.Second, Factor: 2, Jitter: policy.Jitter{Kind: policy.JitterFull}}
	p, err := policy.Seal(p)
	if err != nil {
		t.Fatal(err)
	}
	return simulate.Scenario{
		Name: "outage", Length: simulate.Length{Time: 5 * time.Minute, End: simulate.Drain},
		Callers: []simulate.Caller{{
			Name: "app", Arrivals: []simulate.Arrivals{{Kind: simulate.Poisson, Rate: simulate.Constant(10)}},
			Client: simulate.Client{Policy: p, Targets: []simulate.Target{{Downstream: "api"}}},
		}},
		Downstreams: []simulate.Downstream{{
			Name: "api", Servers: 5, Service: simulate.Exp(50 * time.Millisecond),
			Faults: []simulate.Fault{{Kind: simulate.FaultError, From: time.Minute, Until: 2 * time.Minute}},
		}},
	}
}

func reportOf(t *testing.T, seeds int, attempts ...int) *Report {
	t.Helper()
	r := &Report{Name: "outage", About: "<an outage> & more", To: len(attempts) - 1}
	for _, n := range attempts {
		c, err := Play(t.Context(), strings.Repeat("i", n), "tries & tries", outage(t, n), Options{Options: simulate.Options{Seeds: seeds, Parallel: 2}})
		if err != nil {
			t.Fatal(err)
		}
		r.Cases = append(r.Cases, c)
	}
	return r
}

func TestWatchFollowsVirtualTime(t *testing.T) {
	var last time.Duration
	steps := 0
	_, err := Play(t.Context(), "x", "", outage(t, 2), Options{Watch: func(at time.Duration) {
		if at < last {
			t.Fatalf("%s after %s", at, last)
		}
		last, steps = at, steps+1
	}})
	if err != nil || steps < 1000 || last < 5*time.Minute-time.Second {
		t.Errorf("%d steps up to %s: %v", steps, last, err)
	}
}

func TestSameSeedSameBytes(t *testing.T) {
	var texts [2][]byte
	for i := range texts {
		var err error
		if texts[i], err = json.Marshal(reportOf(t, 3, 1, 4).Told()); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(texts[0], texts[1]) {
		t.Error("two runs of the same seeds differ in JSON")
	}
	if a, b := reportOf(t, 1, 1, 4).HTML(), reportOf(t, 1, 1, 4).HTML(); a != b {
		t.Error("two runs of the same seeds differ in HTML")
	}
}

// The page is well-formed, loads nothing, and runs nothing.
func TestPageIsSelfContained(t *testing.T) {
	for _, attempts := range [][]int{{1}, {1, 4}, {1, 2, 3, 4}} {
		page := reportOf(t, 1, attempts...).HTML()
		for _, bad := range []string{"<script", "http://", "https://", "url(", "@import", "<link", "<img", "NaN", "Inf", "%!"} {
			if strings.Contains(page, bad) {
				t.Errorf("%v: %q in the page", attempts, bad)
			}
		}
		for _, want := range []string{"prefers-color-scheme: dark", "max-width: 560px", "&lt;an outage&gt; &amp; more", "outage</text>", "Retry intervals", "Time to success", "<caption>"} {
			if want == "Retry intervals" && len(attempts) == 1 {
				continue // one try has none
			}
			if !strings.Contains(page, want) {
				t.Errorf("%v: no %q in the page", attempts, want)
			}
		}
		body := page[strings.Index(page, "<main>"):strings.Index(page, "</body>")]
		wellFormed(t, body)
		if wide, narrow := strings.Count(body, `class="wide"`), strings.Count(body, `class="narrow"`); wide != narrow || wide < 6 {
			t.Errorf("%v: %d drawings for wide screens, %d for narrow ones", attempts, wide, narrow)
		}
	}
}

func wellFormed(t *testing.T, body string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(strings.ReplaceAll(body, "<br>", "<br/>")))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("not well-formed: %v", err)
		}
	}
}

// All drawings stay inside their frame.
func TestDrawingsStayInside(t *testing.T) {
	page := reportOf(t, 1, 1, 4).HTML()
	points := regexp.MustCompile(`[ML](-?[0-9.]+) (-?[0-9.]+)`)
	for _, svg := range regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(page, -1) {
		var width, height float64
		if _, err := sscan(svg, `viewBox="0 0 ([0-9.]+) ([0-9.]+)"`, &width, &height); err != nil {
			t.Fatal(err)
		}
		for _, m := range points.FindAllString(svg, -1) {
			var x, y float64
			if _, err := sscan(m, `(-?[0-9.]+) (-?[0-9.]+)`, &x, &y); err != nil {
				t.Fatal(err)
			}
			if x < 0 || x > width || y < 0 || y > height {
				t.Fatalf("the point %g %g is outside of %g × %g", x, y, width, height)
			}
		}
	}
}

func sscan(text, pattern string, into ...*float64) (int, error) {
	m := regexp.MustCompile(pattern).FindStringSubmatch(text)
	for i, p := range into {
		if i+1 >= len(m) {
			return i, errors.New("no match of " + pattern)
		}
		if err := json.Unmarshal([]byte(m[i+1]), p); err != nil {
			return i, err
		}
	}
	return len(into), nil
}

func TestTextFitsItsWidth(t *testing.T) {
	r := reportOf(t, 3, 1, 2, 3, 4)
	for _, width := range []int{80, 100, 160} {
		text, _, _ := strings.Cut(r.Text(width), "\ni: ") // sentences are wrapped by the terminal
		for line := range strings.Lines(text) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("%d columns: a line of %d: %s", width, n, line)
			}
		}
	}
}

func TestSentences(t *testing.T) {
	r := reportOf(t, 1, 1, 6)
	once, tries := r.Cases[0].Sentence(), r.Cases[1].Sentence()
	if !strings.Contains(once, "% dead-lettered; recovered with the outage's end") {
		t.Errorf("one try: %s", once)
	}
	if !strings.HasPrefix(tries, "no dead letter; recovered") && !strings.Contains(tries, "dead-lettered; recovered") {
		t.Errorf("six tries: %s", tries)
	}
	verdict := r.Verdict()
	if !strings.HasPrefix(verdict, "iiiiii is safer than i: ") || !strings.Contains(verdict, " dead letters instead of ") || !strings.Contains(verdict, "calls for each job instead of 1.00") {
		t.Errorf("verdict: %s", verdict)
	}
	r.From, r.To = r.To, r.From
	if r.Verdict() != verdict {
		t.Errorf("the other way round: %s", r.Verdict())
	}
	r.From = r.To
	if v := r.Verdict(); v != "" {
		t.Errorf("nothing is compared, but: %s", v)
	}
	same := reportOf(t, 1, 2, 2)
	if v := same.Verdict(); !strings.HasPrefix(v, "neither is safer") {
		t.Errorf("alike: %s", v)
	}
}

func TestNeverRecovered(t *testing.T) {
	s := outage(t, 4)
	s.Length.End, s.Recovery = simulate.Cut, simulate.Recovery{BeganAt: 10 * time.Second, EndedAt: 20 * time.Second}
	s.Downstreams[0].Faults[0] = simulate.Fault{Kind: simulate.FaultError, From: 10 * time.Second}
	c, err := Play(t.Context(), "x", "", s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Sentence(); !strings.Contains(got, "dead-lettered; never recovered from the outage; the queue never drained") {
		t.Error(got)
	}
}

func TestShares(t *testing.T) {
	r := reportOf(t, 1, 1, 2, 3)
	r.From, r.To = 0, 2
	shares := r.shares()
	if shares[0] != 0 || shares[2] != 1 || shares[1] <= 0 || shares[1] >= 1 {
		t.Errorf("shares %v, want 0, something between, 1", shares)
	}
	if told := r.Told(); !slices.Equal(told.Compared, []string{"i", "iii"}) || *told.Cases[1].Share != shares[1] {
		t.Errorf("told: %v, %v", told.Compared, told.Cases[1].Share)
	}
	if !strings.Contains(r.Text(100), "share of the step") {
		t.Error("the text has no shares")
	}
}

// With several callers each has a column, and drawings say whose they are.
func TestSeveralCallers(t *testing.T) {
	s := outage(t, 3)
	second := s.Callers[0]
	second.Name = "other"
	s.Callers = append(s.Callers, second)
	c, err := Play(t.Context(), "x", "", s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := &Report{Name: "two", Cases: []Case{c}}
	if got := r.totals().heads; !slices.Equal(got, []string{"app", "other"}) {
		t.Errorf("columns %v", got)
	}
	sum := c.series()
	if got, want := sum.offered[10]*sum.width, float64(c.callers()[0].Series.Arrived[10]+c.callers()[1].Series.Arrived[10]); got != want {
		t.Errorf("%g jobs offered in a bucket, %g by the callers", got, want)
	}
	if !strings.Contains(r.HTML(), "<b>Time to success: app</b>") {
		t.Error("the drawing does not say whose it is")
	}
}

func TestConfidence(t *testing.T) {
	text := reportOf(t, 5, 1).Text(100)
	if !strings.Contains(text, "5 seeds from 0, means with 95 % confidence") || !strings.Contains(text, " ± ") {
		t.Errorf("no confidence in:\n%s", text)
	}
}

// The dead letters by cause add up to the totals, however long the run.
func TestTally(t *testing.T) {
	r := reportOf(t, 1, 1)
	var sum int64
	for _, row := range r.Cases[0].dead.counts {
		for _, n := range row {
			sum += n
		}
	}
	if want := r.Cases[0].callers()[0].Totals.Dead; sum != want || sum == 0 {
		t.Errorf("%d dead letters by cause, %d in the totals", sum, want)
	}
	var long tally
	for i := range 10_000 {
		long.note(simulate.Event{Kind: simulate.Finish, At: time.Duration(i) * time.Minute, Cause: "exhausted"})
	}
	if len(long.counts[0]) > simulate.MaxBuckets || long.width != 1024 {
		t.Errorf("%d buckets of %g s", len(long.counts[0]), long.width)
	}
	if long.counts[0][0] != 18 { // minutes 0 to 17 lie in 1024 s
		t.Errorf("the first bucket has %d", long.counts[0][0])
	}
}

func TestBands(t *testing.T) {
	s := outage(t, 1)
	s.Downstreams[0].Faults = append(s.Downstreams[0].Faults, simulate.Fault{Kind: simulate.FaultHang, From: 90 * time.Second, Until: 150 * time.Second, Probability: simulate.Constant(0.1)})
	s.Downstreams[0].Capacity = simulate.Steps(1, simulate.Point{At: 200 * time.Second, Value: 0.2}, simulate.Point{At: 210 * time.Second, Value: 1})
	s.Callers[0].Arrivals[0].Rate = simulate.Steps(1, simulate.Point{At: 250 * time.Second, Value: 9})
	s.Callers[0].Arrivals = append(s.Callers[0].Arrivals, simulate.Arrivals{Rate: simulate.Curve{Points: []simulate.Point{{Value: 1}, {At: time.Hour, Value: 2}}}})
	s.Downstreams[0].Speed = simulate.Steps(1, simulate.Point{At: 100 * time.Second, Value: 0.2}, simulate.Point{At: 110 * time.Second, Value: 1})
	c := Case{Scenario: s}
	want := []band{{"outage", 60, 150}, {"less capacity", 200, 210}, {"load", 250, math.Inf(1)}}
	if got := c.bands(); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestWords(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{percent(0), "0 %"},
		{percent(1), "100 %"},
		{percent(0.12345), "12.3 %"},
		{percent(0.0123), "1.23 %"},
		{percent(0.00012), "0.012 %"},
		{percent(0.99999), "99.999 %"},
		{whole(1234567), "1,234,567"},
		{whole(-1234), "-1,234"},
		{whole(999.6), "1,000"},
		{short(0.01234), "0.012"},
		{short(12.34), "12.3"},
		{short(4), "4"},
		{rate(12), "12/s"},
		{rate(0.5), "30/min"},
		{rate(0.001), "3.6/h"},
		{rate(0.0001), "8.64/d"},
		{rate(0), "0/s"},
		{seconds(0), "0s"},
		{seconds(0.0123456), "12.35ms"},
		{seconds(75.4), "1m15s"},
		{seconds(4000), "1h7m"},
		{seconds(math.Inf(1)), "∞"},
		{count(2.5), "2.5"},
		{count(250.5), "251"},
		{step(0.713), "71 %"},
		{step(-0.001), "0 %"},
		{step(-0.2), "-20 %"},
		{axis(12000), "12k"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

func TestTicks(t *testing.T) {
	if got := niceTicks(97.6, 4); !slices.Equal(got, []float64{0, 25, 50, 75, 100}) {
		t.Error(got)
	}
	if got := timeTicks(5500, 8); !slices.Equal(got, []float64{0, 900, 1800, 2700, 3600, 4500, 5400}) {
		t.Error(got)
	}
	if got := logTicks(0.25, 950); !slices.Equal(got, []float64{0.1, 1, 10, 60, 600, 3600}) {
		t.Error(got)
	}
	for _, top := range []float64{0, 1e-9, 0.3, 7, 1e12} {
		if ticks := niceTicks(top, 4); ticks[len(ticks)-1] < top*0.9999 || len(ticks) > 7 {
			t.Errorf("top %g: %v", top, ticks)
		}
	}
}
