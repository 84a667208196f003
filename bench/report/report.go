// Package report says what a benchmark measured: tables for people, one line
// a target for programs, and the section of docs/benchmarks.md that holds the
// last result.
package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Median returns the middle value, the mean of the two middle ones of an even
// number, and 0 of none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(values))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

// Quantile returns the least value that at least the share q of all do not
// exceed; 0 of none.
func Quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(values))
	i := int(q*float64(len(s))+0.999999) - 1
	return s[min(max(i, 0), len(s)-1)]
}

// Table is rows of text under a header; the first column is the row's name.
type Table struct {
	Head []string
	Rows [][]string
}

// Add appends a row.
func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, cells) }

// String is the table in Markdown, its columns aligned.
func (t *Table) String() string {
	width := make([]int, len(t.Head))
	for _, row := range append([][]string{t.Head}, t.Rows...) {
		for i, cell := range row {
			width[i] = max(width[i], len([]rune(cell)))
		}
	}
	var b strings.Builder
	line := func(row []string) {
		b.WriteString("|")
		for i, cell := range row {
			pad := strings.Repeat(" ", width[i]-len([]rune(cell)))
			if i == 0 {
				b.WriteString(" " + cell + pad + " |")
			} else {
				b.WriteString(" " + pad + cell + " |")
			}
		}
		b.WriteString("\n")
	}
	line(t.Head)
	b.WriteString("|")
	for i, w := range width {
		if i == 0 {
			b.WriteString(strings.Repeat("-", w+2) + "|")
		} else {
			b.WriteString(strings.Repeat("-", w+1) + ":|")
		}
	}
	b.WriteString("\n")
	for _, row := range t.Rows {
		line(row)
	}
	return b.String()
}

// Targets gathers verdicts.
type Targets struct {
	lines []string
	short int
}

// AtMost is met by a measured value of no more than want.
func (t *Targets) AtMost(name string, measured, want float64, unit string) {
	t.verdict(name, measured <= want, Number(measured)+unit, "<= "+Number(want)+unit)
}

// AtLeast is met by a measured value of want or more.
func (t *Targets) AtLeast(name string, measured, want float64, unit string) {
	t.verdict(name, measured >= want, Number(measured)+unit, ">= "+Number(want)+unit)
}

// Below is met by a measured value of less than want.
func (t *Targets) Below(name string, measured, want float64, unit string) {
	t.verdict(name, measured < want, Number(measured)+unit, "< "+Number(want)+unit)
}

func (t *Targets) verdict(name string, ok bool, measured, want string) {
	word := "met"
	if !ok {
		word = "short"
		t.short++
	}
	t.lines = append(t.lines, fmt.Sprintf("target %s measured %s wanted %s %s", name, measured, want, word))
}

// Missing is a target of which nothing was measured: short.
func (t *Targets) Missing(name, why string) {
	t.short++
	t.lines = append(t.lines, fmt.Sprintf("target %s measured nothing (%s) wanted a measurement short", name, why))
}

// Note adds a line that is no target.
func (t *Targets) Note(format string, args ...any) {
	t.lines = append(t.lines, "note "+fmt.Sprintf(format, args...))
}

// Short returns how many targets were not met.
func (t *Targets) Short() int { return t.short }

// String is one line a target, in the order they were judged.
func (t *Targets) String() string { return strings.Join(t.lines, "\n") + "\n" }

// WriteTo prints the lines.
func (t *Targets) WriteTo(w io.Writer) (int64, error) {
	n, err := io.WriteString(w, t.String())
	return int64(n), err
}

// Number writes a value as people read it: three significant digits below
// 1,000, whole with thousands apart above.
func Number(v float64) string {
	if v < 0 {
		return "-" + Number(-v)
	}
	switch {
	case v == 0:
		return "0"
	case v < 999.5:
		digits := 2
		for limit := 9.995; v >= limit && digits > 0; limit *= 10 {
			digits--
		}
		s := fmt.Sprintf("%.*f", digits, v)
		if strings.Contains(s, ".") {
			s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
		}
		return s
	}
	s := fmt.Sprintf("%.0f", v)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Mean returns the arithmetic mean; 0 of none.
func Mean(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	var sum float64
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}
