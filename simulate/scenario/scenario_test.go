package scenario_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/simulate"
	"github.com/ebbhq/ebb/simulate/file"
	"github.com/ebbhq/ebb/simulate/scenario"
)

// play runs one variant of a built-in and returns its only caller.
func play(t *testing.T, name, variant string) (*simulate.CallerOutcome, *simulate.Outcome) {
	t.Helper()
	f, err := scenario.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	v, ok := f.Variant(variant)
	if !ok {
		t.Fatalf("%s has no variant %q", name, variant)
	}
	r, err := simulate.Run(t.Context(), v.Scenario, simulate.Options{MaxEvents: 20e6})
	if err != nil {
		t.Fatal(err)
	}
	return &r.Runs[0].Callers[0], &r.Runs[0]
}

// Each built-in reads, says what it is about, and prints to a file that reads
// back.
func TestBuiltIns(t *testing.T) {
	for _, name := range scenario.Names() {
		f, err := scenario.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if f.Scenario.Name != name || f.Scenario.About == "" || len(f.Variants) < 2 {
			t.Errorf("%s: name %q, about %q, %d variants", name, f.Scenario.Name, f.Scenario.About, len(f.Variants))
		}
		again, err := file.Parse("again.yaml", []byte(f.Print()), nil)
		if err != nil {
			t.Errorf("%s: its print: %v", name, err)
		} else if again.Print() != f.Print() {
			t.Errorf("%s: its print reads back differently", name)
		}
	}
	if _, err := scenario.Load("nothing"); err == nil || !strings.Contains(err.Error(), "one of: pr-247, statehouse") {
		t.Errorf("an unknown name: %v", err)
	}
}

// Seed 002: in the same outage the new policy is over the alarm of 5 %, the
// old one under 2 %; its depth is the work that waits the outage out, and the
// peak of the new one is higher.
func TestPR247(t *testing.T) {
	dead := map[string]float64{}
	for _, variant := range []string{"old", "new", "only delay", "only attempts", "only timeout", "only pool", "only batch"} {
		c, _ := play(t, "pr-247", variant)
		dead[variant] = c.Totals.DeadShare
		if c.Totals.Jobs < 50_000 || c.Totals.Unfinished != 0 {
			t.Errorf("%s: %d jobs, %d unfinished", variant, c.Totals.Jobs, c.Totals.Unfinished)
		}
	}
	if dead["old"] >= 0.02 || dead["new"] <= 0.05 {
		t.Errorf("dead letters: old %.4f, want under 0.02; new %.4f, want over 0.05", dead["old"], dead["new"])
	}
	for variant, share := range dead {
		if variant != "old" && (share < dead["old"] || share > dead["new"]) {
			t.Errorf("%s alone dead-letters %.4f, not between %.4f and %.4f", variant, share, dead["old"], dead["new"])
		}
	}
	if dead["only delay"] < dead["new"]/2 {
		t.Errorf("the fixed delay alone makes %.4f of %.4f, want at least half", dead["only delay"], dead["new"])
	}
	old, _ := play(t, "pr-247", "old")
	now, _ := play(t, "pr-247", "new")
	if old.Totals.DepthMax < 10*now.Totals.DepthMax || now.Totals.PeakCalls <= old.Totals.PeakCalls {
		t.Errorf("depth %d and %d, peak %d and %d", old.Totals.DepthMax, now.Totals.DepthMax, old.Totals.PeakCalls, now.Totals.PeakCalls)
	}
}

// The policies of pr-247 have the seed's figures.
func TestPR247Figures(t *testing.T) {
	f, err := scenario.Load("pr-247")
	if err != nil {
		t.Fatal(err)
	}
	for variant, want := range map[string]string{
		"old": "6 tries 1m0s×2 proportional 0.2, timeout 30s, 20 connections, batches of 100",
		"new": "9 tries 5s×1 none 0, timeout 10s, 50 connections, batches of 500",
	} {
		v, _ := f.Variant(variant)
		p := v.Scenario.Callers[0].Policy
		got := fmt.Sprintf("%d tries %s×%g %s %g, timeout %s, %d connections, batches of %d", p.Attempts, p.Backoff.Base, p.Backoff.Factor,
			p.Backoff.Jitter.Kind, p.Backoff.Jitter.Ratio, p.Timeout, p.Concurrency, p.Batch)
		if got != want {
			t.Errorf("%s: %s, want %s", variant, got, want)
		}
	}
	// Each of the others differs from the old one in its change alone.
	old, _ := f.Variant("old")
	for variant, want := range map[string][]string{
		"only delay":    {"backoff.base", "backoff.factor", "backoff.jitter.kind", "backoff.jitter.ratio"},
		"only attempts": {"attempts"},
		"only timeout":  {"timeout"},
		"only pool":     {"concurrency"},
		"only batch":    {"batch"},
	} {
		v, _ := f.Variant(variant)
		var got []string
		for _, field := range policy.Fields() {
			a, b := old.Scenario.Callers[0].Policy, v.Scenario.Callers[0].Policy
			irrelevant := slices.ContainsFunc([]string{"budget.", "expect.", "guard.", "max_hold"}, func(p string) bool { return strings.HasPrefix(field.Path, p) })
			if field.Text(&a) != field.Text(&b) && !irrelevant {
				got = append(got, field.Path)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s changes %v, want %v", variant, got, want)
		}
	}
}

// Seed 000: three tries lose the seed's 55 of 882 pages, ten lose too, waves
// and the host gate lose none; the gate sends the fewest calls into the
// collapse.
func TestStatehouse(t *testing.T) {
	lost, hits := map[string]int64{}, map[string]int64{}
	for _, variant := range []string{"three tries", "ten tries", "waves", "host gate"} {
		c, run := play(t, "statehouse", variant)
		if c.Totals.Jobs != 882 {
			t.Errorf("%s: %d pages, want 882", variant, c.Totals.Jobs)
		}
		lost[variant], hits[variant] = c.Totals.Dead, run.Downstreams[0].Totals.Collapsed
	}
	if lost["three tries"] != 55 || lost["ten tries"] == 0 || lost["waves"] != 0 || lost["host gate"] != 0 {
		t.Errorf("pages lost: %v; want 55 by three tries, some by ten, none by waves and host gate", lost)
	}
	if hits["host gate"]*10 > hits["waves"] {
		t.Errorf("calls into the collapse: %v; want the host gate's to be a tenth of the waves' at most", hits)
	}
	c, _ := play(t, "statehouse", "waves")
	if len(c.Waves) != 2 || c.Waves[1].Planned != 55 || c.Waves[1].Recovered != 55 {
		t.Errorf("waves: %+v; want one wave that recovers all 55", c.Waves)
	}
	if cooldown := c.Waves[1].FirstAt - c.Waves[0].LastAt; cooldown < 90 || cooldown > 90.001 {
		t.Errorf("the wave began %.3f s after the first pass, want 90", cooldown)
	}
}

// Seed 001: the seed's policy loses nothing in a brownout of 8 minutes, where
// a fixed interval loses some. The gate sends a tenth of the failing calls and
// loses nothing either, also in a brownout longer than max_hold.
func TestProviderBrownout(t *testing.T) {
	fixed, _ := play(t, "provider-brownout", "fixed")
	processing, _ := play(t, "provider-brownout", "processing")
	if fixed.Totals.DeadShare < 0.01 || processing.Totals.Dead != 0 {
		t.Errorf("dead letters: fixed %.4f, want over 0.01; processing %d, want none", fixed.Totals.DeadShare, processing.Totals.Dead)
	}
	gated, _ := play(t, "provider-brownout", "with gate")
	if gated.Totals.Failed*10 > fixed.Totals.Failed {
		t.Errorf("failed calls: with gate %d, fixed %d", gated.Totals.Failed, fixed.Totals.Failed)
	}
	long, _ := play(t, "provider-brownout", "with gate, 20 min")
	for _, c := range []*simulate.CallerOutcome{gated, long} {
		if c.Totals.Dead != 0 || c.Totals.Unfinished != 0 {
			t.Errorf("%d dead letters, %d unfinished, want none: %+v", c.Totals.Dead, c.Totals.Unfinished, c.DeadLetters)
		}
	}
}

// Seed 003: three sources enqueued at one instant run one after the other in
// the order of their sequence, restarts included; low thresholds lose crawls
// and take longer.
func TestAnnualCrawl(t *testing.T) {
	f, err := scenario.Load("annual-crawl")
	if err != nil {
		t.Fatal(err)
	}
	estimate := func(r *simulate.Result, measure string) float64 {
		e, ok := r.Estimate("caller/campaign/" + measure)
		if !ok {
			t.Fatalf("no estimate of %s", measure)
		}
		return e.Mean
	}
	results := map[string]*simulate.Result{}
	for _, v := range f.Variants {
		r, err := simulate.Run(t.Context(), v.Scenario, simulate.Options{Seeds: f.Seeds, Parallel: 2})
		if err != nil {
			t.Fatal(err)
		}
		results[v.Name] = r
		order(t, v)
	}
	low, high := results["low"], results["high"]
	// A start fails with the probability p, so a crawl is lost with p⁴: 0.129.
	if lost := estimate(low, "dead_share"); lost < 0.09 || lost > 0.17 {
		t.Errorf("low thresholds lose %.3f, want about 0.129", lost)
	}
	if lost := estimate(high, "dead_share"); lost != 0 {
		t.Errorf("high thresholds lose %.3f, want none", lost)
	}
	if a, b := estimate(low, "last_end"), estimate(high, "last_end"); a < 1.5*b {
		t.Errorf("low thresholds take %.0f s, high %.0f s", a, b)
	}
}

// order checks that starts never go back to an earlier source and never
// overlap.
func order(t *testing.T, v file.Variant) {
	t.Helper()
	last, running := int64(1), int64(0)
	for seed := range uint64(20) {
		v.Scenario.Seed = seed
		last, running = 1, 0
		_, err := simulate.Run(t.Context(), v.Scenario, simulate.Options{Trace: func(e simulate.Event) {
			switch e.Kind {
			case simulate.Started:
				if e.Job < last || running != 0 {
					t.Errorf("%s, seed %d: source %d starts at %s after %d, while %d runs", v.Name, seed, e.Job, e.At, last, running)
				}
				last, running = e.Job, e.Job
			case simulate.Ended:
				running = 0
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		if last != 3 {
			t.Errorf("%s, seed %d: the last source to start is %d, want 3", v.Name, seed, last)
		}
	}
}

// Backoff with jitter alone never recovers from a trigger of 30 seconds, a
// retry budget does.
func TestMetastable(t *testing.T) {
	for seed := range uint64(2) {
		for variant, recovers := range map[string]bool{"jitter": false, "budget": true, "no retries": true} {
			f, err := scenario.Load("metastable")
			if err != nil {
				t.Fatal(err)
			}
			v, _ := f.Variant(variant)
			v.Scenario.Seed = seed
			r, err := simulate.Run(t.Context(), v.Scenario, simulate.Options{})
			if err != nil {
				t.Fatal(err)
			}
			c := r.Runs[0].Callers[0]
			if !c.Recovery.Disturbed || c.Recovery.Recovered != recovers || c.Recovery.BeganAt != 300 || c.Recovery.EndedAt != 330 {
				t.Errorf("%s, seed %d: %+v, want recovered %v", variant, seed, c.Recovery, recovers)
			}
			late := c.Series.Succeeded[len(c.Series.Succeeded)-12:]
			var sum int64
			for _, n := range late {
				sum += n
			}
			goodput := float64(sum) / (12 * c.Series.Width)
			if recovers && goodput < 70 || !recovers && goodput > 1 {
				t.Errorf("%s, seed %d: goodput of the last minute %.1f/s of 80/s offered", variant, seed, goodput)
			}
		}
	}
}

// 1,000 calls that fail together come back together without jitter; the peak
// falls with the width of the jitter, and so do the calls.
func TestHerd(t *testing.T) {
	peak := map[string]int64{}
	for _, c := range []struct {
		variant string
		spread  float64 // seconds over which 1,000 retries lie
	}{{"none", 0}, {"proportional", 4}, {"additive", 5}, {"equal", 5}, {"full", 10}, {"decorrelated", 20}} {
		o, _ := play(t, "herd", c.variant)
		peak[c.variant] = o.Totals.PeakCalls
		if c.spread == 0 {
			if o.Totals.PeakCalls != 1000 || o.Totals.PeakAt != 60 {
				t.Errorf("%s: a peak of %d at %g s, want 1000 at 60", c.variant, o.Totals.PeakCalls, o.Totals.PeakAt)
			}
			continue
		}
		// The mean of a second within the spread, and five deviations.
		mean := 1000 / c.spread
		if got := float64(o.Totals.PeakCalls); got < mean*0.9 || got > mean+5*16 {
			t.Errorf("%s: a peak of %.0f, want about %.0f", c.variant, got, mean)
		}
	}
	list := []int64{peak["none"], peak["proportional"], peak["equal"], peak["full"], peak["decorrelated"]}
	if !slices.IsSortedFunc(list, func(a, b int64) int { return int(b - a) }) {
		t.Errorf("peaks do not fall: %v", list)
	}
	o, _ := play(t, "herd", "none")
	if first := o.Intervals[0]; first.Min != 10 || first.Max != 10 || first.Count != 1000 {
		t.Errorf("without jitter the first retries wait %g to %g s, %d of them; want 10 s, 1000", first.Min, first.Max, first.Count)
	}
	if limit := 50500 * time.Millisecond; o.Recovery.BeganAt != limit.Seconds() {
		t.Errorf("the crash is at %g, want %g", o.Recovery.BeganAt, limit.Seconds())
	}
}
