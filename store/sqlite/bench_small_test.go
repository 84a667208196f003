//go:build unix

package sqlite_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// Calls that return at once, to a few targets: what a turn carries then are
// some jobs of each lane, with arguments and results of a webhook's size, and
// the lanes are not abreast.
const (
	smallTargets = 10
	smallEach    = 4
)

// BenchmarkSmallTurns drains lanes by name in turns of 40.
func BenchmarkSmallTurns(b *testing.B) {
	c := newContestant(b)
	load := benchLoad()
	for i := range load {
		load[i].Target, load[i].Batch = target(i%smallTargets), fmt.Sprintf("evt_%020d", i/smallTargets)
		load[i].Args = bytes.Repeat([]byte{byte('a' + i%26)}, 500)
	}
	var rounds []cost
	for b.Loop() {
		c.enqueue(load)
		rounds = append(rounds, timed(c.runSmall))
	}
	m := medians(rounds)
	b.ReportMetric(benchJobs/m.wall.Seconds(), "jobs/s")
	b.ReportMetric(float64(m.cpu.Microseconds())/benchJobs, "cpu-us/job")
	b.ReportMetric(0, "ns/op")
}

var benchResult = bytes.Repeat([]byte{'r'}, 160)

func (c *contestant) runSmall() {
	c.b.Helper()
	ran, first := 0, 1
	var settles []store.Settle
	for {
		c.now = c.now.Add(2 * store.LaneRest)
		turn := store.Turn{Process: c.process, Now: c.now, Settles: settles}
		for i := range smallTargets {
			n := smallEach * max(1, i*first)
			turn.Lanes = append(turn.Lanes, store.LaneClaim{Queue: job.DefaultQueue, Kinds: []string{"noop"}, Target: target(i), Firsts: n, Limit: n, Begin: n})
		}
		first = 0
		answer := c.turn(turn)
		if ran += len(answer.Claimed); len(answer.Claimed) == 0 {
			break
		}
		settles = settles[:0]
		for i := range answer.Claimed {
			s := c.succeed(&answer.Claimed[i])
			s.Result = benchResult
			settles = append(settles, s)
		}
	}
	if ran != benchJobs {
		c.b.Fatalf("ran %d", ran)
	}
}
