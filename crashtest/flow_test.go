package crashtest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ebbhq/ebb/crashtest"
	"github.com/ebbhq/ebb/store"
)

// flowing is a fleet of four whose members find each other dead within
// seconds, with few slots each.
var flowing = crashtest.Config{Lease: 2 * time.Second, Beat: 400 * time.Millisecond, Concurrency: 12, Drain: time.Minute, Grace: 5 * time.Second}

const fleetSize = 4

// gates reads all of them.
func (s *stage) gates() []store.Gate {
	s.Helper()
	all, err := s.store.Targets(s.ctx, "", 1000)
	s.must(err)
	return all
}

// finishFlow drains, stops the workers and judges the jobs and their targets.
func (s *stage) finishFlow() (crashtest.Report, crashtest.FlowReport) {
	s.Helper()
	report := s.finish()
	flow, broken := crashtest.JudgeFlow(s.evidence(), s.gates())
	s.blame(broken)
	s.Logf("%s", flow)
	return report, flow
}

func (s *stage) mood(target string, m crashtest.Mood) {
	s.Helper()
	s.must(crashtest.SetMood(s.fleet.Config.Targets, target, m))
}

// calls returns n orders for targets of all policies with a limit.
func (s *stage) calls(n int) []crashtest.Order {
	orders := s.orders(n, crashtest.Order{Kind: crashtest.Call})
	for i := range orders {
		o := &orders[i]
		o.Millis = 1 + s.rng.IntN(80)
		switch p := s.rng.IntN(100); {
		case p < 40:
			o.Policy, o.Target = crashtest.Limited, fmt.Sprintf("limited-%d", s.rng.IntN(2))
		case p < 60:
			o.Policy, o.Target = crashtest.Breaking, "breaking"
		case p < 72:
			o.Policy, o.Target = crashtest.Pausing, "pausing"
		case p < 84:
			o.Policy, o.Target, o.Millis = crashtest.Rated, "rated", o.Millis/4
		default:
			o.Policy, o.Target = crashtest.Budgeted, "budgeted"
			if s.rng.IntN(8) == 0 {
				o.Fails = 1
			}
		}
		if o.Policy == crashtest.Limited && s.rng.IntN(20) == 0 {
			o.Fails = 1
		}
	}
	return orders
}

// disturb kills a worker and starts another, or stops one past its lease.
func (s *stage) disturb(round int) {
	s.Helper()
	alive := s.fleet.Alive()
	victim := alive[s.rng.IntN(len(alive))]
	if round%2 == 1 {
		s.must(s.fleet.Freeze(s.ctx, victim, s.fleet.Config.Lease+time.Duration(s.rng.IntN(1500))*time.Millisecond))
		return
	}
	s.must(s.fleet.Kill(victim))
	_, err := s.fleet.Start()
	s.must(err)
}

// Four workers die and are stopped while their targets fail, ask for pauses
// and come back: no target is ever above its limit, rate or budget, a breaker
// lets one probe through at a time, a pause is kept, and in the end all work is
// done and all permits are back.
func TestLimitsUnderChaos(t *testing.T) {
	onBoth(t, flowing, func(s *stage) {
		size := size()
		s.workers(fleetSize)
		began := time.Now()
		for round := range size.rounds {
			s.enqueue(s.calls(size.calls / size.rounds))
			s.mood("breaking", []crashtest.Mood{crashtest.Down, crashtest.Well}[s.rng.IntN(3)/2])
			s.mood("pausing", []crashtest.Mood{crashtest.Later(2500 * time.Millisecond), crashtest.Well}[round%2])
			s.moment(time.Duration(200+s.rng.IntN(600)) * time.Millisecond)
			s.disturb(round)
		}
		s.mood("breaking", crashtest.Well)
		s.mood("pausing", crashtest.Well)
		report, flow := s.finishFlow()
		switch {
		case report.Kills != (size.rounds+1)/2:
			s.Errorf("%d kills, want %d", report.Kills, (size.rounds+1)/2)
		case flow.Openings == 0, flow.Probes == 0, flow.Pauses == 0, flow.Retries == 0:
			s.Error("a breaker, a probe, a pause or a retry is missing: nothing was tested")
		case max(flow.Most["limited-0"], flow.Most["limited-1"]) != crashtest.LimitedTo:
			s.Errorf("targets with work for all had %v calls at once, want %d at times", flow.Most, crashtest.LimitedTo)
		}
		s.noErrors(slow)
		s.Logf("took %s", time.Since(began).Round(time.Millisecond))
	})
}

// Jobs of a key run one at a time and in the order of their enqueues, retries
// and kills or not, with a target and without, and none is stranded.
func TestKeysUnderChaos(t *testing.T) {
	onBoth(t, flowing, func(s *stage) {
		size := size()
		s.workers(fleetSize)
		every, disturbed := max(1, 3*size.perKey/size.rounds), 0
		began := time.Now()
		for n := range size.perKey {
			orders := s.orders(size.keys, crashtest.Order{Kind: crashtest.Call, Policy: crashtest.Unheld})
			for i := range orders {
				orders[i].Key = fmt.Sprintf("key-%d", i)
				if i%2 == 1 {
					orders[i].Target = fmt.Sprintf("unheld-%d", i%4)
				}
				if s.rng.IntN(10) == 0 {
					orders[i].Fails = 1
				}
				orders[i].Millis = s.rng.IntN(5)
			}
			s.enqueue(orders)
			if n%every == 0 {
				s.moment(time.Duration(s.rng.IntN(300)) * time.Millisecond)
				s.disturb(disturbed)
				disturbed++
			}
		}
		report, flow := s.finishFlow()
		if flow.Keys != size.keys || report.Jobs != size.keys*size.perKey {
			s.Errorf("%d keys with %d jobs, want %d with %d", flow.Keys, report.Jobs, size.keys, size.keys*size.perKey)
		}
		if disturbed > 2 && report.Crashes == 0 || flow.Starts == 0 { // one kill may hit nobody
			s.Error("no kill hit a running job: nothing was tested")
		}
		s.noErrors(slow)
		s.Logf("took %s", time.Since(began).Round(time.Millisecond))
	})
}
