package engine

import (
	"testing"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

const crm = "https://crm.test"

// guarded gives the job a target whose gate went through the events, each at
// its instant, under the preset webhook.
func (g *gathered) guarded(events ...happened) {
	p := policy.MustPreset("webhook")
	g.policy, g.job.Policy, g.job.Target = &p, "webhook", crm
	g.flow.gate = &store.Gate{Target: crm, Version: 1, Policy: "webhook", Room: store.NoLimit}
	g.flow.config = gate.Of(&p)
	s := &g.flow.gate.State
	for _, e := range events {
		*s, _ = gate.Step(g.flow.config, *s, e.event, clockAt(e.at), 0.5)
	}
}

type happened struct {
	at    string
	event gate.Event
}

// calls are n calls that end at once: well, or with a failure.
func calls(n int, at string, f *failure.Failure) []happened {
	var list []happened
	for range n {
		done := gate.Done{OK: f == nil}
		if f != nil {
			done.Failure = *f
		}
		list = append(list, happened{at, gate.Ask{}}, happened{at, done})
	}
	return list
}

func down() *failure.Failure {
	f := failure.Of(failure.Server)
	f.Blame = failure.BlameTarget
	return &f
}

const isNextFor = "next: it is next in queue docs for target https://crm.test: it starts as soon as the one live worker has a free slot and a permit of the target"

func flowCases() []whyCase {
	const waits = "enqueued: was enqueued at 11:58:00Z and has not started yet; due since 12:00:00Z (1m23s ago)"
	return append(append(keyCases(waits), downCases()...), []whyCase{
		{"open gate", func(g *gathered) { g.guarded() }, []string{waits, isNextFor}, noon},
		{"one ahead for the target", func(g *gathered) {
			g.guarded()
			g.ahead = 1
		}, []string{
			waits, "ahead: 1 due job of queue docs for target https://crm.test goes before it, by priority, due time and order of enqueue; 1 live worker serves them",
		}, noon},
		{"open breaker", func(g *gathered) { g.guarded(calls(10, "12:01:00", down())...) }, []string{
			waits, "breaker_open: the breaker of target https://crm.test holds all that calls it since 12:01:00Z (23s), as it keeps failing (opened once): one probe may start at 12:01:30Z (in 7s)",
			"max_hold: it has been held 23s of at most 31m (max_hold of policy webhook); if that goes on until 12:32:00Z, it is parked (target_down), its attempts unspent, until the target is well",
			"max_hold_counts: an open breaker and an empty budget count towards max_hold, a pause that the target asks for does not",
		}, clockAt("12:01:30")},
		{"breaker that parks in the end", func(g *gathered) {
			g.guarded(calls(10, "12:01:00", down())...)
			g.policy.OnHoldEnd, g.policy.MaxHold, g.job.History.Held = policy.HoldPark, 10*time.Minute, 10*time.Minute
		}, []string{
			waits, "breaker_open: the breaker of target https://crm.test holds all that calls it since 12:01:00Z (23s), as it keeps failing (opened once): one probe may start at 12:01:30Z (in 7s)",
			"max_hold: it has been held 10m23s, all of the 10m that max_hold of policy webhook allows: when workers look next it is parked (target_down), its attempts unspent, until the target is well",
			"max_hold_counts: an open breaker and an empty budget count towards max_hold, a pause that the target asks for does not",
		}, clockAt("12:01:30")},
		{"breaker that is over before it is due", func(g *gathered) {
			g.job.DueAt = clockAt("12:02:00")
			g.guarded(calls(10, "12:01:00", down())...)
		}, []string{
			"enqueued: was enqueued at 11:58:00Z and has not started yet; next start not before 12:02:00Z (in 37s)",
		}, clockAt("12:02:00")},
		{"probe out", func(g *gathered) {
			g.guarded(append(calls(10, "12:00:30", down()), happened{"12:01:10", gate.Ask{}})...)
			g.flow.gate.Grants = []store.Grant{{Process: 8, Firsts: 1, Probe: true}}
		}, []string{
			waits, "breaker_probing: the breaker of target https://crm.test holds all that calls it since 12:00:30Z (53s): its one probe is out in process 8, and the outcome decides",
			"max_hold: it has been held 53s of at most 31m (max_hold of policy webhook); if that goes on until 12:31:30Z, it is parked (target_down), its attempts unspent, until the target is well",
			"max_hold_counts: an open breaker and an empty budget count towards max_hold, a pause that the target asks for does not",
		}, noon},
		{"recovering", func(g *gathered) {
			g.guarded(append(append(calls(10, "12:00:30", down()), calls2probe()...), happened{"12:01:11", gate.Ask{}})...)
		}, []string{
			waits, "target_ramping: target https://crm.test is recovering and gets at most 1 call at once, 1 now; the next starts when one ends",
		}, noon},
		{"asked to wait", func(g *gathered) {
			f := down()
			f.RetryAfter = 5 * time.Minute
			g.guarded(calls(1, "12:01:00", f)...)
		}, []string{
			waits, "target_asked: target https://crm.test asked for a pause until 12:06:00Z (in 4m37s): nothing that calls it starts before",
			"max_hold: a pause that the target asks for does not count towards max_hold of policy webhook; of its 31m it has used 0s",
		}, clockAt("12:06:00")},
		{"calls in flight", func(g *gathered) {
			g.guarded(happened{"12:01:10", gate.Ask{}})
		}, []string{
			waits, "slow_share: its target has 1 call in flight; calls that run for over 1s hold at most 10 of a process's 20 slots, with those of other slow targets (slow_share 0.5 of policy webhook): the rest is kept for targets that answer",
			"next: it is next in queue docs for target https://crm.test: it starts as soon as the one live worker has a free slot and a permit of the target",
		}, noon},
		{"paused target", func(g *gathered) {
			g.guarded(happened{"12:01:00", gate.Pause{}})
			g.flow.order = &store.AuditRow{At: clockAt("12:01:00"), Actor: "maya"}
		}, []string{
			waits, "target_paused: target https://crm.test is paused since 12:01:00Z (23s) by order of maya; nothing that calls it starts before: ebb target resume https://crm.test",
		}, time.Time{}},
		{"target paused until a time", func(g *gathered) { g.guarded(happened{"12:01:00", gate.Pause{Until: clockAt("12:30:00")}}) }, []string{
			waits, "target_paused: target https://crm.test is paused until 12:30:00Z (in 28m37s); nothing that calls it starts before; sooner: ebb target resume https://crm.test",
		}, clockAt("12:30:00")},
		{"disabled target", func(g *gathered) {
			g.guarded()
			g.flow.gate.Disabled = "410 Gone"
		}, []string{
			waits, "target_disabled: target https://crm.test is disabled (410 Gone): nothing that calls it starts before: ebb target resume https://crm.test",
		}, time.Time{}},
		{"full target", func(g *gathered) {
			ask := happened{"12:01:00", gate.Ask{}}
			g.guarded(ask, ask, ask, ask)
			g.flow.gate.Grants = []store.Grant{{Process: 7, Firsts: 3}, {Process: 8, Firsts: 1}}
		}, []string{
			waits, "concurrency: target https://crm.test has as many calls in flight as it may get over all processes, 4 of 4 (process 7: 3, process 8: 1); the next starts when one ends",
		}, noon},
		{"empty budget", func(g *gathered) {
			g.failedWith(status(503), "12:00:01", "12:00:31", 0.5)
			var events []happened
			for range 10 {
				events = append(events, happened{"12:01:21", gate.Ask{Retry: true}}, happened{"12:01:21", gate.Done{OK: true, Retry: true}})
			}
			g.guarded(append(events, happened{"12:01:22", gate.Ask{Retry: true}})...)
			g.job.DueAt, g.job.Version = clockAt("12:01:10"), ""
		}, []string{
			"failed_attempt: failed its 1st of 6 attempts with server (http status 503) at 12:00:31Z; rule builtin/server of policy webhook@V decided: retry after 30s; due since 12:01:10Z (13s ago)",
			"budget_empty: the retry budget of target https://crm.test is empty (retries in any 10s up to 0.2 × the first attempts in it + 10); it has room again at 12:01:33Z (in 10s)",
			"max_hold: it has been held 1s of at most 31m (max_hold of policy webhook); if that goes on until 12:32:22Z, it is parked (target_down), its attempts unspent, until the target is well",
			"max_hold_counts: an open breaker and an empty budget count towards max_hold, a pause that the target asks for does not",
		}, clockAt("12:01:32.286976")},
		{"strict queue for a target", func(g *gathered) {
			g.guarded()
			g.queue.Strict = true
		}, []string{
			waits, "next: it is next in queue docs: it starts as soon as the one live worker has a free slot and a permit of the target",
		}, noon},
		{"limited queue", func(g *gathered) {
			g.queue.Limit = store.QueueLimit{Rate: 0.1}
			g.flow.config = gate.Config{PerTarget: policy.PerTarget{Rate: 0.1}}
			g.flow.gate = &store.Gate{Target: "queue:docs", Version: 1, Room: store.NoLimit}
			g.flow.gate.State, _ = gate.Step(g.flow.config, gate.State{}, gate.Ask{}, clockAt("12:01:20"), 0)
		}, []string{
			waits, "rate: the rate of queue docs, 0.1 starts a second over all processes, allows the next at 12:01:30Z (in 7s)",
		}, clockAt("12:01:30")},
		{"lane that rests", func(g *gathered) {
			g.guarded()
			g.flow.lane = &store.Lane{Queue: "docs", Target: crm, Retries: 1, LookAt: clockAt("12:01:53")}
		}, []string{
			waits, "lane_rests: workers look at what waits for it next at 12:01:53Z (in 30s): after a downtime, or when limits held it, overdue work is released step by step", isNextFor,
		}, noon},
		{"claimed without a permit", func(g *gathered) {
			leased(g)
			g.guarded(happened{"12:01:00", gate.Pause{Until: clockAt("12:30:00")}})
			g.job.Begun = false
		}, []string{
			"claimed: was claimed at 12:01:00Z (23s) by process 7 (pid 4711 on alpha) and has not begun: it waits there for a permit",
			"target_paused: target https://crm.test is paused until 12:30:00Z (in 28m37s); nothing that calls it starts before; sooner: ebb target resume https://crm.test",
			"heartbeat: that process was last heard of 3s ago",
		}, time.Time{}},
		{"breaker whose hold fails in the end", func(g *gathered) {
			g.failedWith(status(503), "12:00:01", "12:00:31", 0.5)
			g.guarded(calls(10, "12:01:00", down())...)
			g.policy.OnHoldEnd, g.policy.Window, g.job.DueAt, g.job.Version = policy.HoldFail, 10*time.Minute, clockAt("12:01:10"), ""
		}, []string{
			"failed_attempt: failed its 1st of 6 attempts with server (http status 503) at 12:00:31Z; rule builtin/server of policy webhook@V decided: retry after 30s; due since 12:01:10Z (13s ago)",
			"breaker_open: the breaker of target https://crm.test holds all that calls it since 12:01:00Z (23s), as it keeps failing (opened once): one probe may start at 12:01:30Z (in 7s)",
			"max_hold: it has been held 13s of at most 31m (max_hold of policy webhook); if that goes on until 12:32:10Z, it fails (expired), as the window of its policy is over by then",
			"max_hold_counts: an open breaker and an empty budget count towards max_hold, a pause that the target asks for does not",
		}, clockAt("12:01:30")},
		{"held until its time ran out", func(g *gathered) {
			g.guarded()
			g.job.State, g.job.Cause, g.job.EndedAt = job.Failed, retry.CauseExpired, clockAt("12:01:00")
		}, []string{
			"expired: was held back by target https://crm.test for longer than max_hold (now 31m) of policy webhook allows, and failed at 12:01:00Z, with 6 of 6 attempts left",
			"dead_letter: it is a dead letter and will not run again by itself; fresh attempts: ebb job retry 000000000001a",
		}, time.Time{}},
	}...)
}

// calls2probe is a probe that passes.
func calls2probe() []happened {
	return []happened{{"12:01:10", gate.Ask{}}, {"12:01:10", gate.Done{OK: true, Probe: true}}}
}

func keyCases(waits string) []whyCase {
	behind := func(change func(head *job.Job)) func(*gathered) {
		return func(g *gathered) {
			g.job.Key, g.job.Blocked = "order-7", true
			g.flow.head = &job.Job{Seq: 41, New: job.New{Kind: "ocr", Key: "order-7", DueAt: clockAt("12:00:00")}, State: job.Queued}
			change(g.flow.head)
		}
	}
	return []whyCase{
		{"behind a retry", behind(func(head *job.Job) { head.DueAt, head.History.Starts = clockAt("12:02:00"), 1 }), []string{
			waits, `behind_key: it is behind job 0000000000019 of key "order-7", which waits for its retry at 12:02:00Z (in 37s)`,
		}, time.Time{}},
		{"behind one that is not due", behind(func(head *job.Job) { head.DueAt = clockAt("12:02:00") }), []string{
			waits, `behind_key: it is behind job 0000000000019 of key "order-7", which is due at 12:02:00Z (in 37s)`,
		}, time.Time{}},
		{"behind one that is due", behind(func(*job.Job) {}), []string{
			waits, `behind_key: it is behind job 0000000000019 of key "order-7", which is due and waits for its turn: ebb job why 0000000000019`,
		}, time.Time{}},
		{"behind one that runs", behind(func(head *job.Job) { head.State, head.LeasedAt = job.Running, clockAt("12:01:20") }), []string{
			waits, `behind_key: it is behind job 0000000000019 of key "order-7", which has been running since 12:01:20Z (3s)`,
		}, time.Time{}},
		{"behind a failed one", behind(func(head *job.Job) { head.State, head.Cause = job.Failed, retry.CauseFatal }), []string{
			waits, `behind_key: it is behind job 0000000000019 of key "order-7", which failed (fatal) and blocks it, as its key rule says, until it is retried or dropped: ebb job retry 0000000000019`,
		}, time.Time{}},
		{"behind a parked one", behind(func(head *job.Job) { head.State, head.Cause = job.Parked, retry.CauseConfig }), []string{
			waits, `behind_key: it is behind job 0000000000019 of key "order-7", which is parked (config) and blocks it until it is released: ebb job why 0000000000019`,
		}, time.Time{}},
		{"behind somebody", func(g *gathered) { g.job.Key, g.job.Blocked = "order-7", true }, []string{
			waits, `behind_key: an earlier job of key "order-7" in queue docs goes first: jobs of a key run one at a time, in the order of their enqueue`,
		}, time.Time{}},
		{"parked with its key", func(g *gathered) { g.job.State, g.job.Cause, g.job.Key = job.Parked, job.HeadFailed, "order-7" }, []string{
			`head_failed: was parked: an earlier job of its key "order-7" failed, and its key rule parks those behind it`,
			"released_by: what releases it is an order: ebb job retry 000000000001a",
		}, time.Time{}},
		{"paused kind", func(g *gathered) {
			g.flow.kindPaused, g.flow.kindOrder = true, &store.AuditRow{At: clockAt("12:00:23"), Actor: "maya"}
		}, []string{
			waits, "kind_paused: kind ocr is paused since 12:00:23Z (1m) by order of maya; nothing of it starts in any queue before: ebb kind resume ocr",
		}, time.Time{}},
		{"unique", func(g *gathered) { g.job.Unique = "queue docs: daily" }, []string{
			waits, `unique: it holds the unique key "queue docs: daily": until it has ended, an enqueue with that key adds nothing`, isNext,
		}, noon},
	}
}

func TestWhyFactsOfHolds(t *testing.T) {
	got := explain(gatheredFor(func(g *gathered) {
		g.guarded(calls(10, "12:01:00", down())...)
		g.job.History.Held = time.Minute
		g.flow.head = &job.Job{Seq: 41}
	})).Facts
	want := WhyFacts{
		Now: noon, DueAt: clockAt("12:00:00"), MaxAttempts: 6, Policy: "webhook", VersionNow: policy.MustPreset("webhook").Version, Workers: 1,
		Gate: crm, HeldBy: "breaker", HeldUntil: clockAt("12:01:30"), Held: 83, MaxHold: 1860, Behind: "0000000000019",
	}
	if got != want {
		t.Errorf("got\n%+v, want\n%+v", got, want)
	}
}

func TestShell(t *testing.T) {
	for name, want := range map[string]string{
		"https://a.test/x": "https://a.test/x", "a b": "'a b'", "": "''", "it's": `'it'\''s'`, "a?b&c": "'a?b&c'", "-a": "-a",
	} {
		if got := shell(name); got != want {
			t.Errorf("%q is typed %s, want %s", name, got, want)
		}
	}
}

// downCases are jobs that were parked because their target was down.
func downCases() []whyCase {
	const (
		parked = "target_down: was parked: its target https://crm.test was down and held it for longer than max_hold (now 31m) of policy webhook allows"
		left   = "attempts: the wait has cost it no attempt: 4 of 6 attempts are left"
		probed = "released_by: it is released by itself, in its order, when the target is well; until then one of the parked jobs goes out at least once a minute to probe the target"
		orders = "ebb target resume https://crm.test releases all that was parked for the target, ebb job retry 000000000001a this job alone"
	)
	parkedAfter := func(events ...happened) func(*gathered) {
		return func(g *gathered) {
			g.guarded(append(calls(10, "12:00:00", down()), events...)...)
			g.job.State, g.job.Cause, g.job.History.Attempts = job.Parked, retry.CauseTargetDown, 2
		}
	}
	return []whyCase{
		{"parked, its target is down", parkedAfter(happened{"12:01:00", gate.Ask{}}, happened{"12:01:00", gate.Done{Failure: *down(), Probe: true}}), []string{
			parked,
			"breaker_open: the breaker of target https://crm.test holds all that calls it since 12:00:00Z (1m23s), as it keeps failing (opened twice in a row): one probe may start at 12:02:00Z (in 37s)",
			left, probed, "orders: sooner: ebb target probe https://crm.test calls the target now; " + orders,
		}, time.Time{}},
		{"parked, a probe is due", parkedAfter(), []string{
			parked,
			"probe: target https://crm.test has been down since 12:00:00Z (1m23s); the time of its breaker is over: the next call is the one probe that decides",
			left, probed, "orders: sooner: ebb target probe https://crm.test calls the target now; " + orders,
		}, time.Time{}},
		{"parked, and nobody probes", func(g *gathered) {
			parkedAfter()(g)
			g.processes = nil
		}, []string{
			parked,
			"probe: target https://crm.test has been down since 12:00:00Z (1m23s); the time of its breaker is over: the next call is the one probe that decides",
			left, probed, "no_worker: no worker is running on this store", "orders: sooner: ebb target probe https://crm.test calls the target now; " + orders,
		}, time.Time{}},
		{"parked, its target is paused", parkedAfter(happened{"12:01:00", gate.Pause{}}), []string{
			parked,
			"target_paused: target https://crm.test is paused; nothing that calls it starts before: ebb target resume https://crm.test",
			left, "released_by: it is released by itself, in its order, when the target is resumed and well", "orders: sooner: " + orders,
		}, time.Time{}},
		{"parked, its target is well", parkedAfter(happened{"12:01:00", gate.Ask{}}, happened{"12:01:00", gate.Done{OK: true, Probe: true}}), []string{
			parked, "target_well: target https://crm.test may be called again",
			left, "released_by: it is released by itself, in its order, when workers look next", "orders: sooner: " + orders,
		}, time.Time{}},
	}
}
