package enginetest

import (
	"time"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/policy"
)

// whyRules show that every fact reaches its sentence; the sentences
// themselves are told apart by the engine's own tests.
var whyRules = []rule{
	{"an unknown id is not found", func(b *bench) {
		_, err := b.Why(b.ctx, "0000000000009")
		b.refused(err, engine.ErrNotFound, "job: 0000000000009: no such job")
	}},
	{"the way of a job that fails", func(b *bench) {
		id := b.add(engine.NewJob{Kind: "mail", Policy: "processing"})
		b.why(id, "was enqueued at 09:00:00Z and has not started yet; due since 09:00:00Z (0s ago)", "no worker is running on this store")
		b.work([]string{"default"}, "mail")
		b.why(id, "was enqueued at 09:00:00Z and has not started yet; due since 09:00:00Z (0s ago)",
			"it is next in queue default: it starts as soon as the one live worker has a free slot")
		j := b.claim("mail")
		b.clock.Advance(3 * time.Second)
		version := policy.MustPreset("processing").Version
		b.why(id, "is in its 1st of 4 attempts, start 1, since 09:00:00Z (3s) in process 1 (pid 4711 on alpha)", "that process was last heard of 3s ago",
			"it may run until about 09:02:00Z (timeout 2m of policy processing@"+version+"); then it counts as timed out")
		f := failure.Of(failure.Server)
		f.Status = 503
		b.fail(j, f, "ff")
		b.why(id, "failed its 1st of 4 attempts with server (http status 503) at 09:00:03Z; rule builtin/server of policy processing@"+version+
			" decided: retry after 30s; next start not before 09:00:33Z (in 30s)")
		got, err := b.Why(b.ctx, id)
		b.must(err)
		b.same("next start", got.NextAt, T0.Add(33*time.Second))
	}},
	{"orders are named with who gave them", func(b *bench) {
		id := b.add(engine.NewJob{Kind: "mail"})
		b.work([]string{"default"}, "mail")
		_, err := b.PauseQueue(b.ctx, "default")
		b.must(err)
		b.clock.Advance(time.Second)
		_, err = b.PauseQueue(b.ctx, "default")
		b.must(err)
		b.why(id, "was enqueued at 09:00:00Z and has not started yet; due since 09:00:00Z (1s ago)",
			"queue default is paused since 09:00:00Z (1s) by order of maya; nothing of it starts before: ebb queue resume default")
		_, err = b.ResumeQueue(b.ctx, "default")
		b.must(err)
		b.claim("mail")
		_, err = b.Cancel(b.ctx, id)
		b.must(err)
		version := policy.MustPreset("default").Version
		b.why(id, "is in its 1st of 4 attempts, start 1, since 09:00:01Z (0s) in process 1 (pid 4711 on alpha)", "that process was last heard of 1s ago",
			"its cancellation was ordered by maya at 09:00:01Z: its handler is told with the process's next heartbeat, and it will not run again",
			"it may run until about 09:02:01Z (timeout 2m of policy default@"+version+"); then it counts as timed out")
	}},
	{"strict queues and those ahead", func(b *bench) {
		b.must(b.store.StrictQueue(b.ctx, "default", true))
		b.add(engine.NewJob{Kind: "mail"})
		second := b.add(engine.NewJob{Kind: "mail"})
		b.work([]string{"default"}, "mail")
		b.why(second, "was enqueued at 09:00:00Z and has not started yet; due since 09:00:00Z (0s ago)",
			"1 due job of queue default goes before it, by priority, due time and order of enqueue; 1 live worker serves them")
		b.claim("mail")
		b.why(second, "was enqueued at 09:00:00Z and has not started yet; due since 09:00:00Z (0s ago)",
			"queue default is strict, one job at a time, and job 0000000000001 (kind mail) has been running since 09:00:00Z (0s), in process 1")
	}},
	{"a job queued again names who did it", func(b *bench) {
		id := b.die(engine.NewJob{Kind: "mail"}, rejected("no such page"), "ff")
		b.clock.Advance(time.Second)
		_, err := b.Retry(b.ctx, id)
		b.must(err)
		b.why(id, "was queued again with fresh attempts by maya at 09:00:01Z, after 1 start; due since 09:00:01Z (0s ago)",
			"before that it failed its 1st start with rejected (http status 404) at 09:00:00Z", "the error was: no such page",
			"it is next in queue default: it starts as soon as the one live worker has a free slot")
	}},
}

// why fails the test unless the job is explained in these sentences.
func (b *bench) why(id string, want ...string) {
	b.Helper()
	got, err := b.Why(b.ctx, id)
	b.must(err)
	var texts []string
	for _, r := range got.Reasons {
		texts = append(texts, r.Text)
	}
	b.same("why "+id, texts, want)
}
