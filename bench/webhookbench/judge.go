package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/ebbhq/ebb/bench/report"
)

const (
	leastShare = 0.5 // of the bare loop
	mostAge    = 50  // ms, p95 from enqueue to receipt
)

// age is the median over the rounds of a quantile.
func (r *result) age(q float64) float64 {
	var list []float64
	for _, ages := range r.ages {
		list = append(list, report.Quantile(ages, q))
	}
	return report.Median(list)
}

func share(of, base []float64) float64 {
	if report.Median(base) == 0 {
		return 0
	}
	return report.Median(of) / report.Median(base)
}

// report is the table and the verdicts.
func (b *bench) report() (string, *report.Targets) {
	table := report.Table{Head: []string{"sender", "deliveries a second", "of the bare loop", fmt.Sprintf("to endpoints of %s", slow), "of the bare loop", "p50, ms", "p95, ms", "p99, ms"}}
	table.Add("bare Go client loop", report.Number(report.Median(b.bare)), "1", report.Number(report.Median(b.slow)), "1", "–", "–", "–")
	var targets report.Targets
	for _, name := range b.order {
		r, id := b.found[name], strings.ToLower(name)
		table.Add("Ebb on "+name, report.Number(report.Median(r.drains)), report.Number(share(r.drains, b.bare)),
			report.Number(report.Median(r.slow)), report.Number(share(r.slow, b.slow)),
			report.Number(r.age(0.5)), report.Number(r.age(0.95)), report.Number(r.age(0.99)))
		targets.AtLeast("webhook.deliver."+id, share(r.drains, b.bare), leastShare, "x")
		targets.AtLeast("webhook.deliver_to_slow_endpoints."+id, share(r.slow, b.slow), leastShare, "x")
		targets.Below(fmt.Sprintf("webhook.enqueue_to_delivered_p95_at_%d.%s", b.plan.rate, id), r.age(0.95), mostAge, "ms")
	}
	head := fmt.Sprintf("`make bench-webhook` · %s · load average %s before · %d connections, %d endpoints, %s deliveries of 400 bytes a drain, %s to endpoints that answer after %s; latency from enqueue to receipt of %s events at %d a second; medians of %d interleaved rounds",
		report.Machine(time.Now()), b.before, connections, endpoints, report.Number(float64(b.plan.deliveries)), report.Number(float64(b.plan.slow)), slow,
		report.Number(float64(b.plan.events)), b.plan.rate, b.plan.rounds)
	return head + "\n\n" + table.String(), &targets
}
