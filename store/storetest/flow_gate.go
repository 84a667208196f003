package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store"
)

// busyGate is a gate with something in every field.
func busyGate(target string) store.Gate {
	c := gate.Config{
		Breaker: policy.Breaker{Consecutive: 2, Open: time.Minute, Cap: time.Hour}, Pause: true,
		RetryAfter: policy.RetryAfter{Honour: true}, PerTarget: policy.PerTarget{Concurrency: 9, Rate: 2},
	}
	g := store.Gate{Target: target, OpenAt: at(60), Room: 4, Disabled: "moved away", Policy: "webhook"}
	for i := range 3 {
		g.State, _ = gate.Step(c, g.State, gate.Ask{Retry: i == 0}, at(float64(i)), 0.5)
		down := failure.Failure{Class: failure.Server, Blame: failure.BlameTarget, RetryAfter: 30 * time.Second}
		g.State, _ = gate.Step(c, g.State, gate.Done{Failure: down, Retry: i == 0}, at(float64(i)), 0.5)
	}
	return granted(g, at(4), store.Grant{Process: 7, Firsts: 2, Retries: 1}, store.Grant{Process: 3, Retries: 1, Probe: true})
}

var gateRules = []flowRule{
	{"a target without a row has version 0 and room for all", func(s *flowScript) {
		gates, err := s.Gates(s.ctx, []string{"y", "x"})
		s.must(err)
		s.same("gates", gates, []store.Gate{{Target: "y", Room: store.NoLimit}, {Target: "x", Room: store.NoLimit}})
	}},
	{"a swap of version 0 inserts, and everything is read back", func(s *flowScript) {
		p := s.process(t0)
		g := busyGate("x")
		answer := s.turn(store.Turn{Process: p, Now: t0, Swaps: []store.Swap{{Gate: g}}})
		s.same("swapped", answer.Swapped, []bool{true})
		s.same("no gate was asked for", len(answer.Gates), 0)
		g.Version = 1
		s.same("read", s.gate("x"), g)
		s.same("its state holds something", g.State.Phase != gate.Closed && g.State.InFlight == 4, true)
		g.State, g.Grants, g.Disabled, g.OpenAt = gate.State{}, nil, "", time.Time{}
		s.swap(at(1), p, store.Swap{Gate: g})
		g.Version = 2
		s.same("emptied", s.gate("x"), g)
	}},
	{"a lost swap fails nothing and is answered with the row", func(s *flowScript) {
		p := s.process(t0)
		x, y := store.Gate{Target: "x", Room: 1}, store.Gate{Target: "y", Room: 2}
		s.swap(t0, p, store.Swap{Gate: x}, store.Swap{Gate: y})
		seq := s.add(t0, to("z"))[0]
		fresh := y
		fresh.Version, fresh.Room = 1, 20
		for _, version := range []int64{0, 2, 99} {
			late := store.Gate{Target: "x", Version: version, Room: 77}
			answer := s.turn(store.Turn{
				Process: p, Now: at(1), Swaps: []store.Swap{{Gate: late}, {Gate: fresh}}, Lanes: []store.LaneClaim{everything},
			})
			s.same("swapped", answer.Swapped, []bool{false, version == 0})
			x.Version = 1
			i := slices.IndexFunc(answer.Gates, func(g store.Gate) bool { return g.Target == "x" })
			s.same("the row as it is", answer.Gates[i], x)
			s.same("untouched", s.gate("x"), x)
		}
		s.inState(job.Running, seq)
		s.same("the other swap", []any{s.gate("y").Room, s.gate("y").Version}, []any{20, int64(2)})
	}},
	{"a swap of a row that is not there is lost", func(s *flowScript) {
		p := s.process(t0)
		answer := s.turn(store.Turn{Process: p, Now: t0, Swaps: []store.Swap{{Gate: store.Gate{Target: "x", Version: 3}}}})
		s.same("answer", []any{answer.Swapped, answer.Gates}, []any{[]bool{false}, []store.Gate{{Target: "x", Room: store.NoLimit}}})
	}},
	{"swaps come last, and the answer knows them", func(s *flowScript) {
		p := s.process(t0)
		seq := s.add(t0, to("x"))[0]
		shut := store.Gate{Target: "x", OpenAt: store.Never}
		answer := s.turn(store.Turn{Process: p, Now: t0, Swaps: []store.Swap{{Gate: shut}}, Lanes: []store.LaneClaim{everything}})
		shut.Version = 1
		s.same("claimed before", seqsOf(answer.Claimed), []int64{seq})
		s.same("answered after", answer.Gates, []store.Gate{shut})
	}},
	{"a lost process changes no gate", func(s *flowScript) {
		p := s.process(t0)
		s.reap(at(30), p, crashed(at(30)))
		_, err := s.Turn(s.ctx, store.Turn{Process: p, Now: at(31), Swaps: []store.Swap{{Gate: store.Gate{Target: "x"}}}})
		s.refused(err, store.ErrLostProcess)
		s.same("version", s.gate("x").Version, int64(0))
	}},
	{"a refused turn changes no gate", func(s *flowScript) {
		p := s.process(t0)
		_, err := s.Turn(s.ctx, store.Turn{
			Process: p, Now: t0, Settles: []store.Settle{{To: job.Running}}, Swaps: []store.Swap{{Gate: store.Gate{Target: "x"}}},
		})
		s.refused(err, store.ErrState)
		s.same("version", s.gate("x").Version, int64(0))
	}},
	{"discovery passes a shut target over until it opens", func(s *flowScript) {
		p := s.process(t0)
		seqs := s.add(t0, to("x"), to("y"))
		s.shut(t0, p, at(30), store.NoLimit)
		c := everything
		c.Lanes = 1
		s.same("the other", seqsOf(s.lanes(t0, p, c).Claimed), seqs[1:])
		s.found("shut", t0, p)
		s.same("next due", s.nextDue(), at(30))
		s.found("still", at(29.999999), p)
		s.found("open", at(30), p, seqs[0])
	}},
	{"a job that comes while it is shut waits too", func(s *flowScript) {
		p := s.process(t0)
		seqs := s.add(t0, to("x"))
		s.shut(t0, p, at(30), store.NoLimit)
		s.found("shut", at(1), p)
		seqs = append(seqs, s.add(at(2), to("x"))...)
		s.found("still", at(3), p)
		s.found("open", at(30), p, seqs...)
	}},
	{"never means not before a swap with wake", func(s *flowScript) {
		p := s.process(t0)
		seqs := s.add(t0, to("x"), job.New{Kind: "mail", Queue: "bulk", Target: "x"})
		bulk := everything
		bulk.Queue = "bulk"
		s.shut(t0, p, store.Never, store.NoLimit)
		s.same("shut", len(s.lanes(t0, p, everything, bulk).Claimed), 0)
		s.same("next due", s.nextDue(), time.Time{})
		s.same("a year later", len(s.lanes(at(3e7), p, everything, bulk).Claimed), 0)
		g := s.gate("x")
		g.OpenAt = time.Time{}
		s.swap(at(5), p, store.Swap{Gate: g, Wake: true})
		if due := s.nextDue(); due.After(at(5)) || due.IsZero() {
			s.Fatalf("next due %s, want until %s", due, at(5))
		}
		s.same("woken, in all queues", seqsOf(s.lanes(at(5), p, everything, bulk).Claimed), seqs)
	}},
	{"a wake brings looks to the time of opening", func(s *flowScript) {
		p := s.process(t0)
		seq := s.add(t0, to("x"))[0]
		s.shut(t0, p, store.Never, store.NoLimit)
		s.found("shut", t0, p)
		g := s.gate("x")
		g.OpenAt = at(20)
		s.swap(at(5), p, store.Swap{Gate: g, Wake: true})
		s.found("not yet", at(19), p)
		s.found("open", at(20), p, seq)
	}},
	{"a wake ends rests and holds", func(s *flowScript) {
		p := s.process(t0)
		first, second := s.firstAndRetry(p)
		s.hold(t0, p, "x", false, at(600))
		s.swap(at(2), p, store.Swap{Gate: store.Gate{Target: "x", Room: store.NoLimit}, Wake: true})
		s.found("found", at(2), p, first, second)
	}},
	{"room bounds what discovery takes", func(s *flowScript) {
		p := s.process(t0)
		seqs := s.add(t0, to("x"), to("x"), to("x"), to("y"))
		s.shut(t0, p, time.Time{}, 2)
		answer := s.lanes(t0, p, everything)
		s.same("claimed", seqsOf(answer.Claimed), []int64{seqs[0], seqs[1], seqs[3]})
		s.same("gates", []any{answer.Gates[0].Room, answer.Gates[1].Room}, []any{2, store.NoLimit})
		s.same("left", answer.Left, []store.LaneName{{Queue: job.DefaultQueue, Target: "x"}})
		s.found("the rest after a rest", t0.Add(store.LaneRest), p, seqs[2])
	}},
	{"without room a lane rests", func(s *flowScript) {
		p := s.process(t0)
		seqs := s.add(t0, to("x"), to("y"))
		s.shut(t0, p, time.Time{}, 0)
		c := everything
		c.Lanes = 1
		s.same("passed over", seqsOf(s.lanes(t0, p, c).Claimed), seqs[1:])
		s.same("next due", s.nextDue(), t0.Add(store.LaneRest))
		g := s.gate("x")
		g.Room = 5
		s.swap(at(0.1), p, store.Swap{Gate: g})
		s.found("later", t0.Add(store.LaneRest), p, seqs[0])
	}},
	{"an operator's swap leaves an audit row, a lost one none", func(s *flowScript) {
		order := store.AuditRow{Actor: "ann", Act: "target.pause", What: "x", Detail: "for repairs"}
		g := store.Gate{Target: "x", OpenAt: store.Never, Disabled: "gone"}
		ok, err := s.SwapGate(s.ctx, at(3), order, store.Swap{Gate: g})
		s.must(err)
		s.same("swapped", ok, true)
		ok, err = s.SwapGate(s.ctx, at(4), order, store.Swap{Gate: g})
		s.must(err)
		s.same("lost", ok, false)
		rows, err := s.Audit(s.ctx, 9)
		s.must(err)
		order.At = at(3)
		s.same("audit", rows, []store.AuditRow{order})
		g.Version = 1
		s.same("gate", s.gate("x"), g)
	}},
	{"of a crowd that inserts one wins, and each swap after it", func(s *flowScript) {
		var processes []int64
		for range crowd {
			processes = append(processes, s.process(t0))
		}
		for round := range int64(10) {
			var won atomic.Int64
			s.together(func(n int) error {
				answer, err := s.Turn(s.ctx, store.Turn{
					Process: processes[n], Now: t0, Swaps: []store.Swap{{Gate: store.Gate{Target: "x", Version: round, Room: n}}},
				})
				if err != nil {
					return err
				}
				if answer.Swapped[0] {
					won.Add(1)
				} else if len(answer.Gates) != 1 || answer.Gates[0].Version != round+1 {
					return fmt.Errorf("a lost swap was answered with %+v", answer.Gates)
				}
				return nil
			})
			s.same("winners", won.Load(), int64(1))
			s.same("version", s.gate("x").Version, round+1)
		}
	}},
}

var grantRules = []flowRule{
	{"a reap gives permits back with the leases", func(s *flowScript) {
		p, q := s.process(t0), s.process(t0)
		seqs := s.add(t0, to("x"), to("x"))
		c := named("x", 2)
		c.Begin = 1
		s.lanes(t0, p, c)
		g := granted(s.gate("x"), t0, store.Grant{Process: p, Firsts: 2, Retries: 1}, store.Grant{Process: q, Retries: 2})
		g.OpenAt, g.Room, g.Policy = at(500), 0, "webhook"
		s.swap(t0, p, store.Swap{Gate: g})
		y := granted(s.gate("y"), t0, store.Grant{Process: q, Firsts: 1})
		s.swap(t0, p, store.Swap{Gate: y})
		before := s.gate("x")
		n, ok := s.reap(at(30), p, crashed(at(30)))
		s.same("ended", []any{n, ok}, []any{2, true})
		want := store.Abandoned(before, p, at(30))
		want.Version = before.Version + 1
		s.same("gate", s.gate("x"), want)
		s.same("in flight", []int{want.State.InFlight, want.State.Retries}, []int{2, 2})
		s.same("grants", want.Grants, []store.Grant{{Process: q, Retries: 2}})
		s.same("another gate", s.gate("y").Version, int64(1))
		s.same("woken", len(s.discover(at(30), q)), 2)
		s.inState(job.Running, seqs...)
	}},
	{"a lost probe frees its place", func(s *flowScript) {
		p := s.process(t0)
		c := gate.Config{Breaker: policy.Breaker{Consecutive: 1, Open: time.Minute, Cap: time.Hour}}
		g := s.gate("x")
		g.State, _ = gate.Step(c, g.State, gate.Ask{}, t0, 0.5)
		g.State, _ = gate.Step(c, g.State, gate.Done{Failure: failure.Failure{Blame: failure.BlameTarget}}, t0, 0.5)
		g.State, _ = gate.Step(c, g.State, gate.Ask{}, at(61), 0.5)
		g.SetGrant(store.Grant{Process: p, Firsts: 1, Probe: true})
		s.same("probing", []any{g.State.Phase, g.State.Probing}, []any{gate.HalfOpen, true})
		s.swap(at(61), p, store.Swap{Gate: g})
		s.reap(at(90), p, crashed(at(90)))
		after := s.gate("x")
		s.same("free", []any{after.State.Phase, after.State.Probing, after.State.InFlight, len(after.Grants)}, []any{gate.HalfOpen, false, 0, 0})
	}},
	{"a reap that does not happen gives nothing back", func(s *flowScript) {
		p := s.process(t0)
		s.swap(t0, p, store.Swap{Gate: granted(s.gate("x"), t0, store.Grant{Process: p, Firsts: 1})})
		s.beat(at(1), p)
		_, ok, err := s.Reap(s.ctx, at(30), p, 0, crashed(at(30)))
		s.must(err)
		s.same("reaped", ok, false)
		s.same("gate", []any{s.gate("x").Version, len(s.gate("x").Grants)}, []any{int64(1), 1})
	}},
	{"a process that holds a permit cannot leave", func(s *flowScript) {
		p := s.process(t0)
		g := granted(s.gate("x"), t0, store.Grant{Process: p, Retries: 1})
		s.swap(t0, p, store.Swap{Gate: g})
		s.must(s.Leave(s.ctx, p))
		_, listed := s.seen(p)
		s.same("listed", listed, true)
		g = s.gate("x")
		g.State, _ = gate.Step(gate.Config{}, g.State, gate.Abandon{Retry: true, Unused: true}, at(1), 0)
		g.SetGrant(store.Grant{Process: p})
		s.swap(at(1), p, store.Swap{Gate: g})
		s.must(s.Leave(s.ctx, p))
		_, listed = s.seen(p)
		s.same("gone", listed, false)
	}},
	{"a swap beside the reap of its own process leaves no permit behind", func(s *flowScript) {
		for round := range 10 {
			p, target := s.process(t0), fmt.Sprint("t", round)
			seen, _ := s.seen(p)
			s.together(func(n int) error {
				if n == 0 {
					_, _, err := s.Reap(s.ctx, at(30), p, seen.Beat, crashed(at(30)))
					return err
				}
				g := granted(store.Gate{Target: target, Room: 1}, t0, store.Grant{Process: p, Firsts: n})
				_, err := s.Turn(s.ctx, store.Turn{Process: p, Now: t0, Swaps: []store.Swap{{Gate: g}}})
				if errors.Is(err, store.ErrLostProcess) {
					return nil
				}
				return err
			})
			g := s.gate(target)
			s.same("left", []any{len(g.Grants), g.State.InFlight}, []any{0, 0})
		}
	}},
	{"a kept lease of a lane stays with its process", func(s *flowScript) {
		p := s.process(t0)
		s.add(t0, to("x"))
		c := named("x", 1)
		c.Begin = 1
		j := s.lanes(t0, p, c).Claimed[0]
		s.settled(at(1), p, kept(j, at(1), 10*time.Second))
		s.found("nothing to discover", at(20), p)
		s.same("running", s.job(j.Seq).State, job.Running)
	}},
}
