package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/ebbhq/ebb/bench/report"
)

// ratio is the median of with over base, round by round: within a round they
// follow each other, while the machine changes from round to round.
func (r *result) ratio() float64 {
	var ratios []float64
	for i, base := range r.base {
		if base > 0 {
			ratios = append(ratios, r.with[i]/base)
		}
	}
	return report.Median(ratios)
}

// cpu says what a job cost without and with.
func (r *result) cpu() string {
	base, with := report.Median(r.baseCPU), report.Median(r.withCPU)
	if base == 0 || with == 0 {
		return "–"
	}
	return report.Number(base) + " / " + report.Number(with)
}

// judge adds the verdict of a comparison.
func (r *result) judge(t *report.Targets) {
	name := "flow." + r.part.target + "." + strings.ToLower(r.database)
	switch {
	case r.part.target == "":
		t.Note("flow: %s, %s: %sx", r.part.what, r.database, report.Number(r.ratio()))
	case r.part.least > 0:
		t.AtLeast(name, r.ratio(), r.part.least, "x")
	default:
		t.AtMost(name, r.ratio(), r.part.most, "x")
	}
}

// report is the table and the verdicts.
func (b *bench) report() (string, *report.Targets) {
	table := report.Table{Head: []string{"what", "database", "without", "with", "unit", "ratio", "CPU a job, µs"}}
	var targets report.Targets
	for _, key := range b.order {
		r := b.results[key]
		table.Add(r.part.what, r.database, report.Number(report.Median(r.base)), report.Number(report.Median(r.with)), r.part.unit,
			report.Number(r.ratio()), r.cpu())
		r.judge(&targets)
	}
	if b.old == "" {
		targets.Note("flow: the code before flow control was not measured; see docs/benchmarks.md")
	}
	head := fmt.Sprintf("`make bench-flow` · %s · load average %s before · %s no-op jobs a drain, %s of 10 ms, %s that time out, medians of %d interleaved rounds, of %d where no-op jobs are drained; a ratio is the median of those of the rounds",
		report.Machine(time.Now()), b.before, report.Number(float64(b.plan.jobs)), report.Number(float64(b.plan.slow)),
		report.Number(float64(b.plan.dead)), b.plan.rounds, b.plan.often)
	return head + "\n\n" + table.String(), &targets
}
