package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxTargets is how many rows of downstreams the terminal shows.
const maxTargets = 12

// Text tells the report in a terminal of that many columns.
func (r *Report) Text(width int) string {
	var b strings.Builder
	b.WriteString(r.Name)
	if r.About != "" {
		b.WriteString(": " + r.About)
	}
	fmt.Fprintf(&b, "\n%s\n\n", r.how())
	r.abouts(&b)
	totals := r.totals()
	b.WriteString(totals.text(width))
	if targets := r.targets(); len(targets.rows) <= maxTargets {
		b.WriteString("\n" + targets.text(width))
	}
	b.WriteString("\n" + r.sparks(width) + "\n")
	for i := range r.Cases {
		c := &r.Cases[i]
		if len(r.Cases) > 1 {
			fmt.Fprintf(&b, "%s: ", c.Name)
		}
		b.WriteString(c.Sentence() + ".\n")
	}
	if v := r.Verdict(); v != "" {
		fmt.Fprintf(&b, "\n%s.\n", v)
	}
	return b.String()
}

// abouts says what each case is.
func (r *Report) abouts(b *strings.Builder) {
	names, told := 0, false
	for i := range r.Cases {
		names = max(names, utf8.RuneCountInString(r.Cases[i].Name))
		told = told || r.Cases[i].About != ""
	}
	if !told {
		return
	}
	for i := range r.Cases {
		b.WriteString(strings.TrimRight(pad(r.Cases[i].Name, names)+"  "+r.Cases[i].About, " ") + "\n")
	}
	b.WriteByte('\n')
}

// how says how it was run.
func (r *Report) how() string {
	first := r.Cases[0].Result
	seeds := fmt.Sprintf("seed %d", first.Runs[0].Seed)
	if n := len(first.Runs); n > 1 {
		seeds = fmt.Sprintf("%d seeds from %d, means with 95 %% confidence", n, first.Runs[0].Seed)
	}
	var events, end float64
	for i := range r.Cases {
		for j := range r.Cases[i].Result.Runs {
			run := &r.Cases[i].Result.Runs[j]
			events += float64(run.Events)
			end = max(end, run.EndedAt)
		}
	}
	return fmt.Sprintf("%s · %s of virtual time · %s events", seeds, seconds(end), whole(events))
}

// text writes a table with its columns aligned; columns that do not fit stand
// below each other.
func (t table) text(width int) string {
	lead := 0
	for _, r := range t.rows {
		lead = max(lead, utf8.RuneCountInString(r.name))
	}
	widths := make([]int, len(t.heads))
	for i, h := range t.heads {
		widths[i] = utf8.RuneCountInString(h)
		for _, r := range t.rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(r.cells[i]))
		}
	}
	var b strings.Builder
	for from := 0; from < len(t.heads); {
		to, used := from, lead
		for to < len(t.heads) && (to == from || used+2+widths[to] <= width) {
			used += 2 + widths[to]
			to++
		}
		if from > 0 {
			b.WriteByte('\n')
		}
		t.part(&b, lead, widths, from, to)
		from = to
	}
	return b.String()
}

func (t table) part(b *strings.Builder, lead int, widths []int, from, to int) {
	line := func(name string, cells []string) {
		b.WriteString(name + strings.Repeat(" ", lead-utf8.RuneCountInString(name)))
		for i := from; i < to; i++ {
			b.WriteString(strings.Repeat(" ", 2+widths[i]-utf8.RuneCountInString(cells[i])) + cells[i])
		}
		b.WriteByte('\n')
	}
	line("", t.heads)
	for _, r := range t.rows {
		line(r.name, r.cells)
	}
}

var levels = []rune(" ▁▂▃▄▅▆▇█")

// sparks draws the series as lines of blocks, one scale for all cases.
func (r *Report) sparks(width int) string {
	cases := r.charted()
	all := make([]series, len(cases))
	end, names := 0.0, 0
	for i, c := range cases {
		all[i] = c.series()
		end = max(end, all[i].width*float64(len(all[i].calls)))
		names = max(names, utf8.RuneCountInString(c.Name))
	}
	const label = 14
	columns := min(max(width-label-names-16, 10), 80)
	var b strings.Builder
	for _, row := range []struct {
		name  string
		of    func(*series) []float64
		words func(float64) string
	}{
		{"calls", func(s *series) []float64 { return s.calls }, rate},
		{"queue", func(s *series) []float64 { return s.depth }, whole},
		{"goodput", func(s *series) []float64 { return s.goodput }, rate},
		{"dead letters", func(s *series) []float64 { return s.dead }, rate},
	} {
		drawn := make([][]float64, len(cases))
		top := 0.0
		for i := range cases {
			drawn[i] = resample(row.of(&all[i]), all[i].width, end, columns)
			top = max(top, slices.Max(drawn[i]))
		}
		for i, c := range cases {
			name := row.name
			if i > 0 {
				name = ""
			}
			fmt.Fprintf(&b, "%-*s%-*s ▕%s▏ max %s\n", label, name, names, pad(c.Name, names), blocks(drawn[i], top), row.words(slices.Max(drawn[i])))
		}
	}
	b.WriteString(strings.Repeat(" ", label+names+2) + r.ruler(cases[0], end, columns) + "\n")
	return b.String()
}

func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(width-utf8.RuneCountInString(text), 0))
}

// ruler marks the disturbances below the blocks, and how long it all is.
func (r *Report) ruler(c *Case, end float64, columns int) string {
	marks := []rune(strings.Repeat("─", columns))
	for _, band := range c.bands() {
		from := int(band.from / end * float64(columns))
		until := int(math.Ceil(min(band.until, end) / end * float64(columns)))
		for i := max(from, 0); i < min(until, columns); i++ {
			marks[i] = '▒'
		}
	}
	text := string(marks) + "  " + seconds(end)
	if bands := c.bands(); len(bands) > 0 {
		text += ", ▒ " + bands[0].name
	}
	return text
}

func blocks(values []float64, top float64) string {
	var b strings.Builder
	for _, v := range values {
		level := 0
		if top > 0 && v > 0 {
			level = max(1, int(math.Round(v/top*float64(len(levels)-1))))
		}
		b.WriteRune(levels[level])
	}
	return b.String()
}

// resample draws buckets of a width onto that many columns over the time until
// end; where several buckets share a column the greatest counts.
func resample(values []float64, width, end float64, columns int) []float64 {
	out := make([]float64, columns)
	if end <= 0 {
		return out
	}
	for i := range out {
		from := int(float64(i) / float64(columns) * end / width)
		to := max(int(float64(i+1)/float64(columns)*end/width), from+1)
		for j := from; j < min(to, len(values)); j++ {
			out[i] = max(out[i], values[j])
		}
	}
	return out
}
