//go:build unix

package sqlite_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// What limits over many targets cost: the same jobs, drained in turns of the
// same size, with and without a target.
const (
	benchTargets = 100
	benchEach    = 40 // jobs of a target a turn
)

// BenchmarkLanes drains lanes found by discovery, whose handlers begin in the
// next turn, with every gate swapped in every turn.
func BenchmarkLanes(b *testing.B) { benchLanes(b, false) }

// BenchmarkLanesByName drains lanes by name: what a worker does that holds
// their permits.
func BenchmarkLanesByName(b *testing.B) { benchLanes(b, true) }

func benchLanes(b *testing.B, named bool) {
	plain, laned := newContestant(b), newContestant(b)
	load, aimed := benchLoad(), benchLoad()
	for i := range aimed {
		aimed[i].Target = target(i / benchEach % benchTargets)
	}
	var with, without []cost
	for b.Loop() {
		plain.enqueue(load)
		without = append(without, timed(func() { plain.run(nil) }))
		laned.enqueue(aimed)
		with = append(with, timed(func() { laned.run(&gates{c: laned, named: named}) }))
	}
	lanes, flat := medians(with), medians(without)
	b.ReportMetric(benchJobs/flat.wall.Seconds(), "plain-jobs/s")
	b.ReportMetric(benchJobs/lanes.wall.Seconds(), "lanes-jobs/s")
	b.ReportMetric(flat.wall.Seconds()/lanes.wall.Seconds(), "of-plain")
	b.ReportMetric(float64(flat.cpu.Microseconds())/benchJobs, "plain-cpu-us/job")
	b.ReportMetric(float64(lanes.cpu.Microseconds())/benchJobs, "lanes-cpu-us/job")
	b.ReportMetric(0, "ns/op")
}

func target(i int) string { return fmt.Sprintf("host-%03d.example.com", i) }

// run drains all jobs in turns of 4,000; with gates from lanes.
func (c *contestant) run(g *gates) {
	c.b.Helper()
	ran := 0
	var settles []store.Settle
	for {
		c.now = c.now.Add(2 * store.LaneRest)
		turn := store.Turn{Process: c.process, Now: c.now, Settles: settles}
		if g == nil {
			turn.Claims = []store.Claim{{Queue: job.DefaultQueue, Kinds: []string{"noop"}, Limit: benchTargets * benchEach}}
		} else {
			g.ask(&turn)
		}
		answer := c.turn(turn)
		if g != nil {
			g.begin(&answer)
		}
		if ran += len(answer.Claimed); len(answer.Claimed) == 0 {
			break
		}
		settles = settles[:0]
		for i := range answer.Claimed {
			settles = append(settles, c.succeed(&answer.Claimed[i]))
		}
	}
	if ran != benchJobs {
		c.b.Fatalf("ran %d", ran)
	}
}

func (c *contestant) turn(turn store.Turn) store.Turned {
	c.b.Helper()
	answer, err := c.s.Turn(c.b.Context(), turn)
	if err != nil {
		c.b.Fatal(err)
	}
	if slices.Contains(answer.Settled, false) || slices.Contains(answer.Begun, false) || slices.Contains(answer.Swapped, false) {
		c.b.Fatal("a turn was refused in part")
	}
	return answer
}

// gates takes permits for what lanes give, and gives them back.
type gates struct {
	c     *contestant
	named bool
	swaps []store.Swap
}

// ask fills in claims of lanes and the swaps.
func (g *gates) ask(turn *store.Turn) {
	turn.Swaps = g.swaps
	if !g.named {
		turn.Lanes = []store.LaneClaim{{
			Queue: job.DefaultQueue, Kinds: []string{"noop"}, Lanes: benchTargets, Firsts: benchEach, Limit: benchTargets * benchEach,
		}}
		return
	}
	for i := range benchTargets {
		turn.Lanes = append(turn.Lanes, store.LaneClaim{
			Queue: job.DefaultQueue, Kinds: []string{"noop"}, Target: target(i), Firsts: benchEach, Limit: benchEach, Begin: benchEach,
		})
	}
}

// begin notes the swap of each gate for the next turn, and begins what has
// not.
func (g *gates) begin(answer *store.Turned) {
	g.swaps = g.swaps[:0]
	for _, row := range answer.Gates {
		for range benchEach {
			row.State, _ = gate.Step(gate.Config{}, row.State, gate.Ask{}, g.c.now, 0)
			row.State, _ = gate.Step(gate.Config{}, row.State, gate.Done{}, g.c.now.Add(time.Millisecond), 0)
		}
		g.swaps = append(g.swaps, store.Swap{Gate: row})
	}
	if g.named || len(answer.Claimed) == 0 {
		return
	}
	refs := make([]store.Ref, len(answer.Claimed))
	for i := range answer.Claimed {
		refs[i] = store.Ref{Seq: answer.Claimed[i].Seq, Epoch: answer.Claimed[i].Epoch}
	}
	g.c.now = g.c.now.Add(time.Millisecond)
	g.c.turn(store.Turn{Process: g.c.process, Now: g.c.now, Begin: refs})
}
