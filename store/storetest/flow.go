package storetest

import (
	"testing"
	"time"

	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// RunFlow states every rule of store/FLOW.md, one subtest a behaviour, each
// on a store of its own.
func RunFlow(t *testing.T, open Open) {
	groups := []struct {
		name  string
		rules []flowRule
	}{
		{"Look", lookRules},
		{"Lane", laneRules},
		{"Name", nameRules},
		{"Gate", gateRules},
		{"Grant", grantRules},
		{"Key", keyRules},
		{"KeyRule", keyRuleRules},
		{"Unique", uniqueRules},
		{"Limit", limitRules},
		{"Hold", holdRules},
		{"Periodic", periodicRules},
		{"Crowd", flowCrowdRules},
	}
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			for _, r := range g.rules {
				t.Run(r.name, func(t *testing.T) {
					defer failOnPanic(t)
					r.run(newFlowScript(t, open))
				})
			}
		})
	}
}

// RunFlowTx states what holds for enqueues with targets and keys inside the
// user's own transaction.
func RunFlowTx(t *testing.T, open func(t *testing.T) Joinable) {
	rules := flowTxRules
	if open(t).Concurrent {
		rules = append(rules, concurrentFlowTxRules...)
	}
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			runTx(t, open, func(s *txScript) {
				r.run(&flowTxScript{flowScript: &flowScript{script: s.script, Flow: s.Store}, tx: s})
			})
		})
	}
}

type flowRule struct {
	name string
	run  func(s *flowScript)
}

// flowScript is a script over a store that controls flow.
type flowScript struct {
	*script
	store.Flow
}

func newFlowScript(t *testing.T, open Open) *flowScript {
	s := newScript(t, open)
	return &flowScript{script: s, Flow: s.Store}
}

// to is a job that calls the target.
func to(target string) job.New { return job.New{Kind: "mail", Target: target} }

// dueAt is a job that calls x, due later.
func dueAt(due time.Time) job.New { return job.New{Kind: "mail", Target: "x", DueAt: due} }

// everything is a discovery that nothing bounds.
var everything = store.LaneClaim{Queue: job.DefaultQueue, Kinds: []string{"mail"}, Lanes: 1000, Firsts: 1000, Retries: 1000, Limit: 1000}

// lanes claims from lanes.
func (s *flowScript) lanes(now time.Time, process int64, claims ...store.LaneClaim) store.Turned {
	s.Helper()
	return s.turn(store.Turn{Process: process, Now: now, Lanes: claims})
}

// discover takes all that discovery finds in the default queue.
func (s *flowScript) discover(now time.Time, process int64) []job.Job {
	s.Helper()
	return s.lanes(now, process, everything).Claimed
}

// named is a claim of up to n jobs of the target's lane.
func named(target string, n int) store.LaneClaim {
	c := everything
	c.Target, c.Limit = target, n
	return c
}

// serve claims by name.
func (s *flowScript) serve(now time.Time, process int64, target string, n int) []job.Job {
	s.Helper()
	return s.lanes(now, process, named(target, n)).Claimed
}

// serveOne claims exactly one job by name.
func (s *flowScript) serveOne(now time.Time, process int64, target string) job.Job {
	s.Helper()
	jobs := s.serve(now, process, target, 1)
	if len(jobs) != 1 {
		s.Fatalf("claimed %d jobs of %s, want 1", len(jobs), target)
	}
	return jobs[0]
}

// found discovers and compares the sequence numbers.
func (s *flowScript) found(what string, now time.Time, process int64, want ...int64) []job.Job {
	s.Helper()
	jobs := s.discover(now, process)
	s.same(what, seqsOf(jobs), append([]int64{}, want...))
	return jobs
}

// hold keeps the target's lane in the default queue from discovery.
func (s *flowScript) hold(now time.Time, process int64, target string, retries bool, until time.Time) {
	s.Helper()
	s.turn(store.Turn{Process: process, Now: now, Holds: []store.LaneHold{
		{Queue: job.DefaultQueue, Target: target, Retries: retries, Until: until},
	}})
}

// gate reads one gate.
func (s *flowScript) gate(target string) store.Gate {
	s.Helper()
	gates, err := s.Gates(s.ctx, []string{target})
	s.must(err)
	s.same("gates answered", len(gates), 1)
	return gates[0]
}

// swap swaps gates that must not have moved.
func (s *flowScript) swap(now time.Time, process int64, swaps ...store.Swap) {
	s.Helper()
	for i, ok := range s.turn(store.Turn{Process: process, Now: now, Swaps: swaps}).Swapped {
		if !ok {
			s.Fatalf("the swap of %s from version %d was lost", swaps[i].Target, swaps[i].Version)
		}
	}
}

// shut closes the gate of x until an instant, with room for so many.
func (s *flowScript) shut(now time.Time, process int64, openAt time.Time, room int) {
	s.Helper()
	g := s.gate("x")
	g.OpenAt, g.Room = openAt, room
	s.swap(now, process, store.Swap{Gate: g})
}

// nextDue asks for the default queue and mail.
func (s *flowScript) nextDue(kinds ...string) time.Time {
	s.Helper()
	due, err := s.NextDue(s.ctx, []string{job.DefaultQueue}, orMail(kinds))
	s.must(err)
	return due
}

// blocked lists which of the jobs are blocked, in order.
func (s *flowScript) blocked(seqs ...int64) []bool {
	s.Helper()
	list := make([]bool, len(seqs))
	for i, seq := range seqs {
		list[i] = s.job(seq).Blocked
	}
	return list
}

// granted is a gate of which processes hold permits: the state has as many in
// flight.
func granted(g store.Gate, now time.Time, grants ...store.Grant) store.Gate {
	for _, held := range grants {
		for i := range held.Size() {
			g.State, _ = gate.Step(gate.Config{}, g.State, gate.Ask{Retry: i < held.Retries}, now, 0)
		}
		g.SetGrant(held)
	}
	return g
}

// flowTxRule is a rule about the user's own transactions.
type flowTxRule struct {
	name string
	run  func(s *flowTxScript)
}

type flowTxScript struct {
	*flowScript
	tx *txScript
}
