package plot

import (
	"encoding/xml"
	"fmt"
	"strings"
	"time"

	"github.com/ebbhq/ebb/policy"
)

// Options of the SVG. The zero value is a drawing for a page.
type Options struct {
	// Width in pixels; 0 = 920, at least 520.
	Width int
	// ID makes the ids inside unique where several drawings share a page;
	// empty = "ebb-" and the policy's name.
	ID string
}

// Measures in pixels.
const (
	defaultWidth = 920
	minWidth     = 520
	rowHeight    = 26
	barHeight    = 12
	headHeight   = 92
	margin       = 24
	labelWidth   = 92
	delayWidth   = 176
	atWidth      = 72
)

// style colours by CSS variables, dark where the reader's system is.
const style = `
.%[1]s{--paper:#fff;--ink:#1b2733;--soft:#5b6b7a;--grid:#e6eaee;--stripe:#f6f8fa;--wait:#a9b8c6;--all:#bfe3e6;--own:#5fb6bf;--try:#0b6a78;--cool:#c9b8e8;--out:#fff3dc;--edge:#b7791f}
@media (prefers-color-scheme:dark){.%[1]s{--paper:#10161c;--ink:#e7edf3;--soft:#93a3b3;--grid:#25303a;--stripe:#151d25;--wait:#4b5b6a;--all:#14434a;--own:#1f7783;--try:#7fe0ea;--cool:#5a4a86;--out:#2b2415;--edge:#e0a84a}}
.%[1]s text{font:13px system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;fill:var(--ink);font-variant-numeric:tabular-nums}
.%[1]s .name{font-size:17px;font-weight:600}
.%[1]s .soft{fill:var(--soft);font-size:12px}
.%[1]s .edge{fill:var(--edge);font-size:12px}
`

// canvas writes elements; numbers have one decimal, so that drawings differ
// only where they look different.
type canvas struct {
	strings.Builder
	t           *timeline
	left, width float64
}

// SVG draws the policy's timeline, self-contained, for light and dark pages,
// with a title and a description for those who listen.
func SVG(p policy.Policy, opts Options) string {
	t := build(&p)
	width := max(opts.Width, minWidth)
	if opts.Width == 0 {
		width = defaultWidth
	}
	id := opts.ID
	if id == "" {
		id = "ebb-" + p.Name
	}
	id = identifier(id)
	c := canvas{t: &t, left: margin + labelWidth}
	c.width = float64(width) - c.left - margin - delayWidth - atWidth - 24
	bottom := float64(headHeight + rowHeight*len(t.rows))
	height := bottom + 74
	fmt.Fprintf(&c, `<svg xmlns="http://www.w3.org/2000/svg" class="%[1]s" role="img" aria-labelledby="%[1]s-title %[1]s-desc" viewBox="0 0 %[2]d %[3]g" width="%[2]d" height="%[3]g">`+"\n",
		id, width, height)
	fmt.Fprintf(&c, "<title id=\"%s-title\">%s</title>\n", id, escape("Retry timeline of "+p.Name))
	fmt.Fprintf(&c, "<desc id=\"%s-desc\">%s</desc>\n", id, escape(t.description()))
	fmt.Fprintf(&c, "<style>"+style+"</style>\n", id)
	c.rect(0, 0, float64(width), height, 8, "paper")
	c.text(margin, 34, "start", "name", t.name)
	c.text(margin, 56, "start", "soft", t.summary)
	c.frame(float64(width), bottom)
	for i, r := range t.rows {
		c.row(r, float64(headHeight+i*rowHeight))
	}
	c.legend(bottom + 52)
	c.WriteString("</svg>\n")
	return c.String()
}

// frame draws what lies behind the rows: stripes, the outage, the grid.
func (c *canvas) frame(width, bottom float64) {
	for i := range c.t.rows {
		if i%2 == 0 {
			c.rect(margin-8, float64(headHeight+i*rowHeight), width-2*margin+16, rowHeight, 4, "stripe")
		}
	}
	outage := c.x(min(c.t.outage, c.t.end))
	c.rect(c.left, headHeight, outage-c.left, bottom-headHeight, 0, "out")
	for _, tick := range c.t.ticks(max(int(c.width)/64, 2)) {
		x := c.x(tick)
		fmt.Fprintf(c, "<path d=\"M%.1f %d V%.1f\" style=\"stroke:var(--grid)\"/>\n", x, headHeight, bottom+5)
		c.text(x, bottom+20, "middle", "soft", Short(tick))
	}
	c.outage(outage, bottom)
	right := c.left + c.width + 24
	c.text(right+delayWidth, headHeight-8, "end", "soft", "delay (with jitter)")
	c.text(right+delayWidth+atWidth, headHeight-8, "end", "soft", "at")
}

// outage marks the end of the outage to survive, or says that it lies beyond
// the edge.
func (c *canvas) outage(x, bottom float64) {
	text := "outage to survive: " + Short(c.t.outage)
	switch {
	case c.t.outage == 0:
		return
	case c.t.outage > c.t.end:
		c.text(x-6, headHeight-8, "end", "edge", text+", beyond this drawing →")
		return
	}
	fmt.Fprintf(c, "<path d=\"M%.1f %d V%.1f\" style=\"stroke:var(--edge);stroke-dasharray:4 3\"/>\n", x, headHeight-2, bottom)
	anchor, at := "end", x-6
	if x-c.left < 150 {
		anchor, at = "start", x+6
	}
	c.text(at, headHeight-8, anchor, "edge", text)
}

func (c *canvas) row(r row, y float64) {
	middle := y + rowHeight/2
	base := middle + 4.5
	right := c.left + c.width + 24
	if r.kind == omittedRow {
		c.text(margin, base, "start", "soft", "⋮")
		c.text(c.left+c.width/2, base, "middle", "soft", r.delayText())
		return
	}
	label := ""
	if r.kind == cooldownRow {
		label = "soft"
	}
	c.text(margin, base, "start", label, r.label)
	c.text(right+delayWidth, base, "end", "soft", r.delayText())
	c.text(right+delayWidth+atWidth, base, "end", label, Short(r.own.Nominal))
	from, at := c.x(r.from), c.x(r.own.Nominal)
	if r.kind == cooldownRow {
		c.rect(from, middle-3, at-from, 6, 3, "cool")
		return
	}
	if !r.first {
		fmt.Fprintf(c, "<path d=\"M%.1f %.1f H%.1f\" style=\"stroke:var(--wait);stroke-width:2\"/>\n", from, middle, at)
	}
	c.band(r.all, middle, barHeight, "all")
	c.band(r.own, middle, barHeight, "own")
	fmt.Fprintf(c, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4.5\" style=\"fill:var(--try);stroke:var(--paper);stroke-width:1.5\"/>\n", at, middle)
}

func (c *canvas) band(b policy.Band, middle, height float64, colour string) {
	if b.Least < b.Most {
		from, to := c.x(b.Least), c.x(b.Most)
		c.rect(from, middle-height/2, max(to-from, 1), height, 3, colour)
	}
}

func (c *canvas) legend(y float64) {
	x := float64(margin)
	item := func(draw func(x float64), text string) {
		draw(x)
		c.text(x+26, y+4.5, "start", "soft", text)
		x += 26 + 6.3*float64(len([]rune(text))) + 20
	}
	item(func(x float64) {
		fmt.Fprintf(c, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4.5\" style=\"fill:var(--try)\"/>\n", x+9, y)
	}, "try, as written")
	swatch := func(colour string) func(float64) {
		return func(x float64) { c.rect(x, y-barHeight/2, 18, barHeight, 3, colour) }
	}
	random, waves := false, false
	for _, r := range c.t.rows {
		random = random || r.own.Least < r.own.Most
		waves = waves || r.kind == cooldownRow
	}
	if random {
		item(swatch("own"), "jitter of its delay")
		item(swatch("all"), "of all delays so far")
	}
	if waves {
		item(func(x float64) { c.rect(x, y-3, 18, 6, 3, "cool") }, "cooldown before a wave")
	}
	if c.t.log {
		item(func(float64) {}, "logarithmic time")
	}
}

// description tells the timeline in words.
func (t *timeline) description() string {
	parts := []string{t.summary}
	for _, r := range t.rows {
		switch {
		case r.kind == omittedRow:
			parts = append(parts, r.delayText())
		case r.kind == cooldownRow:
			parts = append(parts, "cooldown of "+r.delayText())
		case r.first:
			parts = append(parts, fmt.Sprintf("%s at %s", r.label, Short(r.own.Nominal)))
		default:
			parts = append(parts, fmt.Sprintf("%s after %s at %s", r.label, r.delayText(), Short(r.own.Nominal)))
		}
	}
	if t.outage > 0 {
		parts = append(parts, "outage to survive "+Short(t.outage))
	}
	return strings.Join(parts, "; ") + "."
}

func (c *canvas) x(d time.Duration) float64 { return c.left + c.t.position(d)*c.width }

func (c *canvas) rect(x, y, w, h, r float64, colour string) {
	fmt.Fprintf(c, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"%g\" style=\"fill:var(--%s)\"/>\n", x, y, w, h, r, colour)
}

func (c *canvas) text(x, y float64, anchor, class, text string) {
	if text == "" {
		return
	}
	if class != "" {
		class = fmt.Sprintf(" class=%q", class)
	}
	fmt.Fprintf(c, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\"%s>%s</text>\n", x, y, anchor, class, escape(text))
}

func escape(text string) string {
	var b strings.Builder
	if err := xml.EscapeText(&b, []byte(text)); err != nil {
		panic(err) // a strings.Builder does not fail
	}
	return b.String()
}

// identifier keeps what is safe in a class name and an id.
func identifier(text string) string {
	safe := strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '-'
	}, text)
	if safe[0] == '-' || safe[0] >= '0' && safe[0] <= '9' {
		return "p" + safe
	}
	return safe
}
