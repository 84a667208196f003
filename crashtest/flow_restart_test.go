//go:build crash

package crashtest_test

import (
	"slices"
	"testing"
	"time"

	"github.com/ebbhq/ebb/crashtest"
	"github.com/ebbhq/ebb/dispatch"
	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/store"
)

// gateOf reads one gate.
func (s *stage) gateOf(target string) store.Gate {
	s.Helper()
	rows, err := s.store.Gates(s.ctx, []string{target})
	s.must(err)
	return rows[0]
}

// killAll kills the fleet and returns those that lived.
func (s *stage) killAll() {
	s.Helper()
	for _, l := range s.fleet.Alive() {
		s.must(s.fleet.Kill(l))
	}
}

// starts lists the starts of the lives for a target, by time.
func (s *stage) starts(lives []*crashtest.Life, target string) []crashtest.Event {
	var list []crashtest.Event
	for _, l := range lives {
		for _, e := range l.Events {
			if e.What == crashtest.Started && s.acked[e.Seq].Target == target {
				list = append(list, e)
			}
		}
	}
	slices.SortFunc(list, func(a, b crashtest.Event) int { return int(a.Mono - b.Mono) })
	return list
}

// All workers die at once while a breaker is open, a pause lasts and a budget
// is spent. Those that follow know it: they start nothing of these before its
// time, and other work meanwhile.
func TestRestartKeepsGates(t *testing.T) {
	onBoth(t, flowing, func(s *stage) {
		s.workers(fleetSize)
		s.mood("open", crashtest.Down)
		s.mood("paused", crashtest.Later(crashtest.LastingFor))
		const each = 10
		s.enqueue(s.orders(each, crashtest.Order{Kind: crashtest.Call, Policy: crashtest.Lasting, Target: "open"}))
		s.enqueue(s.orders(each, crashtest.Order{Kind: crashtest.Call, Policy: crashtest.Lasting, Target: "paused"}))
		s.enqueue(s.orders(each, crashtest.Order{Kind: crashtest.Call, Policy: crashtest.Saving, Target: "spent", Fails: 1}))
		s.until("the breaker is open, the pause lasts, the budget is spent", func() bool {
			return s.gateOf("open").State.Phase == gate.Open && s.gateOf("paused").State.PauseUntil != 0 &&
				len(s.starts(s.fleet.Lives, "spent")) >= each+int(crashtest.Savings.Floor)
		})
		s.killAll()
		openUntil, pauseUntil := s.gateOf("open").State.OpenUntil.Time(), s.gateOf("paused").State.PauseUntil.Time()
		s.mood("open", crashtest.Well)
		s.mood("paused", crashtest.Well)
		successors := s.workers(fleetSize)
		s.enqueue(s.orders(each, crashtest.Order{Kind: crashtest.Call, Policy: crashtest.Unheld, Target: "other"}))
		_, flow := s.finishFlow()
		if flow.Openings == 0 || flow.Openings != flow.Probes { // of the paused one perhaps, too
			s.Errorf("%d openings and %d probes, want as many and 1 at least", flow.Openings, flow.Probes)
		}
		s.noneBefore(successors, "open", openUntil)
		s.noneBefore(successors, "paused", pauseUntil)
		if other := s.starts(successors, "other"); len(other) == 0 {
			s.Error("the successors started nothing of another target")
		} else {
			s.Logf("work of another target began %s before the breaker's time was over", openUntil.Sub(other[0].Wall).Round(time.Millisecond))
		}
	})
}

// noneBefore: the lives started work of the target, and none before at.
func (s *stage) noneBefore(lives []*crashtest.Life, target string, at time.Time) {
	s.Helper()
	list := s.starts(lives, target)
	if len(list) == 0 || list[0].Wall.Before(at) {
		s.Errorf("%s: %d starts after the restart, the first %s before %s", target, len(list), at.Sub(list[0].Wall), at)
		return
	}
	s.Logf("%s: %d starts after the restart, the first %s after its time", target, len(list), list[0].Wall.Sub(at).Round(time.Millisecond))
}

// After all workers were down for more than 30 s, each of those that follow
// starts at most a batch of the target's overdue retries in any 30 s, and
// first attempts are not held by that. Policy time runs ten times faster.
func TestCatchUp(t *testing.T) {
	fast := flowing
	fast.Start, fast.Factor = time.Now().UTC(), 10
	onBoth(t, fast, func(s *stage) {
		const late, firsts = 48, 20
		policyTime := s.fleet.Config.Clock()
		s.workers(fleetSize)
		s.mood("batched", crashtest.Down)
		order := crashtest.Order{Kind: crashtest.Call, Policy: crashtest.Batched, Target: "batched"}
		overdue := s.enqueue(s.orders(late, order))
		s.until("all have failed", func() bool {
			settled := 0
			for _, l := range s.fleet.Lives {
				settled += l.Count(crashtest.Settled)
			}
			return settled >= late
		})
		s.killAll()
		s.mood("batched", crashtest.Well)
		downUntil := policyTime.Now().Add(crashtest.BatchedDelay + 40*time.Second)
		s.until("they were down for long", func() bool { return policyTime.Now().After(downUntil) })
		s.enqueue(s.orders(firsts, order))
		successors := s.workers(fleetSize)
		s.finishFlow()

		due := map[int64]bool{} // retries that were due long before; crashes are due when they are noticed
		for _, seq := range overdue {
			rows, err := s.store.Attempts(s.ctx, seq)
			s.must(err)
			last := rows[len(rows)-2]
			due[seq] = last.DueAt.Before(downUntil.Add(-dispatch.CatchUpAfter))
		}
		caught, before := 0, 0
		for _, l := range successors {
			caught += s.caughtUp(l, due)
		}
		for _, e := range s.starts(successors, "batched") {
			switch {
			case due[e.Seq]:
				before++
			case e.Start == 1 && before > 2*fleetSize*crashtest.BatchedTo: // of three batches
				s.Errorf("first attempt %d waited for %d overdue retries", e.Seq, before)
			}
		}
		if caught <= fleetSize*crashtest.BatchedTo {
			s.Errorf("%d overdue retries of %d jobs: nothing was tested", caught, late)
		}
		s.Logf("%d overdue retries of %d, %d first attempts", caught, late, firsts)
	})
}

// caughtUp counts the overdue retries that a process started. What is decided
// may begin later, never earlier: so at any time since it was born there are at
// most a batch for each 30 s that have begun.
func (s *stage) caughtUp(l *crashtest.Life, due map[int64]bool) int {
	s.Helper()
	born := l.Events[slices.IndexFunc(l.Events, func(e crashtest.Event) bool { return e.What == crashtest.Registered })]
	n := 0
	for _, e := range s.starts([]*crashtest.Life{l}, "batched") {
		if !due[e.Seq] {
			continue
		}
		n++
		age := e.Wall.Sub(born.Wall)
		if most := crashtest.BatchedTo * (1 + int(age/dispatch.CatchUpEvery)); n > most {
			s.Errorf("worker %d started %d overdue retries in its first %s, want %d at most", l.Number, n, age, most)
		}
	}
	return n
}
