package report

import (
	"io"
	"strings"
)

// How many failures a form shows; the manifest has all.
const (
	maxText = 20
	maxPage = 500
)

// tables are the parts of a report that hold anything.
func (r *Report) tables(limit int) ([]table, error) {
	first, total, err := r.shown(limit)
	if err != nil {
		return nil, err
	}
	all := []table{r.account(), r.reasons(), r.waves(), r.failures(first, total)}
	held := all[:0]
	for _, t := range all {
		if len(t.rows) > 0 {
			held = append(held, t)
		}
	}
	return held, nil
}

// Text writes the report for a terminal.
func (r *Report) Text(w io.Writer) error {
	tables, err := r.tables(maxText)
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString(oneLine(r.Name) + "\n" + r.Headline() + "\n\n")
	facts := table{head: []string{"", ""}, numeric: make([]bool, 2)}
	for _, f := range r.facts() {
		facts.rows = append(facts.rows, []string{f.name, f.value})
	}
	var lines strings.Builder
	facts.text(&lines)
	_, body, _ := strings.Cut(lines.String(), "\n")
	b.WriteString(body)
	for i := range tables {
		b.WriteString("\n" + tables[i].name + "\n")
		tables[i].text(&b)
	}
	_, err = io.WriteString(w, b.String())
	return err
}

// Markdown writes the report for a wiki, an issue or a pull request.
func (r *Report) Markdown(w io.Writer) error {
	tables, err := r.tables(maxPage)
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString("# " + markdown(r.Name) + "\n\n**" + markdown(r.Headline()) + "**\n\n")
	for _, f := range r.facts() {
		b.WriteString("- " + f.name + ": " + markdown(f.value) + "\n")
	}
	for i := range tables {
		t := tables[i].lean()
		b.WriteString("\n## " + t.name + "\n\n|")
		for _, h := range t.head {
			b.WriteString(" " + markdown(h) + " |")
		}
		b.WriteString("\n|")
		for _, numeric := range t.numeric {
			if numeric {
				b.WriteString("---:|")
			} else {
				b.WriteString("---|")
			}
		}
		b.WriteString("\n")
		for _, row := range t.rows {
			b.WriteString("|")
			for _, cell := range row {
				b.WriteString(" " + markdown(cell) + " |")
			}
			b.WriteString("\n")
		}
		if t.note != "" {
			b.WriteString("\n" + markdown(t.note) + "\n")
		}
	}
	_, err = io.WriteString(w, b.String())
	return err
}

// markdown makes a text stand for itself.
func markdown(s string) string {
	s = oneLine(s)
	return strings.NewReplacer(`\`, `\\`, "|", `\|`, "*", `\*`, "_", `\_`, "`", "\\`", "<", "&lt;", ">", "&gt;", "[", `\[`, "]", `\]`, "#", `\#`, "&", "&amp;").Replace(s)
}
