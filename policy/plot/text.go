package plot

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/ebbhq/ebb/policy"
)

// Marks of the text plot, weakest first: a cell shows the strongest.
const (
	markBlank  = ' '
	markOutage = '┊'
	markWait   = '─'
	markAll    = '░'
	markOwn    = '▒'
	markTry    = '●'
)

// minCanvas is the least width of the part that is drawn; a terminal too
// narrow for it gets longer lines.
const minCanvas = 20

// Text draws the policy's timeline for a terminal of that many columns.
func Text(p policy.Policy, width int) string {
	t := build(&p)
	labels, values := 0, 0
	for _, r := range t.rows {
		labels = max(labels, utf8.RuneCountInString(r.label))
		values = max(values, utf8.RuneCountInString(r.valueText()))
	}
	canvas := max(width-labels-values-4, minCanvas)
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n\n", t.name, t.summary)
	for _, r := range t.rows {
		line := fmt.Sprintf("%-*s  %s  %s", labels, r.label, t.draw(r, canvas), r.valueText())
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	fmt.Fprintf(&b, "%s%s\n\n", strings.Repeat(" ", labels+2), t.axis(canvas))
	b.WriteString(t.legend() + "\n")
	return b.String()
}

func (r row) valueText() string {
	switch {
	case r.kind == omittedRow:
		return r.delayText()
	case r.first:
		return "at " + Short(r.own.Nominal)
	case r.kind == cooldownRow:
		return r.delayText()
	}
	return fmt.Sprintf("+%s, at %s", r.delayText(), Short(r.own.Nominal))
}

// draw returns the row's canvas, exactly that wide.
func (t *timeline) draw(r row, canvas int) string {
	cells := []rune(strings.Repeat(string(markBlank), canvas))
	column := func(x float64) int { return min(int(x*float64(canvas-1)+0.5), canvas-1) }
	fill := func(from, to int, mark rune) {
		for i := max(from, 0); i <= min(to, canvas-1); i++ {
			cells[i] = mark
		}
	}
	if t.outage > 0 && t.outage <= t.end {
		at := column(t.position(t.outage))
		fill(at, at, markOutage)
	}
	own := column(t.position(r.own.Nominal))
	switch r.kind {
	case omittedRow:
		return string(cells)
	case cooldownRow:
		fill(column(t.position(r.from))+1, own-1, '·')
		return string(cells)
	}
	if !r.first {
		fill(column(t.position(r.from)), own, markWait)
	}
	if r.all.Least < r.all.Most {
		fill(column(t.position(r.all.Least)), column(t.position(r.all.Most)), markAll)
	}
	if r.own.Least < r.own.Most {
		fill(column(t.position(r.own.Least)), column(t.position(r.own.Most)), markOwn)
	}
	fill(own, own, markTry)
	return string(cells)
}

// axis writes the ticks' times under their columns, leaving out what would
// touch its neighbour.
func (t *timeline) axis(canvas int) string {
	cells := []rune(strings.Repeat(" ", canvas+12))
	free := 0
	for _, tick := range t.ticks(max(canvas/9, 2)) {
		text := []rune(Short(tick))
		at := int(t.position(tick)*float64(canvas-1) + 0.5)
		if at < free {
			continue
		}
		copy(cells[at:], text)
		free = at + len(text) + 2
	}
	return strings.TrimRight(string(cells), " ")
}

func (t *timeline) legend() string {
	parts := []string{fmt.Sprintf("%c try, as written", markTry)}
	has := func(random func(row) bool) bool {
		for _, r := range t.rows {
			if random(r) {
				return true
			}
		}
		return false
	}
	if has(func(r row) bool { return r.own.Least < r.own.Most }) {
		parts = append(parts, fmt.Sprintf("%c jitter of its delay", markOwn), fmt.Sprintf("%c of all delays so far", markAll))
	}
	if has(func(r row) bool { return r.kind == cooldownRow }) {
		parts = append(parts, "· cooldown")
	}
	if t.outage > t.end {
		parts = append(parts, fmt.Sprintf("beyond the edge: the end of an outage of %s", Short(t.outage)))
	} else if t.outage > 0 {
		parts = append(parts, fmt.Sprintf("%c end of an outage of %s", markOutage, Short(t.outage)))
	}
	if t.log {
		parts = append(parts, "logarithmic time")
	}
	return strings.Join(parts, "   ")
}
