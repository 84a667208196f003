package report

import (
	_ "embed"
	"html/template"
	"io"
	"strings"
)

var (
	//go:embed page.css
	pageCSS string
	//go:embed page.html
	pageHTML string
)

var page = template.Must(template.New("page").Parse(pageHTML))

// segment is one outcome's part of the bar.
type segment struct {
	Outcome Outcome
	Count   string
	Share   string
	Width   float64 // percent
}

// view is what the page shows.
type view struct {
	CSS               template.CSS
	Name, State, Head string
	Facts             []viewFact
	Bar               []segment
	Level             Level
	Compare           string
	Tables            []viewTable
}

type viewFact struct{ Name, Value string }

type viewTable struct {
	Name, Note string
	Kind       string
	Head       []viewCell
	Rows       [][]viewCell
}

type viewCell struct {
	Text    string
	Numeric bool
	URL     bool // it leads there
	Outcome Outcome
}

// HTML writes the report as one page: no script, nothing that is loaded from
// elsewhere, in light and dark.
func (r *Report) HTML(w io.Writer) error {
	tables, err := r.tables(maxPage)
	if err != nil {
		return err
	}
	v := view{CSS: template.CSS(pageCSS), Name: r.Name, State: r.State()}
	_, v.Head, _ = strings.Cut(r.Headline(), ": ")
	for _, f := range r.facts() {
		if f.name != "before" {
			v.Facts = append(v.Facts, viewFact{f.name, f.value})
		}
	}
	if r.Comparison != nil {
		v.Level, v.Compare = r.Comparison.Level, r.Comparison.String()
	}
	v.Bar = r.bar()
	for i := range tables {
		v.Tables = append(v.Tables, tables[i].lean().view())
	}
	return page.Execute(w, v)
}

// bar divides the whole by outcome; what there is of is never too thin to see.
func (r *Report) bar() []segment {
	const thinnest = 0.8
	var bar []segment
	sum := 0.0
	for _, o := range Outcomes {
		if r.Counts[o] <= 0 || r.Input <= 0 {
			continue
		}
		share := float64(r.Counts[o]) / float64(r.Input)
		s := segment{o, number(r.Counts[o]), percent(share), max(100*share, thinnest)}
		sum += s.Width
		bar = append(bar, s)
	}
	for i := range bar {
		bar[i].Width = bar[i].Width / sum * 100
	}
	return bar
}

func (t *table) view() viewTable {
	v := viewTable{Name: t.name, Note: t.note, Kind: strings.ReplaceAll(strings.ToLower(t.name), " ", "-")}
	for i, h := range t.head {
		v.Head = append(v.Head, viewCell{Text: h, Numeric: t.numeric[i]})
	}
	for _, row := range t.rows {
		cells := make([]viewCell, len(row))
		for i, text := range row {
			cells[i] = viewCell{Text: text, Numeric: t.numeric[i]}
			switch t.head[i] {
			case "URL", "such as":
				cells[i].URL = strings.HasPrefix(text, "http://") || strings.HasPrefix(text, "https://")
			case "outcome":
				cells[i].Outcome = Outcome(text)
			}
		}
		v.Rows = append(v.Rows, cells)
	}
	return v
}
