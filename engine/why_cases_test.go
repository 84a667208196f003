package engine

import (
	"errors"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

type whyCase struct {
	name   string
	change func(g *gathered)
	want   []string  // code: text; @V stands for the policy's version
	next   time.Time // zero = none by itself
}

func whyCases() []whyCase {
	cases := waitingCases()
	cases = append(cases, heldCases()...)
	cases = append(cases, flowCases()...)
	cases = append(cases, runningCases()...)
	return append(cases, endedCases()...)
}

const isNext = "next: it is next in queue docs: it starts as soon as the one live worker has a free slot"

func waitingCases() []whyCase {
	return []whyCase{
		{"new and due", func(*gathered) {}, []string{
			"enqueued: was enqueued at 11:58:00Z and has not started yet; due since 12:00:00Z (1m23s ago)", isNext,
		}, noon},
		{"new and not due", func(g *gathered) { g.job.DueAt = clockAt("13:00:00") }, []string{
			"enqueued: was enqueued at 11:58:00Z and has not started yet; next start not before 13:00:00Z (in 58m37s)",
		}, clockAt("13:00:00")},
		{"failed twice", func(g *gathered) {
			g.failedWith(status(503), "11:58:01", "11:58:31", 0.5)
			g.failedWith(status(503), "12:00:01", "12:00:31", 0.5+4.0/48)
		}, []string{
			"failed_attempt: failed its 2nd of 4 attempts with server (http status 503) at 12:00:31Z; rule builtin/server of policy processing@V decided: retry after 2m4s; next start not before 12:02:35Z (in 1m12s)",
		}, clockAt("12:02:35")},
		{"due after a failure", func(g *gathered) {
			f := failure.Of(failure.Timeout)
			f.Err = errors.New("no answer\nafter 30s")
			g.failedWith(f, "12:00:01", "12:00:31", 0.5)
		}, []string{
			"failed_attempt: failed its 1st of 4 attempts with timeout at 12:00:31Z; rule builtin/timeout of policy processing@V decided: retry after 30s; due since 12:01:01Z (22s ago)",
			"error: the error was: no answer after 30s", isNext,
		}, noon},
		{"the target asked", func(g *gathered) {
			f := status(429)
			f.RetryAfter = 5 * time.Minute
			g.failedWith(f, "12:00:01", "12:00:31", 0.5)
		}, []string{
			"failed_attempt: failed its 1st of 4 attempts with throttled (http status 429) at 12:00:31Z; rule builtin/throttled of policy processing@V decided: retry after 5m (the target asked for 5m); next start not before 12:05:31Z (in 4m8s)",
		}, clockAt("12:05:31")},
		{"our own disk", func(g *gathered) { g.failedWith(failure.Of(failure.DiskFull), "12:00:01", "12:01:00", 0.5) }, []string{
			"failed_attempt: failed its 1st start with disk_full at 12:01:00Z, which cost no attempt (0 of 4 attempts spent); rule builtin/disk_full of policy processing@V decided: retry after 5s; due since 12:01:05Z (18s ago)", isNext,
		}, noon},
		{"snoozed", func(g *gathered) {
			g.failedWith(orderedFailure(failure.Snooze(10*time.Minute)), "12:00:01", "12:00:31", 0)
		}, []string{
			"snoozed: was put off by its handler at 12:00:31Z for 10m, which cost no attempt (0 of 4 attempts spent); next start not before 12:10:31Z (in 9m8s)",
		}, clockAt("12:10:31")},
		{"hastened by an order", func(g *gathered) {
			g.failedWith(status(503), "12:00:01", "12:00:31", 0.5)
			g.failedWith(status(503), "12:00:31", "12:01:01", 0.5)
			g.job.DueAt = clockAt("12:01:11")
			g.retried = &store.AuditRow{At: clockAt("12:01:11"), Actor: "maya"}
		}, []string{
			"failed_attempt: failed its 2nd of 4 attempts with server (http status 503) at 12:01:01Z; rule builtin/server of policy processing@V decided: retry after 2m; due since 12:01:11Z (12s ago)",
			"hastened: an order of maya at 12:01:11Z made it due before the 12:03:01Z that was decided", isNext,
		}, noon},
		{"queued again by an order", func(g *gathered) {
			g.failedWith(status(404), "12:00:01", "12:00:31", 0.5)
			g.job.State, g.job.Cause, g.job.EndedAt = job.Queued, "", time.Time{}
			g.job.History, g.job.DueAt = store.Requeued(g.job.History, retry.CauseExhausted), clockAt("12:01:00")
			g.retried = &store.AuditRow{At: clockAt("12:01:00"), Actor: "maya"}
		}, []string{
			"requeued: was queued again with fresh attempts by maya at 12:01:00Z, after 1 start; due since 12:01:00Z (23s ago)",
			"last_failure: before that it failed its 1st start with rejected (http status 404) at 12:00:31Z", isNext,
		}, noon},
		{"queued again by a redrive", func(g *gathered) {
			g.job.History, g.job.DueAt = retry.History{Starts: 4}, clockAt("12:01:00")
		}, []string{
			"requeued: was queued again with fresh attempts, by a redrive or because a worker started with another configuration, after 4 starts; due since 12:01:00Z (23s ago)", isNext,
		}, noon},
	}
}

func heldCases() []whyCase {
	const waits = "enqueued: was enqueued at 11:58:00Z and has not started yet; due since 12:00:00Z (1m23s ago)"
	return []whyCase{
		{"paused queue", func(g *gathered) {
			g.queue.Paused = true
			g.paused = &store.AuditRow{At: clockAt("11:59:23"), Actor: "maya"}
		}, []string{
			waits, "queue_paused: queue docs is paused since 11:59:23Z (2m) by order of maya; nothing of it starts before: ebb queue resume docs",
		}, time.Time{}},
		{"strict queue busy", func(g *gathered) {
			g.queue.Strict = true
			g.holder = &job.Job{Seq: 41, New: job.New{Kind: "index"}, Process: 7, LeasedAt: clockAt("12:00:23")}
		}, []string{
			waits, "strict_busy: queue docs is strict, one job at a time, and job 0000000000019 (kind index) has been running since 12:00:23Z (1m), in process 7",
		}, time.Time{}},
		{"no worker at all", func(g *gathered) { g.processes = nil }, []string{
			waits, "no_worker: no worker is running on this store",
		}, time.Time{}},
		{"workers silent", func(g *gathered) { g.processes[0].SeenAt = clockAt("12:00:23") }, []string{
			waits, "no_worker: no worker is alive: the last heartbeat came from process 7 (alpha) 1m ago",
		}, time.Time{}},
		{"no worker for the queue", func(g *gathered) { g.processes[0].Queues = []string{"mail"} }, []string{
			waits, "no_worker: no live worker serves queue docs; this queue is served: mail",
		}, time.Time{}},
		{"no worker for the kind", func(g *gathered) { g.processes[0].Kinds = []string{"index", "classify"} }, []string{
			waits, "no_worker: no live worker handles kind ocr; in queue docs these kinds are handled: classify, index",
		}, time.Time{}},
		{"one job ahead", func(g *gathered) { g.ahead = 1 }, []string{
			waits, "ahead: 1 due job of queue docs goes before it, by priority, due time and order of enqueue; 1 live worker serves them",
		}, noon},
		{"many jobs ahead", func(g *gathered) {
			g.ahead = aheadLimit
			g.processes = append(g.processes, store.Process{ID: 8, Kinds: []string{"ocr"}, Queues: []string{"docs"}, SeenAt: noon})
		}, []string{
			waits, "ahead: 1000 or more due jobs of queue docs go before it, by priority, due time and order of enqueue; 2 live workers serve them",
		}, noon},
		{"suspect", func(g *gathered) { g.job.History.Crashes = 2 }, []string{
			waits, "suspect: it took its process down twice without progress, so it starts only when it can run alone in a process", isNext,
		}, noon},
		{"deadline ahead", func(g *gathered) { g.job.DeadlineAt = clockAt("12:05:00") }, []string{
			waits, "deadline: it must start by its deadline 12:05:00Z (in 3m37s), or it fails as expired", isNext,
		}, noon},
		{"deadline passed", func(g *gathered) { g.job.DeadlineAt = clockAt("12:01:00") }, []string{
			waits, "deadline_passed: its deadline 12:01:00Z passed 23s ago: it will not start, and housekeeping ends it as failed (expired)",
		}, time.Time{}},
		{"deadline before due", func(g *gathered) { g.job.DueAt, g.job.DeadlineAt = clockAt("12:10:00"), clockAt("12:05:00") }, []string{
			"enqueued: was enqueued at 11:58:00Z and has not started yet; next start not before 12:10:00Z (in 8m37s)",
			"deadline_passed: its deadline 12:05:00Z (in 3m37s) comes before it is due: it will not start, and ends as failed (expired)",
		}, time.Time{}},
		{"policy changed", func(g *gathered) { g.job.Version = "0123456789ab" }, []string{
			waits, "policy_changed: policy processing has changed from 0123456789ab to " + version + " since then; the next decision uses " + version + ", and what is spent stays spent", isNext,
		}, noon},
		{"policy unknown", func(g *gathered) { g.policy = nil }, []string{
			waits, "policy_unknown: policy processing is not known here; a worker that does not know it parks the job", isNext,
		}, noon},
	}
}

func leased(g *gathered) {
	g.job.State, g.job.Process, g.job.LeasedAt, g.job.Begun = job.Running, 7, clockAt("12:01:00"), true
}

func runningCases() []whyCase {
	const (
		begun   = "running: is in its 1st of 4 attempts, start 1, since 12:01:00Z (23s) in process 7 (pid 4711 on alpha)"
		beats   = "heartbeat: that process was last heard of 3s ago"
		timeout = "timeout: it may run until about 12:03:00Z (timeout 2m of policy processing@V); then it counts as timed out"
	)
	return []whyCase{
		{"running", leased, []string{begun, beats, timeout}, time.Time{}},
		{"running again", func(g *gathered) {
			g.failedWith(status(502), "11:59:01", "11:59:31", 0.5)
			leased(g)
		}, []string{
			"running: is in its 2nd of 4 attempts, start 2, since 12:01:00Z (23s) in process 7 (pid 4711 on alpha)", beats, timeout,
			"last_failure: before that it failed its 1st of 4 attempts with server (http status 502) at 11:59:31Z",
		}, time.Time{}},
		{"claimed, not begun", func(g *gathered) {
			leased(g)
			g.job.Begun, g.job.History.Crashes = false, 3
		}, []string{
			"claimed: was claimed at 12:01:00Z (23s) by process 7 (pid 4711 on alpha) and has not begun: it took its process down 3 times without progress and waits there to run alone", beats,
		}, time.Time{}},
		{"kept", func(g *gathered) {
			g.failedWith(status(502), "12:01:00", "12:01:10", 0.5)
			leased(g)
			g.job.Begun, g.job.DueAt = false, clockAt("12:01:40")
		}, []string{
			"kept: waits in its slot in process 7 (pid 4711 on alpha), as its policy says, and nobody else takes it: its 2nd of 4 attempts is start 2; next start not before 12:01:40Z (in 17s)", beats,
			"last_failure: before that it failed its 1st of 4 attempts with server (http status 502) at 12:01:10Z",
		}, time.Time{}},
		{"cancel ordered", func(g *gathered) {
			leased(g)
			g.cancelled = &store.AuditRow{At: clockAt("12:01:20"), Actor: "maya"}
		}, []string{
			begun, beats, "cancel_ordered: its cancellation was ordered by maya at 12:01:20Z: its handler is told with the process's next heartbeat, and it will not run again", timeout,
		}, time.Time{}},
		{"silent process", func(g *gathered) {
			leased(g)
			g.processes[0].SeenAt = clockAt("12:01:01")
		}, []string{
			begun, "heartbeat_lost: that process was last heard of 22s ago, longer than its lease of 20s: any live worker takes the job back; the policy's rule for crashes decides then", timeout,
		}, time.Time{}},
		{"process gone", func(g *gathered) {
			leased(g)
			g.processes = nil
		}, []string{
			"running: is in its 1st of 4 attempts, start 1, since 12:01:00Z (23s) in process 7", "process_gone: process 7 is not registered any more: its jobs are being taken back", timeout,
		}, time.Time{}},
	}
}

const deadLetter = "dead_letter: it is a dead letter and will not run again by itself; fresh attempts: ebb job retry 000000000001a, or with all that failed alike: ebb dead redrive --fingerprint 00ff00ff00ff00ff"

func endedCases() []whyCase {
	return append(deadCases(), []whyCase{
		{"succeeded", func(g *gathered) {
			g.failedWith(status(503), "11:59:01", "11:59:31", 0.5)
			g.attempts = append(g.attempts, job.Attempt{Start: 2, Process: 7, OK: true, StartedAt: clockAt("12:00:01"), EndedAt: clockAt("12:00:02.5")})
			g.job.State, g.job.EndedAt, g.job.History.Attempts = job.Succeeded, clockAt("12:00:02.5"), 2
		}, []string{
			"succeeded: succeeded at 12:00:02Z in its 2nd of 4 attempts, start 2, after 1.5s in process 7; it will not run again",
			"last_failure: before that it failed its 1st of 4 attempts with server (http status 503) at 11:59:31Z",
		}, time.Time{}},
		{"cancelled", func(g *gathered) {
			g.job.State, g.job.EndedAt = job.Cancelled, clockAt("12:00:02")
			g.cancelled = &store.AuditRow{At: clockAt("12:00:02"), Actor: "maya"}
		}, []string{
			"cancelled: was cancelled at 12:00:02Z by order of maya at 12:00:02Z, after 0 starts; it will not run again: to do the work after all, enqueue it anew",
		}, time.Time{}},
		{"parked for its configuration", func(g *gathered) {
			f := failure.Of(failure.Config)
			f.Reason, f.Err = "bad_credential", errors.New("the key was revoked")
			g.failedWith(f, "12:00:01", "12:00:31", 0)
		}, []string{
			"config: was parked at 12:00:31Z: its 1st start failed with config (bad_credential); rule builtin/config of policy processing@V decided: park, a person must change something",
			"error: the error was: the key was revoked",
			"released_by: it spent no attempt; what releases it: a worker for kind ocr that starts with another configuration than c0ffee, or an order: ebb job retry 000000000001a, or the whole group in its order: ebb dead redrive --parked --fingerprint 00ff00ff00ff00ff",
		}, time.Time{}},
		{"parked by its handler", func(g *gathered) {
			g.failedWith(orderedFailure(failure.Park(errors.New("sign the contract"))), "12:00:01", "12:00:31", 0)
			g.job.Config, g.job.Fingerprint = "", ""
		}, []string{
			"config: was parked at 12:00:31Z in its 1st start: its handler asked for a person (error)",
			"error: the error was: park: sign the contract",
			"released_by: what releases it is an order: ebb job retry 000000000001a",
		}, time.Time{}},
		{"parked while it waited", func(g *gathered) {
			g.job.State, g.job.Cause, g.job.Target = job.Parked, retry.CauseTargetDown, "https://a.test"
		}, []string{
			"target_down: was parked: its target https://a.test was down and held it for longer than max_hold (now 10m30s) of policy processing allows",
			"attempts: the wait has cost it no attempt: 4 of 4 attempts are left",
			"released_by: it is released by itself, in its order, when the target is well; until then one of the parked jobs goes out at least once a minute to probe the target",
			"orders: sooner: ebb target probe https://a.test calls the target now; ebb target resume https://a.test releases all that was parked for the target, ebb job retry 000000000001a this job alone",
		}, time.Time{}},
	}...)
}

func deadCases() []whyCase {
	return []whyCase{
		{"fatal by a rule", func(g *gathered) { g.failedWith(status(404), "12:00:01", "12:00:31", 0) }, []string{
			"fatal: failed its 1st of 4 attempts with rejected (http status 404) at 12:00:31Z; rule builtin/rejected of policy processing@V decided: fail, a retry would fail the same way", deadLetter,
		}, time.Time{}},
		{"fatal by its handler", func(g *gathered) {
			g.failedWith(orderedFailure(failure.Fatal(errors.New("no such page"))), "12:00:01", "12:00:31", 0)
		}, []string{
			"fatal: failed its 1st of 4 attempts with error at 12:00:31Z; its handler said that no retry can help (fatal)",
			"error: the error was: no such page", deadLetter,
		}, time.Time{}},
		{"exhausted", func(g *gathered) {
			for range 4 {
				g.failedWith(status(503), "12:00:01", "12:00:31", 0.5)
			}
		}, []string{
			"exhausted: failed its 4th of 4 attempts with server (http status 503) at 12:00:31Z; rule builtin/server of policy processing@V would retry, but no attempt is left", deadLetter,
		}, time.Time{}},
		{"poison", func(g *gathered) {
			*g.policy = presetDefault()
			g.job.Policy = "default"
			for range 4 {
				g.failedWith(failure.Of(failure.Crash), "12:00:01", "12:00:31", 0.5)
			}
		}, []string{
			"poison: took its process down 4 times without progress, the last time at 12:00:31Z; rule builtin/crash of policy default@" + presetDefault().Version + " allows no more: it is poison to its workers", deadLetter,
		}, time.Time{}},
		{"expired between tries", func(g *gathered) {
			g.job.DeadlineAt = clockAt("12:00:40")
			g.job.History.DeadlineAt = g.job.DeadlineAt
			g.failedWith(status(503), "12:00:01", "12:00:31", 0.5)
		}, []string{
			"expired: failed its 1st of 4 attempts with server (http status 503) at 12:00:31Z; the next start would have come after its deadline 12:00:40Z", deadLetter,
		}, time.Time{}},
		{"expired unstarted", func(g *gathered) {
			g.job.State, g.job.Cause, g.job.DeadlineAt, g.job.EndedAt = job.Failed, retry.CauseExpired, clockAt("12:00:40"), clockAt("12:00:41")
		}, []string{
			"expired: its deadline 12:00:40Z passed before it could start; it failed at 12:00:41Z",
			"dead_letter: it is a dead letter and will not run again by itself; fresh attempts: ebb job retry 000000000001a",
		}, time.Time{}},
		{"window over", func(g *gathered) {
			g.policy.Window = time.Minute
			g.job.History.FirstStartAt = clockAt("11:59:30")
			g.failedWith(status(503), "12:00:01", "12:00:31", 0.5)
		}, []string{
			"exhausted: failed its 1st of 4 attempts with server (http status 503) at 12:00:31Z; the next start would have come after the window (now 1m) of policy processing@V, counted from its first start at 11:59:30Z", deadLetter,
		}, time.Time{}},
	}
}

func presetDefault() policy.Policy { return policy.MustPreset("default") }
