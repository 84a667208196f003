package report

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// table is rows of cells under a head. Columns of numbers stand at the right.
type table struct {
	name    string
	head    []string
	numeric []bool
	rows    [][]string
	note    string
}

func (r *Report) account() table {
	t := table{name: "Account", head: []string{"outcome", "URLs", "share", ""}, numeric: []bool{false, true, true, false}}
	for _, o := range Outcomes {
		share := ""
		if r.Input > 0 {
			share = percent(float64(r.Counts[o]) / float64(r.Input))
		}
		t.rows = append(t.rows, []string{string(o), number(r.Counts[o]), share, meaning[o]})
	}
	t.rows = append(t.rows, []string{"input", number(r.Input), "", "all of the above, no URL twice"})
	return t
}

func (r *Report) reasons() table {
	t := table{name: "Reasons", head: []string{"outcome", "class", "reason", "URLs", "such as"}, numeric: []bool{false, false, false, true, false}}
	for _, x := range r.Reasons {
		t.rows = append(t.rows, []string{string(x.Outcome), x.Class, x.Reason, number(x.Count), x.Example})
	}
	return t
}

func (r *Report) waves() table {
	t := table{
		name: "Waves", head: []string{"wave", "planned", "tried", "recovered", "cooldown", "at once", "apart", "started", "took"},
		numeric: []bool{false, true, true, true, true, true, true, false, true},
	}
	for _, w := range r.Waves {
		name, took, cooldown := strconv.Itoa(w.Number), "", span(w.Cooldown)
		if w.Number == 0 {
			name, cooldown = "first pass", ""
		}
		if !w.EndedAt.IsZero() && !w.StartedAt.IsZero() {
			took = span(w.EndedAt.Sub(w.StartedAt))
		}
		t.rows = append(t.rows, []string{name, number(w.Planned), number(w.Tried), number(w.Recovered), cooldown, number(int64(w.Concurrency)), span(w.Spacing), instant(w.StartedAt), took})
	}
	if r.Stopped != "" {
		t.note = "No further wave: " + r.Stopped + "."
	}
	return t
}

// failures is the table of those shown, with the context columns last.
func (r *Report) failures(first []Failure, total int64) table {
	t := table{
		name:    "Not here",
		head:    append([]string{"URL", "outcome", "class", "reason", "status", "starts", "wave"}, r.columns()...),
		numeric: make([]bool, 7+len(r.Columns)),
	}
	t.numeric[4], t.numeric[5], t.numeric[6] = true, true, true
	for i := range first {
		f := &first[i]
		status := ""
		if f.Status != 0 {
			status = strconv.Itoa(f.Status)
		}
		row := []string{f.URL, string(f.Outcome), f.Class, f.Reason, status, strconv.Itoa(f.Starts), strconv.Itoa(f.Wave)}
		t.rows = append(t.rows, append(row, r.context(f)...))
	}
	if more := total - int64(len(first)); more > 0 {
		t.note = "And " + number(more) + " more"
		if r.Manifest != "" {
			t.note += ": all of them are in " + r.Manifest
		}
		t.note += "."
	}
	return t
}

// text writes the table with columns that line up. Empty columns are left out.
func (t *table) text(b *strings.Builder) {
	t = t.lean()
	widths := make([]int, len(t.head))
	all := append([][]string{t.head}, t.rows...)
	for _, row := range all {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(oneLine(cell)))
		}
	}
	for _, row := range all {
		var line strings.Builder
		for i, cell := range row {
			if i > 0 {
				line.WriteString("  ")
			}
			cell = oneLine(cell)
			fill := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if t.numeric[i] {
				line.WriteString(fill + cell)
			} else {
				line.WriteString(cell + fill)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	if t.note != "" {
		b.WriteString(t.note + "\n")
	}
}

// lean is the table without columns that hold nothing.
func (t *table) lean() *table {
	out := &table{name: t.name, note: t.note, rows: make([][]string, len(t.rows))}
	for i := range t.head {
		used := len(t.rows) == 0
		for _, row := range t.rows {
			used = used || row[i] != ""
		}
		if !used {
			continue
		}
		out.head, out.numeric = append(out.head, t.head[i]), append(out.numeric, t.numeric[i])
		for j, row := range t.rows {
			out.rows[j] = append(out.rows[j], row[i])
		}
	}
	return out
}

// oneLine keeps a cell on its line, and control characters off a terminal.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case r < ' ' || r >= 0x7f && r < 0xa0:
			return -1
		}
		return r
	}, s)
}
