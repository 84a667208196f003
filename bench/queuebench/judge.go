package main

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/ebbhq/ebb/bench/report"
)

// What the queue promises, as ratios within one run.
const (
	insertRiver = 2.5
	drainRiver  = 2.5
	drainPeer   = 1.4
	drainHope   = 3.0 // noted, no target
	failRiver   = 2.5
	failPeer    = 1.7
	drainLean   = 0.7
	slowRiver   = 1.0
	lasts       = 0.9
	liteLean    = 0.6
	liteRiver   = 10.0
)

// report returns the tables, and one line a target.
func (b *bench) report() (tables string, targets *report.Targets) {
	var out strings.Builder
	fmt.Fprintf(&out, "`make bench-queue` · %s · load average %s before · PostgreSQL 15, fsync and synchronous_commit on, shared_buffers 1 GB, unix socket · ",
		report.Machine(time.Now()), b.loadBefore)
	fmt.Fprintf(&out, "%s no-op jobs, inserts of %s, medians of %d interleaved rounds\n", report.Number(float64(b.plan.jobs)), report.Number(float64(b.plan.batch)), b.plan.rounds)
	targets = &report.Targets{}
	if b.wants("rounds") {
		out.WriteString("\n" + b.roundsTable().String())
		b.judgeRounds(targets)
	}
	if b.wants("future") || b.wants("held") {
		out.WriteString("\n" + b.decayTable().String())
		b.judgeDecay(targets)
	}
	if b.wants("sqlite") {
		out.WriteString("\n" + b.liteTable().String())
		b.judgeLite(targets)
	}
	return out.String(), targets
}

func cell(values []float64) string {
	if len(values) == 0 {
		return "–"
	}
	return report.Number(report.Median(values))
}

func (b *bench) roundsTable() *report.Table {
	t := &report.Table{Head: []string{
		"PostgreSQL", "bulk insert, jobs/s", "drain, jobs/s", "fail once, jobs/s", "slow handlers, jobs/s",
		"CPU ms per 1,000, insert + drain", "of it PostgreSQL's drain", "… fail once", "WAL bytes a job, insert + drain", "idle enqueue→start p50 / p99, ms",
	}}
	for _, s := range systems {
		r := b.results[s.key]
		if r == nil {
			continue
		}
		t.Add(s.name, cell(r.insert), cell(r.drain), cell(r.fail), cell(r.slow),
			cell(r.insertCPU)+" + "+cell(r.drainCPU), cell(r.drainDB), cell(r.failCPU),
			cell(r.insertWAL)+" + "+cell(r.drainWAL), cell(r.p50)+" / "+cell(r.p99))
	}
	return t
}

func (b *bench) judgeRounds(t *report.Targets) {
	ebb, river, lean := b.results["ebb"], b.results["river"], b.results["lean"]
	if ebb == nil || river == nil || lean == nil {
		t.Missing("queue.rounds", "Ebb, River or lean B did not run")
		return
	}
	best := func(of func(*result) []float64) (rate float64) {
		for _, s := range systems {
			if r := b.results[s.key]; r != nil && s.peer {
				rate = max(rate, report.Median(of(r)))
			}
		}
		return rate
	}
	ratio := func(ours []float64, theirs float64) float64 { return report.Median(ours) / theirs }
	drain, fail := func(r *result) []float64 { return r.drain }, func(r *result) []float64 { return r.fail }
	t.AtLeast("queue.insert_vs_river", ratio(ebb.insert, report.Median(river.insert)), insertRiver, "x")
	t.AtLeast("queue.drain_vs_river", ratio(ebb.drain, report.Median(river.drain)), drainRiver, "x")
	t.AtLeast("queue.drain_vs_best_peer", ratio(ebb.drain, best(drain)), drainPeer, "x")
	t.Note("queue.drain_vs_river_3x measured %sx of River, hoped for %sx", report.Number(ratio(ebb.drain, report.Median(river.drain))), report.Number(drainHope))
	t.AtLeast("queue.failonce_vs_river", ratio(ebb.fail, report.Median(river.fail)), failRiver, "x")
	t.AtLeast("queue.failonce_vs_best_peer", ratio(ebb.fail, best(fail)), failPeer, "x")
	t.AtLeast("queue.drain_vs_lean_b", ratio(ebb.drain, report.Median(lean.drain)), drainLean, "x")
	b.judgeCost(t, ebb)
	b.judgeLatency(t, ebb)
	t.AtLeast("queue.slow_vs_river", ratio(ebb.slow, report.Median(river.slow)), slowRiver, "x")
}

// judgeCost compares what a job costs from insert to done with every peer
// that keeps history.
func (b *bench) judgeCost(t *report.Targets, ebb *result) {
	cpu := func(r *result) float64 { return report.Median(r.insertCPU) + report.Median(r.drainCPU) }
	wal := func(r *result) float64 { return report.Median(r.insertWAL) + report.Median(r.drainWAL) }
	for _, s := range systems {
		r := b.results[s.key]
		if r == nil || !s.peer || !s.history {
			continue
		}
		t.Below("queue.cpu_vs_"+s.key, cpu(ebb), cpu(r), " ms per 1,000 jobs")
		t.Below("queue.wal_vs_"+s.key, wal(ebb), wal(r), " bytes a job")
	}
}

func (b *bench) judgeLatency(t *report.Targets, ebb *result) {
	p50, p99 := math.Inf(1), math.Inf(1)
	for _, s := range systems {
		if r := b.results[s.key]; r != nil && s.peer {
			p50, p99 = min(p50, report.Median(r.p50)), min(p99, report.Median(r.p99))
		}
	}
	t.AtMost("queue.latency_p50_vs_best_peer", report.Median(ebb.p50), p50, " ms")
	t.AtMost("queue.latency_p99_vs_best_peer", report.Median(ebb.p99), p99, " ms")
}

func (b *bench) decayTable() *report.Table {
	t := &report.Table{Head: []string{
		"does it last", "drain, jobs/s", "… beside " + report.Number(float64(b.plan.future)) + " future jobs",
		"load for " + b.plan.held.String() + ", jobs/s", "… under an open snapshot", "… its last fifth, without / with",
	}}
	for _, s := range b.lasting() {
		r, rates := b.result(s.key), b.heldRates[s.key]
		means := [4]string{"–", "–", "–", "–"}
		if len(rates[0]) > 0 && len(rates[1]) > 0 {
			for i, values := range [][]float64{rates[0], rates[1], tail(rates[0]), tail(rates[1])} {
				means[i] = report.Number(report.Mean(values))
			}
		}
		t.Add(s.name, cell(r.plain), cell(r.future), means[0], means[1], means[2]+" / "+means[3])
	}
	return t
}

func (b *bench) judgeDecay(t *report.Targets) {
	ebb, rates := b.result("ebb"), b.heldRates["ebb"]
	switch {
	case !b.wants("future"):
	case len(ebb.plain) == 0 || len(ebb.future) == 0:
		t.Missing("queue.drain_beside_future_jobs", "Ebb did not run")
	default:
		t.AtLeast("queue.drain_beside_future_jobs", report.Median(ebb.future)/report.Median(ebb.plain), lasts, "x")
	}
	if !b.wants("held") {
		return
	}
	if len(rates[0]) == 0 || len(rates[1]) == 0 {
		t.Missing("queue.load_under_snapshot", "Ebb did not run")
		return
	}
	t.AtLeast("queue.load_under_snapshot", report.Mean(tail(rates[1]))/report.Mean(tail(rates[0])), lasts, "x")
	t.Note("queue.load_under_snapshot all of the time %sx; fifth by fifth %s", report.Number(report.Mean(rates[1])/report.Mean(rates[0])), fifths(rates))
	if river := b.heldRates["river"]; len(river[0]) > 0 && len(river[1]) > 0 {
		t.Note("queue.load_under_snapshot River %sx", report.Number(report.Mean(tail(river[1]))/report.Mean(tail(river[0]))))
	}
}

// fifths compares the load with and without the snapshot, fifth by fifth: a
// decay shows as a trend, a noisy machine does not.
func fifths(rates [2][]float64) string {
	var ratios []string
	for i := range 5 {
		part := func(all []float64) []float64 { return all[len(all)*i/5 : len(all)*(i+1)/5] }
		ratios = append(ratios, report.Number(report.Mean(part(rates[1]))/report.Mean(part(rates[0])))+"x")
	}
	return strings.Join(ratios, ", ")
}

func (b *bench) liteTable() *report.Table {
	t := &report.Table{Head: []string{"SQLite, synchronous=FULL", "bulk insert, jobs/s", "drain, jobs/s", "fail once, jobs/s"}}
	for _, s := range lites {
		if r := b.results[s.key]; r != nil {
			t.Add(s.name, cell(r.liteInsert), cell(r.lite), cell(r.liteFail))
		}
	}
	return t
}

func (b *bench) judgeLite(t *report.Targets) {
	ebb, lean, river := b.results["ebb-sqlite"], b.results["lean-sqlite"], b.results["river-sqlite"]
	if ebb == nil || lean == nil || river == nil {
		t.Missing("sqlite.drain", "Ebb, lean B or River did not run")
		return
	}
	t.AtLeast("sqlite.drain_vs_lean_b", report.Median(ebb.lite)/report.Median(lean.lite), liteLean, "x")
	t.AtLeast("sqlite.drain_vs_river", report.Median(ebb.lite)/report.Median(river.lite), liteRiver, "x")
}
