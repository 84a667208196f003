package report

import (
	_ "embed"
	"fmt"
	"strings"
)

var (
	//go:embed page.css
	pageCSS string
	//go:embed chart.css
	chartCSS string
)

// CSS is the style of what Body writes. It takes its colours from variables
// (--ink, --c0 and so on) that the page around it sets.
func CSS() string { return chartCSS }

// Widths of the drawings, in pixels: one for a column of a desk's screen, one
// for a phone. The page shows the one that fits.
const (
	wideChart   = 580
	narrowChart = 340
)

// HTML is the report as one page: no script, nothing that is loaded from
// elsewhere, in light and dark.
func (r *Report) HTML() string {
	var b strings.Builder
	b.WriteString("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n")
	b.WriteString("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n")
	fmt.Fprintf(&b, "<title>%s · ebb simulate</title>\n<style>\n%s%s</style>\n</head>\n<body>\n<main>\n", escape(r.Name), pageCSS, chartCSS)
	r.header(&b)
	r.body(&b)
	b.WriteString("</main>\n</body>\n</html>\n")
	return b.String()
}

// Body is the tables, charts and notes of the report, for a page that has a
// head of its own. Every name in it is escaped; it has no script and no style.
func (r *Report) Body() string {
	var b strings.Builder
	r.body(&b)
	return b.String()
}

func (r *Report) body(b *strings.Builder) {
	b.WriteString("<section>\n<h2>Totals</h2>\n")
	totals := r.totals()
	totals.html(b, "")
	b.WriteString("</section>\n<section class=\"figures\">\n")
	for _, f := range r.figures() {
		f.html(b)
	}
	b.WriteString("</section>\n<section>\n<h2>Downstreams</h2>\n")
	targets := r.targets()
	targets.html(b, "Requests; how they were answered; how many callers gave up before, and how many of those were served for nobody; requests for each job.")
	b.WriteString("</section>\n")
	r.footer(b)
}

func (r *Report) header(b *strings.Builder) {
	fmt.Fprintf(b, "<header>\n<p class=\"kicker\">ebb simulate</p>\n<h1>%s</h1>\n", escape(r.Name))
	if r.About != "" {
		fmt.Fprintf(b, "<p class=\"about\">%s</p>\n", escape(capital(r.About)))
	}
	if v := r.Verdict(); v != "" {
		fmt.Fprintf(b, "<p class=\"verdict\">%s.</p>\n", escape(capital(v)))
	}
	colours := map[string]string{}
	for i, c := range r.charted() {
		colours[c.Name] = colour(i)
	}
	b.WriteString("<ul class=\"cases\">\n")
	for i := range r.Cases {
		c := &r.Cases[i]
		class := colours[c.Name]
		if class == "" {
			class = "none"
		}
		about := ""
		if c.About != "" {
			about = fmt.Sprintf(" <span class=\"soft\">(%s)</span>", escape(c.About))
		}
		fmt.Fprintf(b, "<li><i class=%q></i><div><b>%s</b>%s<br>%s.</div></li>\n", class, escape(c.Name), about, escape(capital(c.Sentence())))
	}
	fmt.Fprintf(b, "</ul>\n<p class=\"soft\">%s</p>\n</header>\n", escape(capital(r.how())))
}

func (r *Report) footer(b *strings.Builder) {
	b.WriteString("<footer>\n<h2>Policies</h2>\n<ul>\n")
	for i := range r.Cases {
		c := &r.Cases[i]
		for j := range c.Scenario.Callers {
			caller := &c.Scenario.Callers[j]
			fmt.Fprintf(b, "<li>%s: %s calls under <b>%s</b>, version <code>%s</code></li>\n",
				escape(c.Name), escape(caller.Name), escape(caller.Policy.Name), escape(caller.Policy.Version))
		}
	}
	b.WriteString("</ul>\n")
	if r.compared() && r.shares() != nil && len(r.Cases) > 2 {
		fmt.Fprintf(b, "<p class=\"soft\">The share of the step is how much of the change in dead letters from %s to %s a variant makes alone. Shares need not add up to 100 %%: changes work together, or against each other.</p>\n",
			escape(r.Cases[r.From].Name), escape(r.Cases[r.To].Name))
	}
	b.WriteString("<p class=\"soft\">Series are those of the first seed. Dead letters are jobs that ended without success, parked ones included.</p>\n</footer>\n")
}

func (t table) html(b *strings.Builder, caption string) {
	b.WriteString("<div class=\"scroll\" tabindex=\"0\"><table>\n")
	if caption != "" {
		fmt.Fprintf(b, "<caption>%s</caption>\n", escape(caption))
	}
	b.WriteString("<thead><tr><td></td>")
	for _, h := range t.heads {
		fmt.Fprintf(b, "<th scope=\"col\">%s</th>", escape(h))
	}
	b.WriteString("</tr></thead>\n<tbody>\n")
	for _, r := range t.rows {
		fmt.Fprintf(b, "<tr><th scope=\"row\">%s</th>", escape(r.name))
		for _, cell := range r.cells {
			fmt.Fprintf(b, "<td>%s</td>", escape(cell))
		}
		b.WriteString("</tr>\n")
	}
	b.WriteString("</tbody></table></div>\n")
}

func (f *figure) html(b *strings.Builder) {
	fmt.Fprintf(b, "<figure>\n<figcaption><b>%s</b> <span class=\"soft\">%s</span></figcaption>\n", escape(f.title), escape(f.unit))
	if len(f.legend) > 0 {
		b.WriteString("<ul class=\"legend\">")
		for _, l := range f.legend {
			class := l.class
			if l.dashed {
				class += " dashed"
			}
			fmt.Fprintf(b, "<li><i class=%q></i>%s</li>", class, escape(l.name))
		}
		b.WriteString("</ul>\n")
	}
	if f.draw != nil {
		b.WriteString(f.draw(wideChart, "wide"))
		b.WriteString(f.draw(narrowChart, "narrow"))
	}
	if f.note != "" {
		fmt.Fprintf(b, "<p class=\"soft\">%s</p>\n", escape(f.note))
	}
	b.WriteString("</figure>\n")
}

// capital begins a sentence.
func capital(text string) string {
	if text == "" || text[0] < 'a' || text[0] > 'z' {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
