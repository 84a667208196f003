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

// share is the median over the rounds of what was reached of the bare loop.
func (p *pairs) share() float64 {
	var list []float64
	for i, rate := range p.ebb {
		list = append(list, rate/p.bare[i])
	}
	return report.Median(list)
}

// report is the table and the verdicts.
func (b *bench) report() (string, *report.Targets) {
	table := report.Table{Head: []string{"sender", "deliveries a second", "the bare Go client loop", "share", fmt.Sprintf("to endpoints of %s", slow), "the bare loop", "share", "p50, ms", "p95, ms", "p99, ms"}}
	var targets report.Targets
	for _, name := range b.order {
		r, id := b.found[name], strings.ToLower(name)
		table.Add("Ebb on "+name, report.Number(report.Median(r.drains.ebb)), report.Number(report.Median(r.drains.bare)), report.Number(r.drains.share()),
			report.Number(report.Median(r.slow.ebb)), report.Number(report.Median(r.slow.bare)), report.Number(r.slow.share()),
			report.Number(r.age(0.5)), report.Number(r.age(0.95)), report.Number(r.age(0.99)))
		targets.AtLeast("webhook.deliver."+id, r.drains.share(), leastShare, "x")
		targets.AtLeast("webhook.deliver_to_slow_endpoints."+id, r.slow.share(), leastShare, "x")
		targets.Below(fmt.Sprintf("webhook.enqueue_to_delivered_p95_at_%d.%s", b.plan.rate, id), r.age(0.95), mostAge, "ms")
	}
	head := fmt.Sprintf("`make bench-webhook` · %s · load average %s before · %d connections, %d endpoints, %s deliveries of 400 bytes a drain, %s to endpoints that answer after %s; latency from enqueue to receipt of %s events at %d a second; medians of %d interleaved rounds, %d for the latency; each drain between two runs of the bare loop of as many deliveries, its share is of their mean",
		report.Machine(time.Now()), b.before, connections, endpoints, report.Number(float64(b.plan.deliveries)), report.Number(float64(b.plan.slow)), slow,
		report.Number(float64(b.plan.events)), b.plan.rate, b.plan.rounds, b.plan.paced)
	return head + "\n\n" + table.String(), &targets
}
