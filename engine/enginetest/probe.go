package enginetest

import (
	"fmt"
	"time"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// openCRM is what an order tells that called a target whose breaker was open.
var openCRM = engine.Probe{
	Target: crm, State: engine.ProbeSent, Held: "breaker", Until: T0.Add(30 * time.Second),
	Text: "target https://crm.test is called now, as the probe; its breaker was open until 09:00:30Z",
}

var probeRules = []rule{
	{"an open breaker is probed by hand", func(b *bench) {
		b.work([]string{"default"}, "hook")
		b.add(engine.NewJob{Kind: "hook", Target: crm, Policy: "webhook"})
		b.add(engine.NewJob{Kind: "hook", Target: crm, Policy: "webhook"})
		b.gate(crm, failures()...)
		b.same("taken", b.discover("hook"), 0)
		b.clock.Advance(time.Second)
		got, err := b.ProbeTarget(b.ctx, crm)
		b.must(err)
		b.same("probe", got.Probe, openCRM)
		b.same("breaker", got.Breaker, engine.TargetBreaker{Phase: gate.HalfOpen, Trips: 1})
		b.same("held", []any{got.Held, got.RetryHeld}, []any{"none", "none"})
		b.same("orders", got.Orders[0], engine.Act{At: T0.Add(time.Second), Actor: Actor, Act: "target.probe"})
		b.same("sentences", codes(got.Reasons), []string{"probe", "probe_ordered", "waiting"})
		b.same("who", got.Reasons[1].Text, "a probe was last ordered at 09:00:01Z (0s ago) by maya")
		b.same("taken", b.discover("hook"), 1)
	}},
	{"a Retry-After is ended by a probe", func(b *bench) {
		b.work([]string{"default"}, "hook")
		b.add(engine.NewJob{Kind: "hook", Target: crm, Policy: "webhook"})
		b.throttle(time.Minute)
		b.same("taken", b.discover("hook"), 0)
		got, err := b.ProbeTarget(b.ctx, crm)
		b.must(err)
		b.same("probe", got.Probe, engine.Probe{
			Target: crm, State: engine.ProbeSent, Held: "retry_after", Until: T0.Add(time.Minute),
			Text: "target https://crm.test is called now, as the probe; it had asked for a pause until 09:01:00Z",
		})
		b.same("asked", []any{got.AskedUntil, got.Breaker.Phase}, []any{time.Time{}, gate.HalfOpen})
		b.same("taken", b.discover("hook"), 1)
	}},
	{"one probe is out at a time, and none is needed where nothing holds", func(b *bench) {
		b.gate(crm, failures()...)
		b.clock.Advance(time.Minute)
		b.gate(crm, gate.Ask{})
		got, err := b.ProbeTarget(b.ctx, crm)
		b.must(err)
		b.same("out", []any{got.Probe.State, got.Probe.Text, got.Breaker.Probing},
			[]any{engine.ProbeOut, "the probe of target https://crm.test is out already: its outcome decides", true})
		b.gate(crm, gate.Done{OK: true, Probe: true})
		got, err = b.ProbeTarget(b.ctx, crm)
		b.must(err)
		b.same("none", []any{got.Probe.State, got.Probe.Text, got.Breaker.Phase},
			[]any{engine.ProbeNone, "nothing holds target https://crm.test: it may be called", gate.Ramping})
		b.same("orders", acts(got.Orders), []string{"target.step", "target.step", "target.step"})
	}},
	{"a probe does not lift a pause", func(b *bench) {
		b.add(engine.NewJob{Kind: "hook", Target: crm, Policy: "webhook"})
		b.gate(crm, failures()...)
		_, err := b.PauseTarget(b.ctx, crm, time.Time{})
		b.must(err)
		_, err = b.ProbeTarget(b.ctx, crm)
		b.refused(err, engine.ErrState, "target: https://crm.test: it is paused: nothing is sent before it is resumed (since 09:00:00Z by order of maya)")
		b.same("hint", hint(err), "ebb target resume https://crm.test")
		resumed, err := b.ResumeTarget(b.ctx, crm, false)
		b.must(err)
		b.same("probe", *resumed.Probe, openCRM)
		b.same("breaker", resumed.Breaker.Phase, gate.HalfOpen)
		b.same("detail", resumed.Orders[0].Detail, "its breaker was open until 09:00:30Z")
		b.swap(crm, func(g *store.Gate) { g.Disabled, g.OpenAt = "410 Gone", store.Never })
		_, err = b.ProbeTarget(b.ctx, crm)
		b.refused(err, engine.ErrState, "target: https://crm.test: it is disabled (410 Gone): nothing is sent before it is resumed")
		b.same("hint", hint(err), "ebb target resume https://crm.test")
	}},
	{"a probe of a target for which nothing is due makes the next retry due", func(b *bench) {
		b.work([]string{"default"}, "hook")
		later := b.add(engine.NewJob{Kind: "hook", Target: crm, Policy: "webhook", DueAt: T0.Add(time.Hour)})
		sooner := b.add(engine.NewJob{Kind: "hook", Target: crm, Policy: "webhook", DueAt: T0.Add(time.Minute)})
		due := func() []time.Time {
			var list []time.Time
			for _, id := range []string{later, sooner} {
				j, err := b.Job(b.ctx, id)
				b.must(err)
				list = append(list, j.DueAt)
			}
			return list
		}
		b.gate(crm, failures()...)
		got, err := b.ProbeTarget(b.ctx, crm)
		b.must(err)
		b.same("probe", got.Probe, openCRM)
		b.same("due", due(), []time.Time{T0.Add(time.Hour), T0})
		_, err = b.ProbeTarget(b.ctx, crm)
		b.must(err)
		b.same("one is enough", due(), []time.Time{T0.Add(time.Hour), T0})
		b.same("taken", b.discover("hook"), 1)
	}},
	{"so does a resume", func(b *bench) {
		b.work([]string{"default"}, "hook")
		b.add(engine.NewJob{Kind: "hook", Target: crm, Policy: "webhook", DueAt: T0.Add(time.Hour)})
		parked := b.add(engine.NewJob{Kind: "hook", Target: crm, Policy: "webhook"})
		b.park(crm, retry.CauseTargetDown, 1)
		b.gate(crm, failures()...)
		resumed, err := b.ResumeTarget(b.ctx, crm, true)
		b.must(err)
		b.same("probe", *resumed.Probe, openCRM)
		b.same("kept parked", b.states(parked), []job.State{job.Parked})
		b.same("taken", b.discover("hook"), 1)
	}},
	{"a probe of a target for which nothing waits takes a parked job", func(b *bench) {
		b.work([]string{"default"}, "hook")
		b.gate(crm, failures()...)
		got, err := b.ProbeTarget(b.ctx, crm)
		b.must(err)
		b.same("text", got.Probe.Text, "nothing waits for target https://crm.test: the next job that calls it is the probe; its breaker was open until 09:00:30Z")
		oldest := b.add(engine.NewJob{Kind: "hook", Target: crm, Policy: "webhook"})
		newer := b.add(engine.NewJob{Kind: "hook", Target: crm, Policy: "webhook"})
		b.park(crm, retry.CauseTargetDown, 2)
		got, err = b.ProbeTarget(b.ctx, crm)
		b.must(err)
		b.same("text", got.Probe.Text, "target https://crm.test is called now, as the probe; its breaker waited for a probe")
		b.same("states", b.states(oldest, newer), []job.State{job.Queued, job.Parked})
		b.same("taken", b.discover("hook"), 1)
	}},
	{"a breaker is closed by hand", func(b *bench) {
		b.work([]string{"default"}, "hook")
		b.gate(crm, failures()...)
		parked := b.add(engine.NewJob{Kind: "hook", Target: crm, Policy: "webhook"})
		b.park(crm, retry.CauseTargetDown, 1)
		b.add(engine.NewJob{Kind: "hook", Target: crm, Policy: "webhook"})
		b.throttle(time.Hour)
		b.clock.Advance(time.Second)
		got, err := b.CloseTarget(b.ctx, crm)
		b.must(err)
		b.same("breaker", []any{got.Breaker, got.AskedUntil, got.Held}, []any{engine.TargetBreaker{Phase: gate.Closed}, time.Time{}, "none"})
		b.same("holds", got.Holds, []engine.TargetHold{{Of: "asked", From: T0, To: T0.Add(time.Second)}})
		b.same("order", got.Orders[0], engine.Act{
			At: T0.Add(time.Second), Actor: Actor, Act: "target.close", Detail: "it had asked for a pause until 10:00:00Z",
		})
		b.same("who", got.Reasons[1], engine.Reason{Code: "closed_by_hand", Text: "its breaker was last closed by hand at 09:00:01Z (0s ago) by maya"})
		b.same("redrives", []any{len(got.Redrives), got.Redrives[0].Moved, got.Redrives[0].Done()}, []any{1, int64(1), true})
		b.same("states", b.states(parked), []job.State{job.Queued})
		b.same("taken", b.discover("hook"), 2)
	}},
	{"a pause outlasts a breaker that is closed by hand", func(b *bench) {
		b.gate(crm, failures()...)
		_, err := b.PauseTarget(b.ctx, crm, time.Time{})
		b.must(err)
		got, err := b.CloseTarget(b.ctx, crm)
		b.must(err)
		b.same("held", []any{got.Held, got.Paused, got.Breaker.Phase}, []any{"operator", true, gate.Closed})
	}},
	{"an order to probe or close needs a target", func(b *bench) {
		_, err := b.ProbeTarget(b.ctx, "nowhere")
		b.refused(err, engine.ErrNotFound, "target: nowhere: no such target: no job that waits calls it, and none was ever called")
		_, err = b.CloseTarget(b.ctx, "nowhere")
		b.refused(err, engine.ErrNotFound, "target: nowhere: no such target: no job that waits calls it, and none was ever called")
		_, err = b.ProbeTarget(b.ctx, "")
		b.refused(err, engine.ErrInvalid, "target: the name is empty")
		_, err = b.CloseTarget(b.ctx, "queue:mail")
		b.refused(err, engine.ErrInvalid, "target: queue:mail: it keeps the limits of queue mail; the queue itself is paused and resumed")
	}},
	{"a retry calls the target of its job now", func(b *bench) {
		b.work([]string{"default"}, "hook")
		waiting := b.add(engine.NewJob{Kind: "hook", Target: crm, Policy: "webhook", DueAt: T0.Add(time.Hour)})
		free := b.add(engine.NewJob{Kind: "hook", Target: "other", Policy: "webhook", DueAt: T0.Add(time.Hour)})
		b.gate(crm, failures()...)
		j, err := b.Retry(b.ctx, free)
		b.must(err)
		b.same("nothing held it", j.Probe, (*engine.Probe)(nil))
		j, err = b.Retry(b.ctx, waiting)
		b.must(err)
		b.same("probe", *j.Probe, openCRM)
		t, err := b.Target(b.ctx, crm)
		b.must(err)
		b.same("order", t.Orders[0], engine.Act{At: T0, Actor: Actor, Act: "target.probe", Detail: "retry of job " + waiting})
		b.same("taken", b.discover("hook"), 2)
		plain, err := b.Job(b.ctx, waiting)
		b.must(err)
		b.same("only the answer tells", plain.Probe, (*engine.Probe)(nil))
	}},
	{"a retry says that the target is paused", func(b *bench) {
		id := b.add(engine.NewJob{Kind: "hook", Target: crm, Policy: "webhook"})
		_, err := b.PauseTarget(b.ctx, crm, time.Time{})
		b.must(err)
		j, err := b.Retry(b.ctx, id)
		b.must(err)
		b.same("probe", *j.Probe, engine.Probe{
			Target: crm, State: engine.ProbePaused, Held: "none",
			Text: "target https://crm.test is paused: nothing is sent before it is resumed (since 09:00:00Z by order of maya)",
			Try:  "ebb target resume https://crm.test",
		})
	}},
	{"retries within a second share one probe", func(b *bench) {
		first := b.add(engine.NewJob{Kind: "hook", Target: crm, Policy: "webhook"})
		second := b.add(engine.NewJob{Kind: "hook", Target: crm, Policy: "webhook"})
		b.gate(crm, failures()...)
		_, err := b.Retry(b.ctx, first)
		b.must(err)
		j, err := b.Retry(b.ctx, second) // it has not gone out yet
		b.must(err)
		b.same("state", j.Probe.State, engine.ProbeSent)
		b.gate(crm, gate.Ask{}, gate.Done{Failure: down(), Probe: true})
		b.clock.Advance(500 * time.Millisecond)
		j, err = b.Retry(b.ctx, second)
		b.must(err)
		b.same("state", []any{j.Probe.State, j.Probe.Text, j.Probe.Try}, []any{
			engine.ProbeFailed, "target https://crm.test was called for another order less than 1s ago and is held again: its breaker was open until 09:01:00Z",
			"ebb target probe https://crm.test",
		})
		b.clock.Advance(500 * time.Millisecond)
		j, err = b.Retry(b.ctx, second)
		b.must(err)
		b.same("state", j.Probe.State, engine.ProbeSent)
	}},
	{"a redrive calls the target that it names", func(b *bench) {
		var ids []string
		for range 12 {
			ids = append(ids, b.add(engine.NewJob{Kind: "hook", Target: crm, Policy: "webhook"}))
		}
		b.dead(crm, 12)
		b.gate(crm, failures()...)
		counted, err := b.Redrive(b.ctx, engine.Order{Filter: engine.Filter{Target: crm}, DryRun: true})
		b.must(err)
		b.same("a dry run calls nobody", counted.Probes, []engine.Probe(nil))
		r, err := b.Redrive(b.ctx, engine.Order{Filter: engine.Filter{Kind: "hook"}, Rate: 0.001})
		b.must(err)
		b.same("of many", []any{r.Probes, r.Moved, r.Matching}, []any{[]engine.Probe(nil), int64(0), 12})
		r, err = b.Redrive(b.ctx, engine.Order{Filter: engine.Filter{Target: crm}, Rate: 0.001})
		b.must(err)
		b.same("of one target", []any{r.Probes, r.Moved}, []any{[]engine.Probe{openCRM}, int64(1)})
		b.same("first", b.states(ids[0], ids[1]), []job.State{job.Queued, job.Failed})
		t, err := b.Target(b.ctx, crm)
		b.must(err)
		b.same("order", t.Orders[0].Detail, "redrive "+r.ID)
	}},
	{"a redrive of few jobs calls their targets", func(b *bench) {
		var ids []string
		for i := range 3 {
			target := fmt.Sprint("t", i%2)
			ids = append(ids, b.add(engine.NewJob{Kind: "hook", Target: target, Policy: "webhook"}))
		}
		for i := range 2 {
			target := fmt.Sprint("t", i)
			b.dead(target, 2-i)
			b.gate(target, failures()...)
		}
		r, err := b.Redrive(b.ctx, engine.Order{Filter: engine.Filter{IDs: ids}})
		b.must(err)
		b.same("answer", []any{len(r.Probes), r.Probes[0].Target, r.Probes[1].Target, r.Moved, r.Done()}, []any{2, "t0", "t1", int64(3), true})
		b.same("states", b.states(ids...), []job.State{job.Queued, job.Queued, job.Queued})
	}},
}

// throttle lets the target ask to be left alone for d.
func (b *bench) throttle(d time.Duration) {
	b.Helper()
	f := down()
	f.Class, f.RetryAfter = failure.Throttled, d
	p := policy.MustPreset("webhook")
	c := gate.Of(&p)
	c.RetryAfter.Max = 0
	b.swap(crm, func(g *store.Gate) {
		g.Policy = "webhook"
		g.State, _ = gate.Step(c, g.State, gate.Done{Failure: f}, b.clock.Now(), 0.5)
		g.OpenAt, _ = gate.Shut(c, g.State, b.clock.Now())
	})
}

// dead fails n waiting jobs of a target.
func (b *bench) dead(target string, n int) {
	b.Helper()
	got, err := b.store.EndWaiting(b.ctx, b.clock.Now(), store.Ending{Target: target, DueBy: b.clock.Now(), Any: true, To: job.Failed, Cause: retry.CauseExpired, Limit: n})
	b.must(err)
	b.same("failed", store.EndTotal(got), n)
}

// down is a failure that blames the target.
func down() failure.Failure {
	f := failure.Of(failure.Server)
	f.Blame = failure.BlameTarget
	return f
}

// hint is what an error says to do next.
func hint(err error) string {
	if h, ok := err.(interface{ Hint() string }); ok {
		return h.Hint()
	}
	return ""
}

func acts(orders []engine.Act) []string {
	var list []string
	for _, o := range orders {
		list = append(list, o.Act)
	}
	return list
}
