package main

import (
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	slow := func(rates ...float64) pairs { return pairs{rates, []float64{10, 10, 10}} }
	b := &bench{
		plan: quick, order: []string{"SQLite", "PostgreSQL"},
		found: map[string]*result{
			"SQLite": {
				drains: pairs{[]float64{110, 90, 100}, []float64{200, 300, 200}}, // 0.55, 0.3, 0.5
				slow:   slow(9, 8, 10), ages: [][]float64{{1, 2, 3, 4}, {2, 3, 4, 60}, {1, 1, 1, 5}},
			},
			"PostgreSQL": {
				drains: pairs{[]float64{98, 98, 98}, []float64{200, 100, 300}},
				slow:   slow(4, 4, 4), ages: [][]float64{{70, 70}, {70, 70}, {70, 70}},
			},
		},
	}
	text, targets := b.report()
	for _, want := range []string{
		"target webhook.deliver.sqlite measured 0.5x wanted >= 0.5x met",
		"target webhook.enqueue_to_delivered_p95_at_200.sqlite measured 5ms wanted < 50ms met",
		"target webhook.deliver_to_slow_endpoints.sqlite measured 0.9x wanted >= 0.5x met",
		"target webhook.deliver_to_slow_endpoints.postgresql measured 0.4x wanted >= 0.5x short",
		"target webhook.deliver.postgresql measured 0.49x wanted >= 0.5x short",
		"target webhook.enqueue_to_delivered_p95_at_200.postgresql measured 70ms wanted < 50ms short",
	} {
		if !strings.Contains(targets.String(), want+"\n") {
			t.Errorf("no line %q in\n%s", want, targets)
		}
	}
	if targets.Short() != 3 || !strings.Contains(text, "| the bare Go client loop |") {
		t.Errorf("%d short in\n%s", targets.Short(), text)
	}
}
