// Package plot draws when a policy tries: one row a try, time to the right,
// with the bands that jitter makes of each delay and of all delays so far.
// The same timeline is drawn as SVG for pages and as text for terminals.
package plot

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/ebbhq/ebb/policy"
)

const (
	// maxRows is how many rows are drawn; the middle of longer timelines is
	// left out, and said to be.
	maxRows  = 30
	tailRows = 6
)

type rowKind uint8

const (
	tryRow      rowKind = iota
	cooldownRow         // the wait before a wave
	omittedRow          // rows left out
)

// row is one line of the timeline. Times count from the first start.
type row struct {
	kind  rowKind
	label string
	from  time.Duration // nominal time of the try before
	own   policy.Band   // when this try starts, if all before it were on time
	all   policy.Band   // the same with the jitter of all delays before it
	wait  policy.Band   // the delay before this try
	first bool          // no wait: the first try of a pass
	count int           // tries left out
}

// timeline is what both drawings show.
type timeline struct {
	name    string
	summary string
	rows    []row
	cut     bool          // the middle of the rows is left out
	hidden  int           // tries in it
	end     time.Duration // the right edge
	outage  time.Duration // to survive; 0 = not stated
	log     bool          // the scale grows with time
	unit    time.Duration // of the log scale: the first delay
}

func build(p *policy.Policy) timeline {
	t := timeline{name: p.Name, outage: p.Expect.Outage}
	delays := p.Delays()
	var at policy.Band
	for pass := 0; pass <= p.Waves.Count; pass++ {
		label := ""
		if pass > 0 {
			label = fmt.Sprintf("wave %d ", pass)
			from := at
			at = at.Add(same(p.Waves.Cooldown))
			t.push(row{kind: cooldownRow, label: "cooldown", from: from.Nominal, all: at, own: same(at.Nominal), wait: same(p.Waves.Cooldown)})
		}
		t.push(row{label: label + "try 1", from: at.Nominal, own: same(at.Nominal), all: at, first: true})
		for i, d := range delays {
			from := at.Nominal
			at = at.Add(d)
			own := same(from).Add(d)
			if p.Window > 0 && p.Waves.Count == 0 {
				at.Most, own.Most = min(at.Most, p.Window), min(own.Most, p.Window)
			}
			t.push(row{label: fmt.Sprintf("%stry %d", label, i+2), from: from, own: own, all: at, wait: d})
		}
	}
	t.end = at.Most
	if t.end == 0 {
		t.end = max(t.outage, time.Minute) // nothing but the first try
	}
	if t.outage/2 <= t.end {
		t.end = max(t.end, t.outage)
	}
	t.summary = summary(p)
	t.chooseScale(p, delays)
	t.shorten(p, len(delays))
	return t
}

func same(d time.Duration) policy.Band { return policy.Band{Nominal: d, Least: d, Most: d} }

// chooseScale takes a linear scale, which shows growth as it is, unless the
// first delays would vanish in it. Waves repeat, so they stay linear.
func (t *timeline) chooseScale(p *policy.Policy, delays []policy.Band) {
	if len(delays) == 0 || p.Waves.Count > 0 || delays[0].Nominal <= 0 {
		return
	}
	t.unit = delays[0].Nominal
	t.log = t.end/t.unit > 60 && delays[len(delays)-1].Nominal >= 4*t.unit
}

// push appends a row and leaves out the middle of a timeline that grows too
// long, so that it never holds more than is drawn.
func (t *timeline) push(r row) {
	t.rows = append(t.rows, r)
	if len(t.rows) <= maxRows {
		return
	}
	const cut = maxRows - tailRows
	if t.rows[cut].kind == tryRow {
		t.hidden++
	}
	t.rows = append(t.rows[:cut], t.rows[cut+1:]...)
	t.cut = true
}

// shorten says how many tries are left out, and how many follow where not
// even the delays list them all.
func (t *timeline) shorten(p *policy.Policy, listed int) {
	if unlisted := p.Attempts - listed - 1; unlisted > 0 && listed >= policy.MaxShownDelays-1 {
		t.push(row{kind: omittedRow, count: unlisted})
	}
	if t.cut {
		t.rows = slices.Insert(t.rows, maxRows-tailRows, row{kind: omittedRow, count: t.hidden})
	}
}

// position maps a time to 0..1 across the plot.
func (t *timeline) position(d time.Duration) float64 {
	x, end := float64(d), float64(t.end)
	if t.log {
		unit := float64(t.unit)
		return math.Log1p(x/unit) / math.Log1p(end/unit)
	}
	return x / end
}

// steps are the times worth a tick.
var steps = []time.Duration{
	time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond,
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour,
	24 * time.Hour, 48 * time.Hour, 7 * 24 * time.Hour, 28 * 24 * time.Hour, 365 * 24 * time.Hour, 3650 * 24 * time.Hour,
}

// ticks returns the times to mark, 0 first, at most about that many.
func (t *timeline) ticks(most int) []time.Duration {
	ticks := []time.Duration{0}
	if t.log {
		gap := 1 / float64(most)
		for _, s := range steps {
			at := t.position(s)
			if s <= t.end && at-t.position(ticks[len(ticks)-1]) >= gap {
				ticks = append(ticks, s)
			}
		}
		return ticks
	}
	step := steps[len(steps)-1]
	for i := len(steps) - 1; i >= 0 && t.end/steps[i] <= time.Duration(most); i-- {
		step = steps[i]
	}
	for at := step; at <= t.end; at += step {
		ticks = append(ticks, at)
	}
	return ticks
}

// summary tells the timeline in one line.
func summary(p *policy.Policy) string {
	reach := p.Reach()
	var parts []string
	switch p.Attempts {
	case 0:
		parts = append(parts, "no cap on tries")
	case 1:
		parts = append(parts, "1 try")
	default:
		parts = append(parts, fmt.Sprintf("%d tries", p.Attempts))
	}
	if w := p.Waves.Count; w > 0 {
		parts[0] += fmt.Sprintf(", then up to %d waves", w)
	}
	if p.Attempts != 1 || p.Waves.Count > 0 {
		over := "over " + Short(reach.Nominal)
		if reach.Least != reach.Most {
			over += fmt.Sprintf(" (%s)", span(reach))
		}
		parts[0] += " " + over
		parts = append(parts, jitter(p.Backoff.Jitter))
	}
	if p.Window > 0 {
		parts = append(parts, "window "+Short(p.Window))
	}
	for _, w := range p.Waivers {
		parts = append(parts, fmt.Sprintf("waives %s until %s", w.Rule, w.Expires.Format(time.DateOnly)))
	}
	return strings.Join(parts, " · ")
}

func jitter(j policy.Jitter) string {
	percent := fmt.Sprintf("%.3g %%", j.Ratio*100)
	switch j.Kind {
	case policy.JitterNone, "":
		return "no jitter"
	case policy.JitterProportional:
		return "jitter ± " + percent
	case policy.JitterAdditive:
		return "jitter + 0 to " + percent
	}
	return string(j.Kind) + " jitter"
}

func span(b policy.Band) string { return Short(b.Least) + "–" + Short(b.Most) }

// Short writes a duration with the digits that a reader of a timeline needs.
func Short(d time.Duration) string {
	unit := time.Millisecond
	switch {
	case d >= 48*time.Hour:
		unit = time.Hour
	case d >= time.Hour:
		unit = time.Minute
	case d >= 10*time.Second:
		unit = time.Second
	case d >= time.Second:
		unit = 100 * time.Millisecond
	}
	if d < time.Millisecond {
		unit = 1
	}
	return policy.FormatDuration(d.Round(unit))
}

// delayText is a row's wait in words: what is written, and what jitter makes of it.
func (r row) delayText() string {
	switch {
	case r.kind == omittedRow:
		return fmt.Sprintf("%d more tries", r.count)
	case r.first:
		return ""
	case r.wait.Least == r.wait.Most:
		return Short(r.wait.Nominal)
	}
	return fmt.Sprintf("%s (%s)", Short(r.wait.Nominal), span(r.wait))
}
