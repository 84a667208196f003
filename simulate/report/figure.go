package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/ebbhq/ebb/simulate"
)

// figure is one drawing of the page with its words.
type figure struct {
	title, unit, note string
	legend            []legend
	draw              func(width float64, class string) string
}

type legend struct {
	name   string
	class  string
	dashed bool
}

// figures are the drawings of the page, in order.
func (r *Report) figures() []figure {
	cases := r.charted()
	all := make([]series, len(cases))
	end := 0.0
	for i, c := range cases {
		all[i] = c.series()
		end = max(end, all[i].width*float64(len(all[i].calls)))
	}
	bands := cases[0].bands()
	over := func(title, unit, note string, offered bool, words func(float64) string, of func(*series) []float64, peak bool) figure {
		ch := &chart{title: title, unit: unit, note: note, bands: bands, end: end, words: words}
		if offered {
			ch.lines = append(ch.lines, line{name: "jobs offered", colour: -1, dashed: true, loose: true, width: all[0].width, values: all[0].offered})
		}
		for i, c := range cases {
			ch.lines = append(ch.lines, line{name: c.Name, colour: i, width: all[i].width, values: of(&all[i]), filled: len(cases) == 1, peak: peak})
		}
		return ch.figure()
	}
	list := []figure{
		over("Load", "calls a second", "Calls above the offered jobs are retries.", true, rate, func(s *series) []float64 { return s.calls }, false),
		over("Goodput", "jobs succeeded a second", "", true, rate, func(s *series) []float64 { return s.goodput }, false),
		over("Queue", "jobs waiting, for the first time or again", "", false, whole, func(s *series) []float64 { return s.depth }, true),
		over("In flight", "calls under way", "", false, short, func(s *series) []float64 { return s.inFlight }, true),
	}
	list = append(list, deadFigures(cases, bands, end)...)
	list = append(list, quantileFigure(cases))
	if f, ok := intervalFigure(cases); ok {
		list = append(list, f)
	}
	return list
}

func (ch *chart) figure() figure {
	f := figure{title: ch.title, unit: ch.unit, note: ch.note, draw: ch.svg}
	for _, l := range ch.lines {
		f.legend = append(f.legend, legend{l.name, colour(l.colour), l.dashed})
	}
	return f
}

// deadFigures draw the dead letters of each case by cause, on one scale.
func deadFigures(cases []*Case, bands []band, end float64) []figure {
	var list []figure
	top := 0.0
	for _, c := range cases {
		for _, row := range c.stacked() {
			for _, v := range row {
				top = max(top, v)
			}
		}
	}
	var none []string
	for _, c := range cases {
		stacked := c.stacked()
		if len(stacked) == 0 {
			none = append(none, c.Name)
			continue
		}
		ch := &chart{title: "Dead letters", unit: "a second, by cause", bands: bands, end: end, words: rate}
		if len(cases) > 1 {
			ch.title += ": " + c.Name
		}
		// The highest of the stack is drawn first; the scale is that of all cases.
		for i := len(stacked) - 1; i >= 0; i-- {
			ch.lines = append(ch.lines, line{name: causeName(c.dead.causes[i]), colour: i + 2, width: c.dead.width, values: stacked[i], filled: true})
		}
		ch.least = top
		list = append(list, ch.figure())
	}
	switch {
	case len(list) == 0:
		list = append(list, figure{title: "Dead letters", unit: "a second, by cause", note: "None."})
	case none != nil:
		list[len(list)-1].note = "No dead letters: " + strings.Join(none, ", ") + "."
	}
	return list
}

// stacked are the dead letters a second by cause, each upon those before it.
func (c *Case) stacked() [][]float64 {
	if c.dead == nil || len(c.dead.causes) == 0 {
		return nil
	}
	most := 0
	for _, row := range c.dead.counts {
		most = max(most, len(row))
	}
	below := make([]float64, most+1)
	var list [][]float64
	for _, row := range c.dead.counts {
		sum := make([]float64, most+1)
		copy(sum, below)
		for i, n := range row {
			sum[i] += float64(n) / c.dead.width
		}
		list = append(list, sum)
		below = sum
	}
	return list
}

func causeName(cause string) string {
	switch cause {
	case "exhausted":
		return "attempts exhausted"
	case "expired":
		return "held or waited too long"
	}
	return strings.ReplaceAll(cause, "_", " ")
}

// quantileFigure draws how long jobs took to succeed, on a logarithmic scale.
func quantileFigure(cases []*Case) figure {
	f := figure{title: "Time to success" + ofCaller(cases), unit: "from a job's arrival, by quantile, logarithmic"}
	for i, c := range cases {
		f.legend = append(f.legend, legend{name: c.Name, class: colour(i)})
	}
	f.draw = func(width float64, class string) string { return drawQuantiles(cases, width, class) }
	return f
}

// ofCaller names the caller that a drawing is of, where there are several.
func ofCaller(cases []*Case) string {
	if callers := cases[0].callers(); len(callers) > 1 {
		return ": " + callers[0].Name
	}
	return ""
}

var quantileNames = []string{"p50", "p90", "p95", "p99", "p99.9", "max"}

func quantiles(h *simulate.Histogram) []float64 {
	return []float64{h.P50, h.P90, h.P95, h.P99, h.P999, h.Max}
}

func drawQuantiles(cases []*Case, width float64, class string) string {
	var rows [][]float64
	least, most := math.Inf(1), 0.0
	var words []string
	for _, c := range cases {
		h := c.callers()[0].Jobs
		q := quantiles(&h)
		rows = append(rows, q)
		words = append(words, fmt.Sprintf("%s p50 %s, p99 %s", c.Name, seconds(h.P50), seconds(h.P99)))
		for _, v := range q {
			if h.Count > 0 && v > 0 {
				least, most = min(least, v), max(most, v)
			}
		}
	}
	c := newCanvas(width, chartHeight, class, "Time to success: "+strings.Join(words, "; "))
	if most == 0 {
		c.text(width/2, chartHeight/2, "middle", "soft", "no job succeeded")
		return c.end()
	}
	ticks := logTicks(least, most)
	low, high := math.Log10(ticks[0]), math.Log10(ticks[len(ticks)-1])
	plot := float64(chartHeight - topMargin - bottomMargin)
	y := func(v float64) float64 { return topMargin + plot*(1-(math.Log10(v)-low)/(high-low)) }
	for _, tick := range ticks {
		c.path(fmt.Sprintf("M%d %.1f H%.1f", leftMargin, y(tick), width-rightMargin), "grid")
		c.text(leftMargin-6, y(tick)+4, "end", "soft", seconds(tick))
	}
	x := func(i int) float64 {
		return leftMargin + (width-leftMargin-rightMargin)*(float64(i)+0.5)/float64(len(quantileNames))
	}
	for i, name := range quantileNames {
		c.text(x(i), chartHeight-8, "middle", "soft", name)
	}
	for n, q := range rows {
		var d strings.Builder
		for i, v := range q {
			if v > 0 {
				verb := "L"
				if d.Len() == 0 {
					verb = "M"
				}
				fmt.Fprintf(&d, "%s%.1f %.1f", verb, x(i), y(v))
				fmt.Fprintf(c, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" class=\"dot %s\"/>\n", x(i), y(v), colour(n))
			}
		}
		c.path(d.String(), "line "+colour(n))
	}
	return c.end()
}

// decades are the times worth a line of a logarithmic scale, in seconds.
var decades = []float64{1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 1, 10, 60, 600, 3600, 36000, 4 * 86400, 40 * 86400, 400 * 86400, 4000 * 86400}

// logTicks are the decades from below the least to above the most.
func logTicks(least, most float64) []float64 {
	first, last := 0, len(decades)-1
	for first < last-1 && decades[first+1] <= least {
		first++
	}
	for last > first+1 && decades[last-1] >= most {
		last--
	}
	return decades[first : last+1]
}

const maxIntervalRows = 8

// intervalFigure draws the delays before retries as they happened, a row for
// each retry, on a logarithmic scale.
func intervalFigure(cases []*Case) (figure, bool) {
	rows, least, most := 0, math.Inf(1), 0.0
	for _, c := range cases {
		for i, h := range c.callers()[0].Intervals {
			if h.Count > 0 {
				rows = max(rows, i+1)
				least, most = min(least, max(h.Min, 1e-3)), max(most, h.Max)
			}
		}
	}
	if rows == 0 {
		return figure{}, false
	}
	rows = min(rows, maxIntervalRows)
	f := figure{title: "Retry intervals" + ofCaller(cases), unit: "from the end of a try to the next, logarithmic", note: "The height of a hill is the share of the row's retries."}
	for i, c := range cases {
		f.legend = append(f.legend, legend{name: c.Name, class: colour(i)})
	}
	low, high := math.Log10(least)-0.05, math.Log10(max(most, least))+0.05
	if high-low < 0.6 {
		low, high = low-0.3, high+0.3
	}
	f.draw = func(width float64, class string) string { return drawIntervals(cases, rows, low, high, width, class) }
	return f, true
}

func drawIntervals(cases []*Case, rows int, low, high, width float64, class string) string {
	const rowHeight = 30
	height := float64(topMargin + rows*rowHeight + bottomMargin)
	var words []string
	for _, c := range cases {
		if list := c.callers()[0].Intervals; len(list) > 0 && list[0].Count > 0 {
			words = append(words, fmt.Sprintf("%s first retry after %s to %s", c.Name, seconds(list[0].Min), seconds(list[0].Max)))
		}
	}
	c := newCanvas(width, height, class, "Retry intervals: "+strings.Join(words, "; "))
	left := 62.0
	x := func(log float64) float64 { return left + (width-left-rightMargin)*(log-low)/(high-low) }
	bottom := float64(topMargin + rows*rowHeight)
	last := -1e9
	for _, tick := range []float64{0.001, 0.01, 0.1, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1200, 3600, 6 * 3600, 86400} {
		if at := math.Log10(tick); at >= low && at <= high && x(at)-last >= 44 {
			last = x(at)
			c.path(fmt.Sprintf("M%.1f %d V%.1f", last, topMargin, bottom), "grid")
			c.text(last, height-8, "middle", "soft", seconds(tick))
		}
	}
	for i := range rows {
		base := float64(topMargin + (i+1)*rowHeight)
		c.text(left-8, base-8, "end", "soft", fmt.Sprintf("retry %d", i+1))
		c.path(fmt.Sprintf("M%.1f %.1f H%.1f", left, base, width-rightMargin), "grid")
		for n, one := range cases {
			if list := one.callers()[0].Intervals; i < len(list) && list[i].Count > 0 {
				c.path(hill(&list[i], x, base, rowHeight-5, low), "fill line "+colour(n))
			}
		}
	}
	return c.end()
}

// hillStep is the width of a step of a hill, in pixels.
const hillStep = 3

// hill is a histogram as a filled path: each bin is spread over its stretch of
// the logarithmic axis.
func hill(h *simulate.Histogram, x func(float64) float64, base, height, low float64) string {
	at := func(seconds float64) int { return int(x(max(math.Log10(max(seconds, 1e-3)), low)) / hillStep) }
	first, last := at(h.Min), at(h.Max)
	heights := make([]float64, last-first+1)
	bins := h.Bins
	if len(bins) == 0 {
		bins = []int64{h.Count}
	}
	width, top := (h.Max-h.Min)/float64(len(bins)), 0.0
	for i, n := range bins {
		from, to := at(h.Min+width*float64(i)), at(h.Min+width*float64(i+1))
		for p := from; p <= to; p++ {
			heights[min(p, last)-first] += float64(n) / float64(to-from+1)
		}
	}
	for _, v := range heights {
		top = max(top, v)
	}
	var d strings.Builder
	fmt.Fprintf(&d, "M%d %.1f", first*hillStep, base)
	for i, v := range heights {
		y := base - height*v/top
		fmt.Fprintf(&d, "L%d %.1fL%d %.1f", (first+i)*hillStep, y, (first+i+1)*hillStep, y)
	}
	fmt.Fprintf(&d, "L%d %.1fZ", (last+1)*hillStep, base)
	return d.String()
}
