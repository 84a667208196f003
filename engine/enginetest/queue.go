package enginetest

import (
	"time"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
)

var queueRules = []rule{
	{"queues are listed with their counts", func(b *bench) {
		b.add(engine.NewJob{Kind: "mail"})
		b.add(engine.NewJob{Kind: "mail", Queue: "out", DueAt: T0.Add(time.Minute)})
		b.die(engine.NewJob{Kind: "sms"}, rejected("no"), "ff")
		got, err := b.Queues(b.ctx)
		b.must(err)
		none := func(change func(map[job.State]int64)) map[job.State]int64 {
			c := map[job.State]int64{job.Queued: 0, job.Running: 0, job.Succeeded: 0, job.Failed: 0, job.Parked: 0, job.Cancelled: 0}
			change(c)
			return c
		}
		b.same("queues", got, []engine.Queue{
			{Name: "default", Counts: none(func(c map[job.State]int64) { c[job.Queued], c[job.Failed] = 1, 1 }), DueAt: T0},
			{Name: "out", Counts: none(func(c map[job.State]int64) { c[job.Queued] = 1 }), DueAt: T0.Add(time.Minute)},
		})
	}},
	{"what ended lately", func(b *bench) {
		b.die(engine.NewJob{Kind: "sms"}, rejected("no"), "ff")
		b.clock.Advance(time.Minute)
		got, err := b.Recent(b.ctx, nil)
		b.must(err)
		b.same("window", []any{got.From, got.To, got.More}, []any{T0.Add(-14 * time.Minute), T0.Add(time.Minute), false})
		b.same("figures", []any{got.Dead, got.Succeeded, got.Starts, got.Retries, got.Accepted, len(got.Steps)}, []any{1, 0, 1, 0, 0.02, 30})
		b.same("policies", got.Policies, []engine.RecentPolicy{{Policy: "default", Dead: 1, Accepted: 0.02}})
		b.same("the minute", got.Steps[28], engine.RecentStep{At: T0, Dead: 1})
		other, err := b.Recent(b.ctx, []string{"other"})
		b.must(err)
		b.same("of another queue", []any{other.Dead, other.Policies}, []any{0, []engine.RecentPolicy{}})
		b.clock.Advance(time.Hour)
		got, err = b.Recent(b.ctx, nil)
		b.must(err)
		b.same("an hour later", got.Dead, 0)
	}},
	{"workers are listed", func(b *bench) {
		b.work([]string{"out"}, "sms")
		b.clock.Advance(time.Minute)
		b.work([]string{"default"}, "mail")
		got, err := b.Workers(b.ctx)
		b.must(err)
		b.same("workers", got, []engine.Worker{
			{Process: 1, Host: "alpha", PID: 4711, Kinds: []string{"sms"}, Queues: []string{"out"}, HeartbeatAge: 60, SeenAt: T0, BornAt: T0},
			{Process: 2, Host: "alpha", PID: 4711, Kinds: []string{"mail"}, Queues: []string{"default"}, Alive: true, SeenAt: T0.Add(time.Minute), BornAt: T0.Add(time.Minute)},
		})
	}},
	{"the audit tells who ordered what", func(b *bench) {
		_, err := b.PauseQueue(b.ctx, "new")
		b.must(err)
		b.clock.Advance(time.Minute)
		_, err = b.PauseKind(b.ctx, "mail")
		b.must(err)
		got, err := b.Acts(b.ctx, 0)
		b.must(err)
		b.same("acts", got, []engine.Act{
			{At: T0.Add(time.Minute), Actor: Actor, Act: "kind.pause", What: "mail"},
			{At: T0, Actor: Actor, Act: "queue.pause", What: "new"},
		})
		got, err = b.Acts(b.ctx, 1)
		b.must(err)
		b.same("one", len(got), 1)
		_, err = b.Acts(b.ctx, -1)
		b.refused(err, engine.ErrInvalid, "limit -1: must be 1 to 1000")
	}},
	{"pause and resume", func(b *bench) {
		q, err := b.PauseQueue(b.ctx, "new")
		b.must(err)
		b.same("paused", []any{q.Name, q.Paused}, []any{"new", true})
		q, err = b.ResumeQueue(b.ctx, "new")
		b.must(err)
		b.same("resumed", q.Paused, false)
		_, err = b.ResumeQueue(b.ctx, "nowhere")
		b.refused(err, engine.ErrNotFound, "queue: nowhere: no such queue: no job was ever put there")
		_, err = b.PauseQueue(b.ctx, "")
		b.refused(err, engine.ErrInvalid, "queue: the name is empty")
	}},
	{"an unknown queue cannot be explained", func(b *bench) {
		_, err := b.ExplainQueue(b.ctx, "nowhere")
		b.refused(err, engine.ErrNotFound, "queue: nowhere: no such queue: no job was ever put there")
	}},
	{"why nothing moves", func(b *bench) {
		b.add(engine.NewJob{Kind: "mail", DueAt: T0.Add(10 * time.Second)})
		b.explained(false, "no waiting job is due: the first may start at 09:00:10Z (in 10s)", "no live worker serves it")
		b.work([]string{"default"}, "sms")
		b.clock.Advance(15 * time.Second)
		b.explained(false, "the oldest due job has waited since 09:00:10Z (5s)", "no live worker handles kind mail: 1 of 1 waiting job")
		b.work([]string{"default"}, "mail", "sms")
		b.explained(true, "the oldest due job has waited since 09:00:10Z (5s)", "2 live workers serve it: due jobs start as slots get free")
		_, err := b.PauseQueue(b.ctx, "default")
		b.must(err)
		b.explained(false, "the oldest due job has waited since 09:00:10Z (5s)",
			"it is paused since 09:00:15Z (0s) by order of maya; nothing starts before: ebb queue resume default")
		_, err = b.ResumeQueue(b.ctx, "default")
		b.must(err)
		b.claim("mail")
		b.explained(true, "1 job is running now", "no job waits")
		b.clock.Advance(time.Minute)
		b.explained(true, "1 job is running now", "no job waits",
			"no live worker serves it: 2 workers are registered but silent for longer than the lease of 20s")
	}},
	{"a strict queue names its holder", func(b *bench) {
		b.must(b.store.StrictQueue(b.ctx, "default", true))
		first := b.add(engine.NewJob{Kind: "mail"})
		b.add(engine.NewJob{Kind: "mail"})
		b.work([]string{"default"}, "mail")
		b.claim("mail")
		b.clock.Advance(5 * time.Second)
		got := b.explained(true, "1 job is running now", "the oldest due job has waited since 09:00:00Z (5s)",
			"it is strict, one job at a time: job 0000000000001 (kind mail) has been running since 09:00:00Z (5s), in process 1")
		b.same("holder", got.Holder.ID, first)
		b.same("lag", got.Lag, 5.0)
		b.same("workers", got.Workers, []engine.Worker{{
			Process: 1, Host: "alpha", PID: 4711, Kinds: []string{"mail"}, Queues: []string{"default"}, Alive: true, HeartbeatAge: 5, SeenAt: T0, BornAt: T0,
		}})
	}},
	{"nothing passes the head of a strict queue", func(b *bench) {
		b.must(b.store.StrictQueue(b.ctx, "default", true))
		b.add(engine.NewJob{Kind: "odd"})
		b.add(engine.NewJob{Kind: "mail"})
		b.work([]string{"default"}, "mail")
		b.explained(false, "the oldest due job has waited since 09:00:00Z (0s)", "no live worker handles kind odd: 1 of 2 waiting jobs",
			"it is strict and job 0000000000001, of kind odd, is first: nothing passes it")
	}},
}

// explained fails the test unless the default queue is explained in these
// sentences.
func (b *bench) explained(moves bool, want ...string) engine.QueueExplained {
	b.Helper()
	got, err := b.ExplainQueue(b.ctx, "default")
	b.must(err)
	var texts []string
	for _, r := range got.Reasons {
		texts = append(texts, r.Text)
	}
	b.same("queue", texts, want)
	b.same("moves", got.Moves, moves)
	return got
}
