package main

import (
	"testing"

	"github.com/ebbhq/ebb/bench/report"
)

func TestJudge(t *testing.T) {
	least := part{what: "w", target: "a", least: 0.9}
	most := part{what: "w", target: "b", most: 1.5}
	cases := []struct {
		part       part
		base, with []float64
		want       string
	}{
		{least, []float64{100, 50, 200}, []float64{80, 45, 190}, "target flow.a.sqlite measured 0.9x wanted >= 0.9x met\n"},
		{least, []float64{100}, []float64{89}, "target flow.a.sqlite measured 0.89x wanted >= 0.9x short\n"},
		{most, []float64{2}, []float64{3}, "target flow.b.sqlite measured 1.5x wanted <= 1.5x met\n"},
		{most, []float64{2}, []float64{3.2}, "target flow.b.sqlite measured 1.6x wanted <= 1.5x short\n"},
		{part{what: "w"}, []float64{2}, []float64{1}, "note flow: w, SQLite: 0.5x\n"},
	}
	for _, c := range cases {
		var got report.Targets
		(&result{database: "SQLite", part: c.part, base: c.base, with: c.with}).judge(&got)
		if got.String() != c.want {
			t.Errorf("%v over %v: %q, want %q", c.with, c.base, got.String(), c.want)
		}
	}
}
