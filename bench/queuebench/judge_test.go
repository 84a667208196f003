package main

import (
	"strings"
	"testing"

	"github.com/ebbhq/ebb/bench/report"
)

// made returns the results of one system, all rates the same multiple.
func made(rate float64) *result {
	one := []float64{rate}
	return &result{
		insert: one, drain: one, fail: one, slow: one, plain: one, future: one,
		insertCPU: []float64{10 / rate}, drainCPU: []float64{30 / rate},
		insertWAL: []float64{100 / rate}, drainWAL: []float64{300 / rate},
		p50: []float64{20 / rate}, p99: []float64{40 / rate},
		lite: one,
	}
}

func TestJudge(t *testing.T) {
	b := &bench{plan: full, results: map[string]*result{
		"ebb": made(6), "river": made(2), "pgboss": made(4), "graphile": made(3), "graphile-wide": made(5), "lean": made(10),
		"ebb-sqlite": made(30), "lean-sqlite": made(40), "river-sqlite": made(3.5),
	}}
	b.results["ebb"].future = []float64{5.5}
	b.heldRates = map[string][2][]float64{
		"ebb":   {{9, 9, 9, 9, 10}, {9, 9, 9, 9, 8}},
		"river": {{4, 4, 4, 4, 4}, {4, 4, 4, 2, 1}},
	}
	var got report.Targets
	b.judgeRounds(&got)
	b.judgeDecay(&got)
	b.judgeLite(&got)
	want := []string{
		"target queue.insert_vs_river measured 3x wanted >= 2.5x met",
		"target queue.drain_vs_river measured 3x wanted >= 2.5x met",
		"target queue.drain_vs_best_peer measured 1.2x wanted >= 1.4x short",
		"note queue.drain_vs_river_3x measured 3x of River, hoped for 3x",
		"target queue.failonce_vs_river measured 3x wanted >= 2.5x met",
		"target queue.failonce_vs_best_peer measured 1.2x wanted >= 1.7x short",
		"target queue.drain_vs_lean_b measured 0.6x wanted >= 0.7x short",
		"target queue.cpu_vs_river measured 6.67 ms per 1,000 jobs wanted < 20 ms per 1,000 jobs met",
		"target queue.wal_vs_river measured 66.7 bytes a job wanted < 200 bytes a job met",
		"target queue.cpu_vs_pgboss measured 6.67 ms per 1,000 jobs wanted < 10 ms per 1,000 jobs met",
		"target queue.wal_vs_pgboss measured 66.7 bytes a job wanted < 100 bytes a job met",
		"target queue.latency_p50_vs_best_peer measured 3.33 ms wanted <= 4 ms met",
		"target queue.latency_p99_vs_best_peer measured 6.67 ms wanted <= 8 ms met",
		"target queue.slow_vs_river measured 3x wanted >= 1x met",
		"target queue.drain_beside_future_jobs measured 0.92x wanted >= 0.9x met",
		"target queue.load_under_snapshot measured 0.8x wanted >= 0.9x short",
		"note queue.load_under_snapshot all of the time 0.96x; fifth by fifth 1x, 1x, 1x, 1x, 0.8x",
		"note queue.load_under_snapshot River 0.25x",
		"target sqlite.drain_vs_lean_b measured 0.75x wanted >= 0.6x met",
		"target sqlite.drain_vs_river measured 8.57x wanted >= 10x short",
	}
	if lines := strings.Join(want, "\n") + "\n"; got.String() != lines {
		t.Errorf("verdicts\n%s, want\n%s", got.String(), lines)
	}
}

// A system that did not run never makes a target look met.
func TestJudgeWithoutEbb(t *testing.T) {
	b := &bench{plan: full, results: map[string]*result{"river": made(2), "lean": made(10)}}
	var got report.Targets
	b.judgeRounds(&got)
	b.judgeDecay(&got)
	b.judgeLite(&got)
	if got.Short() != 4 || strings.Contains(got.String(), "NaN") {
		t.Errorf("short = %d, want 4:\n%s", got.Short(), got.String())
	}
}

func TestTail(t *testing.T) {
	for n, want := range map[int]int{0: 0, 1: 1, 5: 1, 6: 2, 300: 60} {
		if got := len(tail(make([]float64, n))); got != want {
			t.Errorf("tail of %d = %d values, want %d", n, got, want)
		}
	}
}
