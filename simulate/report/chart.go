package report

import (
	"encoding/xml"
	"fmt"
	"math"
	"slices"
	"strings"
)

// chart is lines over time, on axes with units. x is in seconds.
type chart struct {
	title, unit string
	note        string
	lines       []line
	bands       []band
	end         float64 // right edge
	least       float64 // that the scale reaches
	words       func(float64) string
}

// line is one series of buckets.
type line struct {
	name   string
	colour int // of the case; -1 = grey
	dashed bool
	filled bool
	width  float64 // of a bucket
	values []float64
	loose  bool // does not set the scale; what is above it is cut off
	peak   bool // where buckets share a pixel the greatest counts, not the mean
}

// Measures in pixels.
const (
	leftMargin   = 52
	rightMargin  = 12
	topMargin    = 20
	bottomMargin = 26
	chartHeight  = 220
)

// canvas writes SVG elements; numbers have one decimal.
type canvas struct {
	strings.Builder
	width, height float64
}

func newCanvas(width, height float64, class, label string) *canvas {
	c := &canvas{width: width, height: height}
	fmt.Fprintf(c, `<svg class=%q role="img" aria-label="%s" viewBox="0 0 %g %g" width="%g" height="%g">`+"\n", class, escape(label), width, height, width, height)
	return c
}

func (c *canvas) end() string {
	c.WriteString("</svg>\n")
	return c.String()
}

func (c *canvas) text(x, y float64, anchor, class, text string) {
	fmt.Fprintf(c, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" class=\"%s\">%s</text>\n", x, y, anchor, class, escape(text))
}

func (c *canvas) rect(x, y, w, h float64, class string) {
	fmt.Fprintf(c, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" class=\"%s\"/>\n", x, y, max(w, 0), max(h, 0), class)
}

func (c *canvas) path(d, class string) {
	fmt.Fprintf(c, "<path d=\"%s\" class=\"%s\"/>\n", d, class)
}

// svg draws the chart in that width.
func (ch *chart) svg(width float64, class string) string {
	c := newCanvas(width, chartHeight, class, ch.title+": "+ch.description())
	plotWidth := width - leftMargin - rightMargin
	plotHeight := float64(chartHeight - topMargin - bottomMargin)
	x := func(s float64) float64 { return leftMargin + s/ch.end*plotWidth }
	ticks := niceTicks(ch.top(), 4)
	top := ticks[len(ticks)-1]
	y := func(v float64) float64 { return topMargin + plotHeight*(1-v/top) }
	ch.drawBands(c, x, plotHeight)
	for _, tick := range ticks {
		c.path(fmt.Sprintf("M%d %.1f H%.1f", leftMargin, y(tick), width-rightMargin), "grid")
		c.text(leftMargin-6, y(tick)+4, "end", "soft", axis(tick))
	}
	for _, tick := range timeTicks(ch.end, max(int(plotWidth/62), 2)) {
		c.path(fmt.Sprintf("M%.1f %.1f v4", x(tick), topMargin+plotHeight), "tick")
		anchor := "middle"
		if x(tick) > width-24 {
			anchor = "end"
		}
		c.text(min(x(tick), width-2), chartHeight-8, anchor, "soft", seconds(tick))
	}
	for _, l := range ch.lines {
		l.draw(c, x, y, int(plotWidth), ch.end)
	}
	return c.end()
}

func (ch *chart) drawBands(c *canvas, x func(float64) float64, height float64) {
	for _, b := range ch.bands {
		from, until := x(b.from), x(min(b.until, ch.end))
		if b.from >= ch.end {
			continue
		}
		c.rect(from, topMargin, max(until-from, 1.5), height, "band")
		anchor, at := "start", from
		if from > c.width*0.6 {
			anchor, at = "end", until
		}
		c.text(at, topMargin-6, anchor, "bandname", b.name)
	}
}

func (l *line) draw(c *canvas, x, y func(float64) float64, pixels int, end float64) {
	group := max(1, len(l.values)/max(pixels/2, 1))
	var d strings.Builder
	last := 0.0
	for i := 0; i < len(l.values); i += group {
		from := float64(i) * l.width
		if from >= end {
			break
		}
		v := l.bucket(i, min(i+group, len(l.values)))
		verb := "L"
		if i == 0 {
			verb = "M"
		}
		last = min((float64(i)+float64(group)/2)*l.width, end)
		fmt.Fprintf(&d, "%s%.1f %.1f", verb, x(last), max(y(v), topMargin))
	}
	if d.Len() == 0 {
		return
	}
	if l.filled {
		first := min(float64(group)/2*l.width, end)
		c.path(fmt.Sprintf("%sL%.1f %.1fL%.1f %.1fZ", d.String(), x(last), y(0), x(first), y(0)), "fill "+colour(l.colour))
	}
	class := "line " + colour(l.colour)
	if l.dashed {
		class += " dashed"
	}
	c.path(d.String(), class)
}

func (l *line) bucket(from, to int) float64 {
	if l.peak {
		return slices.Max(l.values[from:to])
	}
	sum := 0.0
	for _, v := range l.values[from:to] {
		sum += v
	}
	return sum / float64(to-from)
}

func colour(i int) string {
	if i < 0 {
		return "grey"
	}
	return fmt.Sprintf("c%d", i%maxColours)
}

func (ch *chart) top() float64 {
	top := ch.least
	for _, l := range ch.lines {
		if len(l.values) > 0 && !l.loose {
			top = max(top, slices.Max(l.values))
		}
	}
	return top
}

// description tells the chart's lines in words, for those who listen.
func (ch *chart) description() string {
	var parts []string
	for _, l := range ch.lines {
		if len(l.values) > 0 {
			at := slices.Index(l.values, slices.Max(l.values))
			parts = append(parts, fmt.Sprintf("%s at most %s, at %s", l.name, ch.words(l.values[at]), seconds(float64(at)*l.width)))
		}
	}
	return strings.Join(parts, "; ")
}

// axis writes a number beside an axis.
func axis(x float64) string {
	if x >= 10000 {
		return short(x/1000) + "k"
	}
	return short(x)
}

// niceTicks are at least two round numbers from 0 to at least top.
func niceTicks(top float64, most int) []float64 {
	if top <= 0 {
		return []float64{0, 1}
	}
	raw := top / float64(most)
	magnitude := math.Pow(10, math.Floor(math.Log10(raw)))
	unit := magnitude * 10
	for _, m := range []float64{1, 2, 2.5, 5} {
		if m*magnitude >= raw {
			unit = m * magnitude
			break
		}
	}
	var ticks []float64
	for i := 0; ; i++ {
		ticks = append(ticks, float64(i)*unit)
		if ticks[i] >= top*0.9999 {
			return ticks
		}
	}
}

// timeSteps are the times worth a tick, in seconds.
var timeSteps = []float64{
	0.001, 0.01, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 2 * 3600, 3 * 3600, 6 * 3600, 12 * 3600,
	86400, 2 * 86400, 7 * 86400, 28 * 86400, 365 * 86400,
}

// timeTicks are at most about that many round times up to end.
func timeTicks(end float64, most int) []float64 {
	step := timeSteps[len(timeSteps)-1]
	for _, s := range slices.Backward(timeSteps) {
		if end/s <= float64(most) {
			step = s
		}
	}
	var ticks []float64
	for at := 0.0; at <= end*1.0001 && len(ticks) < 100; at += step {
		ticks = append(ticks, at)
	}
	return ticks
}

func escape(text string) string {
	var b strings.Builder
	if err := xml.EscapeText(&b, []byte(text)); err != nil {
		panic(err) // a strings.Builder does not fail
	}
	return b.String()
}
