package postgres_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

const benchTargets = 100

// enqueueTo enqueues jobs to many targets, as many to each.
func (x *bench) enqueueTo() {
	jobs := x.jobs()
	for i := range jobs {
		jobs[i].Target = fmt.Sprintf("https://host%02d.example/hook", i%benchTargets)
	}
	for range benchJobs / len(jobs) {
		if _, err := x.store.Enqueue(x.Context(), time.Time{}, jobs); err != nil {
			x.Fatal(err)
		}
	}
}

// drainTargets works off what waits for targets: every turn of a process swaps
// the gates that it serves, with what it took and gave back, and claims their
// lanes by name, begun.
func (x *bench) drainTargets() {
	left := make(chan struct{}, benchJobs)
	x.together(func(ctx context.Context, n int) error {
		p, err := x.store.Register(ctx, time.Time{}, store.Process{Host: "bench", Kinds: []string{"noop"}})
		if err != nil {
			return err
		}
		turn := store.Turn{Process: p.ID}
		for i := n; i < benchTargets; i += benchConns {
			target := fmt.Sprintf("https://host%02d.example/hook", i)
			turn.Swaps = append(turn.Swaps, store.Swap{Gate: store.Gate{Target: target, Room: 60, Policy: "webhook"}})
			most := benchBatch * benchConns / benchTargets
			turn.Lanes = append(turn.Lanes, store.LaneClaim{
				Queue: job.DefaultQueue, Kinds: []string{"noop"}, Target: target, Firsts: most, Retries: most, Limit: most, Begin: most,
			})
		}
		for len(left) < benchJobs {
			for i := range turn.Swaps {
				g := &turn.Swaps[i].Gate
				g.State.InFlight = 30 + int(g.Version)%2
				g.SetGrant(store.Grant{Process: p.ID, Firsts: g.State.InFlight})
			}
			answer, err := x.store.Turn(ctx, turn)
			if err != nil {
				return err
			}
			for i, ok := range answer.Swapped {
				if !ok {
					return fmt.Errorf("lost: %+v", turn.Swaps[i])
				}
				turn.Swaps[i].Version++
			}
			for i, ok := range answer.Settled {
				if !ok {
					return fmt.Errorf("refused: %+v", turn.Settles[i])
				}
				left <- struct{}{}
			}
			if len(answer.Claimed) == 0 && len(turn.Settles) == 0 {
				return nil // its targets have nothing left
			}
			turn.Settles = turn.Settles[:0]
			now := time.Now()
			for i := range answer.Claimed {
				turn.Settles = append(turn.Settles, outcome(&answer.Claimed[i], now, false))
			}
		}
		return nil
	})
	if len(left) != benchJobs {
		x.Fatalf("%d of %d jobs were done", len(left), benchJobs)
	}
}

// BenchmarkTargets drains the lanes of 100 targets with limits. "lean" is the
// plain drain.
func BenchmarkTargets(b *testing.B) {
	x := newBench(b)
	for range b.N {
		x.clear()
		x.enqueue()
		x.measure("lean", func() { x.drain(false) })
		x.clear()
		x.enqueueTo()
		x.measure("ebb", x.drainTargets)
	}
	x.report()
}

// BenchmarkEnqueueTargets enqueues to 100 targets. "lean" is the plain enqueue.
func BenchmarkEnqueueTargets(b *testing.B) {
	x := newBench(b)
	for range b.N {
		x.clear()
		x.measure("lean", x.enqueue)
		x.clear()
		x.measure("ebb", x.enqueueTo)
	}
	x.report()
}
