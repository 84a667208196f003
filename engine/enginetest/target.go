package enginetest

import (
	"fmt"
	"time"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

const crm = "https://crm.test"

var targetRules = []rule{
	{"targets are listed by name, part by part", func(b *bench) {
		for _, name := range []string{"c", "a", "b"} {
			b.add(engine.NewJob{Kind: "hook", Target: name})
		}
		var names []string
		page := engine.Page{Limit: 2}
		for range 2 {
			list, err := b.Targets(b.ctx, page)
			b.must(err)
			for _, t := range list.Targets {
				names = append(names, t.Name)
			}
			page.Cursor = list.Next
		}
		b.same("names", names, []string{"a", "b", "c"})
		b.same("next of the last part", page.Cursor, "")
		_, err := b.Targets(b.ctx, engine.Page{Limit: -1})
		b.refused(err, engine.ErrInvalid, "limit -1: must be 1 to 1000")
	}},
	{"what waits is counted by queue, first attempts and retries apart", func(b *bench) {
		b.add(engine.NewJob{Kind: "hook", Target: crm})
		b.add(engine.NewJob{Kind: "hook", Target: crm, Queue: "bulk", DueAt: T0.Add(time.Hour)})
		got, err := b.Target(b.ctx, crm)
		b.must(err)
		b.same("waiting", []int{got.Firsts, got.Retries}, []int{2, 0})
		b.same("lanes", got.Lanes, []engine.TargetLane{
			{Queue: "bulk", Firsts: 1, LookAt: T0.Add(time.Hour)}, {Queue: "default", Firsts: 1, LookAt: T0},
		})
		b.same("next look", got.LookAt, T0)
		b.same("held", []string{got.Held, got.RetryHeld}, []string{"none", "none"})
		b.same("sentences", codes(got.Reasons), []string{"open", "waiting"})
	}},
	{"a breaker is told with what it holds", func(b *bench) {
		b.work([]string{"default"}, "hook")
		id := b.add(engine.NewJob{Kind: "hook", Target: crm, Policy: "webhook"})
		b.gate(crm, failures()...)
		b.clock.Advance(10 * time.Second)
		got, err := b.Target(b.ctx, crm)
		b.must(err)
		b.same("breaker", got.Breaker, engine.TargetBreaker{Phase: gate.Open, OpenUntil: T0.Add(30 * time.Second), Trips: 1})
		b.same("held", []any{got.Held, got.Until}, []any{"breaker", T0.Add(30 * time.Second)})
		b.same("holds", got.Holds, []engine.TargetHold{{Of: "all", From: T0}})
		b.same("limits", []any{got.Limits.Policy, got.Limits.Version, got.Limits.Concurrency, got.Limits.MaxHold, got.Limits.OnHoldEnd},
			[]any{"webhook", policy.MustPreset("webhook").Version, 4, 1860.0, "park"})
		b.same("budget", []any{got.Limits.Budget, *got.RetryRoom}, []any{"retries in any 10s up to 0.2 × the first attempts in it + 10", 10})
		b.same("text", got.Text, "target https://crm.test:\n"+
			"- the breaker of target https://crm.test holds all that calls it since 09:00:00Z (10s), as it keeps failing (opened once): one probe may start at 09:00:30Z (in 20s)\n"+
			"- 1 job waits for it: 1 first attempt, 0 retries; workers look at them next at 09:00:30Z (in 20s)\n")
		b.why(id, "was enqueued at 09:00:00Z and has not started yet; due since 09:00:00Z (10s ago)",
			"the breaker of target https://crm.test holds all that calls it since 09:00:00Z (10s), as it keeps failing (opened once): one probe may start at 09:00:30Z (in 20s)",
			"it has been held 10s of at most 31m (max_hold of policy webhook); if that goes on until 09:31:00Z, it is parked (target_down), its attempts unspent, until the target is well",
			"an open breaker and an empty budget count towards max_hold, a pause that the target asks for does not")
		b.explained(false, "the oldest due job has waited since 09:00:00Z (10s)",
			"the breaker of target https://crm.test holds all that calls it since 09:00:00Z (10s), as it keeps failing (opened once): one probe may start at 09:00:30Z (in 20s); 1 of 1 waiting job")
	}},
	{"a job parked because its target is down waits for it, and loses nothing", func(b *bench) {
		b.work([]string{"default"}, "hook")
		id := b.add(engine.NewJob{Kind: "hook", Target: crm, Policy: "webhook"})
		b.add(engine.NewJob{Kind: "hook", Target: crm, Policy: "webhook"})
		b.gate(crm, failures()...)
		b.clock.Advance(10 * time.Second)
		b.park(crm, retry.CauseTargetDown, 2)
		b.why(id, "was parked: its target https://crm.test was down and held it for longer than max_hold (now 31m) of policy webhook allows",
			"the breaker of target https://crm.test holds all that calls it since 09:00:00Z (10s), as it keeps failing (opened once): one probe may start at 09:00:30Z (in 20s)",
			"the wait has cost it no attempt: 6 of 6 attempts are left",
			"it is released by itself, in its order, when the target is well; until then one of the parked jobs goes out at least once a minute to probe the target",
			"sooner: ebb target probe https://crm.test calls the target now; ebb target resume https://crm.test releases all that was parked for the target, ebb job retry "+id+" this job alone")
		w, err := b.Why(b.ctx, id)
		b.must(err)
		b.same("facts", []any{w.Facts.Gate, w.Facts.HeldBy, w.Facts.HeldUntil, w.Facts.Cause}, []any{crm, "breaker", T0.Add(30 * time.Second), retry.CauseTargetDown})
	}},
	{"permits are told by process", func(b *bench) {
		b.work([]string{"default"}, "hook")
		b.swap(crm, func(g *store.Gate) {
			g.Policy = "webhook"
			for range 3 {
				g.State, _ = gate.Step(gate.Config{}, g.State, gate.Ask{}, b.clock.Now(), 0)
			}
			g.State, _ = gate.Step(gate.Config{}, g.State, gate.Ask{Retry: true}, b.clock.Now(), 0)
			g.SetGrant(store.Grant{Process: b.process, Firsts: 3, Retries: 1})
		})
		got, err := b.Target(b.ctx, crm)
		b.must(err)
		b.same("grants", got.Grants, []engine.TargetGrant{{Process: b.process, Host: "alpha", PID: 4711, Alive: true, Firsts: 3, Retries: 1}})
		b.same("in flight", []any{got.InFlight, got.InFlightRetries, got.Held}, []any{4, 1, "concurrency"})
	}},
	{"only targets that hold work back", func(b *bench) {
		for _, name := range []string{"a", "b", "c", "d"} {
			b.add(engine.NewJob{Kind: "hook", Target: name})
		}
		for _, name := range []string{"b", "d"} {
			_, err := b.PauseTarget(b.ctx, name, time.Time{})
			b.must(err)
		}
		list := func(p engine.Page) (names []string, next string) {
			got, err := b.Targets(b.ctx, p)
			b.must(err)
			for _, t := range got.Targets {
				names = append(names, fmt.Sprint(t.Name, " ", t.Held, " ", t.Firsts))
			}
			return names, got.Next
		}
		names, next := list(engine.Page{Held: true})
		b.same("held", []any{names, next}, []any{[]string{"b operator 1", "d operator 1"}, ""})
		names, next = list(engine.Page{Held: true, Limit: 1})
		b.same("first", []any{names, next}, []any{[]string{"b operator 1"}, "b"})
		names, next = list(engine.Page{Held: true, Limit: 1, Cursor: next})
		b.same("second", []any{names, next}, []any{[]string{"d operator 1"}, ""})
		names, _ = list(engine.Page{Limit: 2})
		b.same("any", names, []string{"a none 1", "b operator 1"})
	}},
	{"a target is paused until it is resumed", func(b *bench) {
		got, err := b.PauseTarget(b.ctx, crm, time.Time{})
		b.must(err)
		b.same("paused", []any{got.Paused, got.Held, got.Until}, []any{true, "operator", time.Time{}})
		b.same("orders", got.Orders, []engine.Act{{At: T0, Actor: Actor, Act: "target.pause", Detail: "until it is resumed"}})
		b.work([]string{"default"}, "hook")
		id := b.add(engine.NewJob{Kind: "hook", Target: crm})
		b.clock.Advance(time.Second)
		b.why(id, "was enqueued at 09:00:00Z and has not started yet; due since 09:00:00Z (1s ago)",
			"target https://crm.test is paused since 09:00:00Z (1s) by order of maya; nothing that calls it starts before: ebb target resume https://crm.test")
		b.same("taken", b.discover("hook"), 0)
		resumed, err := b.ResumeTarget(b.ctx, crm, false)
		b.must(err)
		b.same("resumed", []any{resumed.Paused, resumed.Held, len(resumed.Redrives)}, []any{false, "none", 0})
		b.same("taken", b.discover("hook"), 1)
	}},
	{"a pause may have an end", func(b *bench) {
		b.work([]string{"default"}, "hook")
		b.add(engine.NewJob{Kind: "hook", Target: crm})
		_, err := b.PauseTarget(b.ctx, crm, time.Time{})
		b.must(err)
		b.same("taken", b.discover("hook"), 0)
		got, err := b.PauseTarget(b.ctx, crm, T0.Add(time.Minute)) // it replaces the first
		b.must(err)
		b.same("paused", []any{got.Paused, got.PausedUntil, got.Until}, []any{true, T0.Add(time.Minute), T0.Add(time.Minute)})
		b.same("taken", b.discover("hook"), 0)
		b.clock.Advance(time.Minute)
		b.same("taken", b.discover("hook"), 1)
		_, err = b.PauseTarget(b.ctx, crm, T0)
		b.refused(err, engine.ErrInvalid, "target: https://crm.test: until 2026-02-21T09:00:00Z: must be in the future")
	}},
	{"a disabled target is resumed with what was parked for it, in order", func(b *bench) {
		b.work([]string{"default"}, "hook")
		first := b.add(engine.NewJob{Kind: "hook", Target: crm})
		second := b.add(engine.NewJob{Kind: "hook", Target: crm})
		other := b.add(engine.NewJob{Kind: "hook", Target: "other"})
		b.park(crm, retry.CauseTargetDown, 1)
		b.park(crm, job.Disabled, 1)
		b.park("other", job.Disabled, 1)
		b.swap(crm, func(g *store.Gate) { g.Disabled, g.OpenAt = "410 Gone", store.Never })
		got, err := b.Target(b.ctx, crm)
		b.must(err)
		b.same("disabled", []any{got.Disabled, got.Held, got.RetryHeld}, []any{"410 Gone", "disabled", "disabled"})
		kept, err := b.ResumeTarget(b.ctx, crm, true)
		b.must(err)
		b.same("kept parked", []any{kept.Disabled, len(kept.Redrives)}, []any{"", 0})
		resumed, err := b.ResumeTarget(b.ctx, crm, false)
		b.must(err)
		var moved []string
		for _, r := range resumed.Redrives {
			_, err := b.FinishRedrive(b.ctx, r.ID, nil)
			b.must(err)
			moved = append(moved, string(r.Filter.Cause))
		}
		b.same("orders", moved, []string{"target_down", "disabled"})
		b.same("states", b.states(first, second, other), []job.State{job.Queued, job.Queued, job.Parked})
	}},
	{"a pause does not open a disabled target when it ends", func(b *bench) {
		b.work([]string{"default"}, "hook")
		b.add(engine.NewJob{Kind: "hook", Target: crm})
		b.swap(crm, func(g *store.Gate) { g.Disabled, g.OpenAt = "410 Gone", store.Never })
		_, err := b.PauseTarget(b.ctx, crm, T0.Add(time.Minute))
		b.must(err)
		b.clock.Advance(time.Hour)
		b.same("taken", b.discover("hook"), 0)
		_, err = b.ResumeTarget(b.ctx, crm, false)
		b.must(err)
		b.same("taken", b.discover("hook"), 1)
	}},
	{"an order on a target needs one", func(b *bench) {
		_, err := b.Target(b.ctx, "nowhere")
		b.refused(err, engine.ErrNotFound, "target: nowhere: no such target: no job that waits calls it, and none was ever called")
		_, err = b.ResumeTarget(b.ctx, "nowhere", false)
		b.refused(err, engine.ErrNotFound, "target: nowhere: no such target: no job that waits calls it, and none was ever called")
		_, err = b.PauseTarget(b.ctx, "", time.Time{})
		b.refused(err, engine.ErrInvalid, "target: the name is empty")
		_, err = b.PauseTarget(b.ctx, "queue:mail", time.Time{})
		b.refused(err, engine.ErrInvalid, "target: queue:mail: it keeps the limits of queue mail; the queue itself is paused and resumed")
	}},
}

// failures are as many calls in a row, each the target's fault, as open the
// breaker of policy webhook.
func failures() []gate.Event {
	var list []gate.Event
	for range policy.MustPreset("webhook").Breaker.Consecutive {
		list = append(list, gate.Ask{}, gate.Done{Failure: down()})
	}
	return list
}

// gate lets things happen at a target as workers of policy webhook tell them.
func (b *bench) gate(target string, events ...gate.Event) {
	b.Helper()
	p := policy.MustPreset("webhook")
	c := gate.Of(&p)
	b.swap(target, func(g *store.Gate) {
		g.Policy = p.Name
		for _, e := range events {
			g.State, _ = gate.Step(c, g.State, e, b.clock.Now(), 0.5)
		}
		if until, shut := gate.Shut(c, g.State, b.clock.Now()); shut {
			g.OpenAt = until
		}
	})
}

// swap changes a gate behind the engine's back.
func (b *bench) swap(target string, change func(*store.Gate)) {
	b.Helper()
	rows, err := b.store.Gates(b.ctx, []string{target})
	b.must(err)
	g := rows[0]
	change(&g)
	ok, err := b.store.SwapGate(b.ctx, b.clock.Now(), store.AuditRow{Actor: "worker", Act: "target.step", What: target}, store.Swap{Gate: g, Wake: true})
	b.must(err)
	b.same("swapped", ok, true)
}

// discover claims of lanes as a worker does and returns how many it got.
func (b *bench) discover(kinds ...string) int {
	b.Helper()
	turned, err := b.store.Turn(b.ctx, store.Turn{
		Process: b.process, Now: b.clock.Now(),
		Lanes: []store.LaneClaim{{Queue: job.DefaultQueue, Kinds: kinds, Lanes: 10, Firsts: 10, Retries: 10, Limit: 10}},
	})
	b.must(err)
	return len(turned.Claimed)
}

// park ends the waiting of n jobs of a target.
func (b *bench) park(target string, cause job.Cause, n int) {
	b.Helper()
	got, err := b.store.EndWaiting(b.ctx, b.clock.Now(), store.Ending{Target: target, DueBy: b.clock.Now(), Any: true, To: job.Parked, Cause: cause, Limit: n})
	b.must(err)
	b.same("parked", store.EndTotal(got), n)
}

func (b *bench) states(ids ...string) []job.State {
	b.Helper()
	var list []job.State
	for _, id := range ids {
		j, err := b.Job(b.ctx, id)
		b.must(err)
		list = append(list, j.State)
	}
	return list
}

func codes(reasons []engine.Reason) []string {
	var list []string
	for _, r := range reasons {
		list = append(list, r.Code)
	}
	return list
}
