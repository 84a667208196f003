package report

import (
	"strings"
	"testing"
)

func TestMedianAndQuantile(t *testing.T) {
	cases := []struct {
		values        []float64
		median, q, at float64
	}{
		{nil, 0, 0.99, 0},
		{[]float64{3}, 3, 0.5, 3},
		{[]float64{5, 1, 3}, 3, 0.5, 3},
		{[]float64{4, 1, 2, 3}, 2.5, 0.5, 2},
		{[]float64{10, 9, 8, 7, 6, 5, 4, 3, 2, 1}, 5.5, 0.99, 10},
		{[]float64{10, 9, 8, 7, 6, 5, 4, 3, 2, 1}, 5.5, 0.9, 9},
	}
	for _, c := range cases {
		if got := Median(c.values); got != c.median {
			t.Errorf("Median(%v) = %g, want %g", c.values, got, c.median)
		}
		if got := Quantile(c.values, c.q); got != c.at {
			t.Errorf("Quantile(%v, %g) = %g, want %g", c.values, c.q, got, c.at)
		}
	}
}

func TestNumber(t *testing.T) {
	cases := map[float64]string{
		0: "0", 0.0312: "0.03", 1: "1", 2.5: "2.5", 2.494: "2.49", 9.996: "10", 12.34: "12.3", 99.96: "100",
		101: "101", 999.4: "999", 999.6: "1,000", 1000: "1,000", 69700.2: "69,700", 1234567: "1,234,567", -3.25: "-3.25",
	}
	for v, want := range cases {
		if got := Number(v); got != want {
			t.Errorf("Number(%g) = %q, want %q", v, got, want)
		}
	}
}

func TestTargetLines(t *testing.T) {
	var got Targets
	got.AtMost("a", 40, 40, " ns")
	got.AtLeast("b", 2.4, 2.5, "x")
	got.Below("c", 5, 5, "")
	got.Missing("d", "no peer ran")
	got.Note("e is %d", 3)
	want := strings.Join([]string{
		"target a measured 40 ns wanted <= 40 ns met",
		"target b measured 2.4x wanted >= 2.5x short",
		"target c measured 5 wanted < 5 short",
		"target d measured nothing (no peer ran) wanted a measurement short",
		"note e is 3",
	}, "\n") + "\n"
	if got.String() != want {
		t.Errorf("lines\n%s, want\n%s", got.String(), want)
	}
	if got.Short() != 3 {
		t.Errorf("short = %d, want 3", got.Short())
	}
}

func TestTable(t *testing.T) {
	table := Table{Head: []string{"system", "jobs/s"}}
	table.Add("Ebb", "1")
	table.Add("lean B", "20,000")
	want := "| system | jobs/s |\n|--------|-------:|\n| Ebb    |      1 |\n| lean B | 20,000 |\n"
	if table.String() != want {
		t.Errorf("table\n%s, want\n%s", table.String(), want)
	}
}

func TestSection(t *testing.T) {
	const file = "intro\n<!-- bench:a -->\nold\n<!-- /bench:a -->\nrest <!-- bench:b --><!-- /bench:b -->\n"
	got, err := replaceSection(file, "a", "new\n")
	want := "intro\n<!-- bench:a -->\n\nnew\n\n<!-- /bench:a -->\nrest <!-- bench:b --><!-- /bench:b -->\n"
	if err != nil || got != want {
		t.Errorf("section: %q, %v; want %q", got, err, want)
	}
	if _, err := replaceSection(file, "c", "new"); err == nil {
		t.Error("a section that is not there was replaced")
	}
}
