package plot

import (
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/ebbhq/ebb/policy"
)

var update = flag.Bool("update", false, "write golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; got:\n%s", path, got)
	}
}

// examples are the presets and what they do not show: a log scale, a timeline
// too long to draw whole, no retry at all.
func examples(t *testing.T) []policy.Policy {
	t.Helper()
	var all []policy.Policy
	for _, name := range policy.PresetNames() {
		all = append(all, policy.MustPreset(name))
	}
	for name, edit := range map[string]func(*policy.Policy){
		"growing": func(p *policy.Policy) {
			p.Attempts, p.Backoff.Factor, p.Backoff.Jitter = 10, 2.5, policy.Jitter{Kind: policy.JitterFull}
		},
		"long": func(p *policy.Policy) { p.Attempts, p.Backoff.Factor = 500, 1 },
		"once": func(p *policy.Policy) { p.Attempts = 1 },
		"windowed": func(p *policy.Policy) {
			p.Attempts, p.Window, p.Backoff.Cap = 0, 40*time.Minute, 5*time.Minute
			p.Backoff.Jitter.Kind = policy.JitterDecorrelated
		},
	} {
		p := policy.Base(name)
		edit(&p)
		p, err := policy.Seal(p)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

func TestGolden(t *testing.T) {
	for _, p := range examples(t) {
		t.Run(p.Name, func(t *testing.T) {
			golden(t, p.Name+".svg", SVG(p, Options{}))
			golden(t, p.Name+".txt", Text(p, 100))
		})
	}
}

func TestSVGIsWellFormed(t *testing.T) {
	for _, p := range examples(t) {
		p.Name = `<"&'> ` + p.Name
		d := xml.NewDecoder(strings.NewReader(SVG(p, Options{Width: 700})))
		seen := map[string]int{}
		for {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", p.Name, err)
			}
			if start, ok := token.(xml.StartElement); ok {
				seen[start.Name.Local]++
			}
		}
		if seen["svg"] != 1 || seen["title"] != 1 || seen["desc"] != 1 || seen["circle"] < 2 {
			t.Errorf("%s: elements %v", p.Name, seen)
		}
	}
}

func TestDescriptionNamesEveryTry(t *testing.T) {
	p := policy.MustPreset("webhook")
	timeline := build(&p)
	want := "6 tries over 31m (24m48s–37m12s) · jitter ± 20 %; try 1 at 0s; try 2 after 1m (48s–1m12s) at 1m; " +
		"try 3 after 2m (1m36s–2m24s) at 3m; try 4 after 4m (3m12s–4m48s) at 7m; try 5 after 8m (6m24s–9m36s) at 15m; " +
		"try 6 after 16m (12m48s–19m12s) at 31m; outage to survive 10m."
	if got := timeline.description(); got != want {
		t.Errorf("description =\n%s\nwant\n%s", got, want)
	}
}

// A drawing holds what is drawn, however long the timeline: fifty million
// waves once filled the memory.
func TestLongTimelineKeepsFewRows(t *testing.T) {
	p := policy.MustPreset("scrape")
	p.Waves.Count, p.Attempts = policy.MaxWaves, 5000
	t1 := build(&p)
	if got, want := len(t1.rows), maxRows+1; got != want || cap(t1.rows) > 4*maxRows {
		t.Errorf("%d rows, want %d; room for %d", got, want, cap(t1.rows))
	}
	drawn, left := 0, 0
	for _, r := range t1.rows {
		if r.kind == tryRow {
			drawn++
		}
		left += r.count
	}
	// 1001 passes of a first try and the delays that are listed, and the rest of 5000.
	if want := 1001*(1+policy.MaxShownDelays) + 5000 - 1 - policy.MaxShownDelays; drawn+left != want {
		t.Errorf("%d tries drawn and %d left out, want %d", drawn, left, want)
	}
}

// An outage longer than the drawing was marked at its right edge, as if it
// ended there.
func TestOutageBeyondTheEdgeIsNotMarked(t *testing.T) {
	p := policy.MustPreset("webhook")
	p.Attempts, p.Backoff = 9, policy.Backoff{Base: 5 * time.Second, Factor: 1}
	drawing, text := SVG(p, Options{}), Text(p, 100)
	if strings.Contains(drawing, "stroke-dasharray") || strings.ContainsRune(text, markOutage) {
		t.Error("the end of an outage of 10 min is marked in 40 s")
	}
	if !strings.Contains(drawing, "outage to survive: 10m, beyond this drawing") || !strings.Contains(text, "beyond the edge: the end of an outage of 10m") {
		t.Errorf("no word of the outage:\n%s", text)
	}
	p = policy.MustPreset("webhook")
	if !strings.Contains(SVG(p, Options{}), "stroke-dasharray") {
		t.Error("an outage inside the drawing is not marked")
	}
}

func TestScale(t *testing.T) {
	scales := map[string]bool{"webhook": false, "scrape": false, "annual-crawl": false, "processing": false, "growing": true}
	for _, p := range examples(t) {
		timeline := build(&p)
		if want, ok := scales[p.Name]; ok && timeline.log != want {
			t.Errorf("%s: logarithmic = %v, want %v", p.Name, timeline.log, want)
		}
		if got := timeline.position(timeline.end); got != 1 {
			t.Errorf("%s: the end is at %g, want 1", p.Name, got)
		}
		if n := len(timeline.ticks(9)); n < 2 || n > 11 {
			t.Errorf("%s: %d ticks", p.Name, n)
		}
	}
}

// TestDrawsAnyPolicy: no schedule that can be sealed breaks a drawing.
func TestDrawsAnyPolicy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := policy.Base("any")
		duration := func(name string) time.Duration {
			return time.Duration(rapid.OneOf(rapid.Int64Range(1, 1e12), rapid.Int64Range(1, 1<<62)).Draw(t, name))
		}
		p.Attempts = rapid.IntRange(1, 2000).Draw(t, "attempts")
		p.Backoff.Base, p.Backoff.Factor = duration("base"), rapid.Float64Range(1, 100).Draw(t, "factor")
		p.Backoff.Jitter.Kind = policy.JitterKind(rapid.SampledFrom([]string{"none", "proportional", "full", "decorrelated"}).Draw(t, "kind"))
		p.Window = rapid.SampledFrom([]time.Duration{0, duration("window")}).Draw(t, "windowed")
		p.Expect.Outage = duration("outage")
		p.Waves = policy.Waves{Count: rapid.IntRange(0, 50).Draw(t, "waves"), Cooldown: time.Duration(rapid.Int64Range(0, 1e15).Draw(t, "cooldown")), Concurrency: 1, Classes: 2}
		p, err := policy.Seal(p)
		if err != nil {
			t.Fatal(err)
		}
		width := rapid.IntRange(-10, 300).Draw(t, "width")
		text, svg := Text(p, width), SVG(p, Options{Width: width})
		for _, bad := range []string{"NaN", "Inf", "%!", "-0."} {
			if strings.Contains(svg, bad) || strings.Contains(text, bad) {
				t.Fatalf("%q in the drawing:\n%s\n%s", bad, text, svg)
			}
		}
		if rows := strings.Count(text, "\n"); rows > maxRows+10 {
			t.Fatalf("%d lines", rows)
		}
	})
}

func TestTextFitsItsWidth(t *testing.T) {
	for _, width := range []int{72, 80, 100, 160} {
		for _, p := range examples(t) {
			lines := strings.Split(Text(p, width), "\n")
			for _, line := range lines[2 : len(lines)-3] {
				if n := utf8.RuneCountInString(line); n > width {
					t.Errorf("%s at %d columns has a line of %d: %s", p.Name, width, n, line)
				}
			}
		}
	}
}

func ExampleText() {
	fmt.Print(Text(policy.MustPreset("webhook"), 80))
	// Output:
	// webhook: 6 tries over 31m (24m48s–37m12s) · jitter ± 20 %
	//
	// try 1  ●          ┊                                 at 0s
	// try 2  ─●         ┊                                 +1m (48s–1m12s), at 1m
	// try 3   ──●▒      ┊                                 +2m (1m36s–2m24s), at 3m
	// try 4     ───░▒●▒ ┊                                 +4m (3m12s–4m48s), at 7m
	// try 5          ──────░▒▒●▒▒░                        +8m (6m24s–9m36s), at 15m
	// try 6             ┊     ───────────░░░▒▒▒▒●▒▒▒▒░░░  +16m (12m48s–19m12s), at 31m
	//        0s         10m         20m        30m
	//
	// ● try, as written   ▒ jitter of its delay   ░ of all delays so far   ┊ end of an outage of 10m
}
