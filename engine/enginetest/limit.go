package enginetest

import (
	"encoding/json"
	"time"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
)

var limitRules = []rule{
	{"a queue is limited over all processes, and not any more", func(b *bench) {
		b.add(engine.NewJob{Kind: "mail"})
		q, err := b.LimitQueue(b.ctx, "default", engine.QueueLimit{Concurrency: 2, Rate: 0.5})
		b.must(err)
		b.same("limit", q.Limit, &engine.QueueLimit{Concurrency: 2, Rate: 0.5})
		b.work([]string{"default"}, "mail")
		b.explained(true, "the oldest due job has waited since 09:00:00Z (0s)", "it is limited over all processes to 2 jobs at once and 0.5 starts a second",
			"1 live worker serves it: due jobs start as slots get free")
		got, err := b.Target(b.ctx, "queue:default")
		b.must(err)
		b.same("its gate", []any{got.Firsts, got.Limits.Concurrency, got.Limits.Rate}, []any{1, 2, 0.5})
		q, err = b.LimitQueue(b.ctx, "default", engine.QueueLimit{})
		b.must(err)
		b.same("no limit", q.Limit, (*engine.QueueLimit)(nil))
	}},
	{"a limit that makes no sense is refused", func(b *bench) {
		_, err := b.LimitQueue(b.ctx, "", engine.QueueLimit{})
		b.refused(err, engine.ErrInvalid, "queue: the name is empty")
		_, err = b.LimitQueue(b.ctx, "mail", engine.QueueLimit{Concurrency: -1})
		b.refused(err, engine.ErrInvalid, "queue: mail: concurrency -1: must be 0 (no limit) or more")
		_, err = b.LimitQueue(b.ctx, "mail", engine.QueueLimit{Rate: -1})
		b.refused(err, engine.ErrInvalid, "queue: mail: rate -1: must be 0 (no limit) or more starts a second")
	}},
	{"a kind is paused in all queues", func(b *bench) {
		id := b.add(engine.NewJob{Kind: "mail"})
		b.work([]string{"default"}, "mail", "sms")
		k, err := b.PauseKind(b.ctx, "mail")
		b.must(err)
		b.same("paused", k, engine.Kind{Name: "mail", Paused: true, PausedAt: T0, PausedBy: Actor, Workers: 1})
		_, err = b.PauseKind(b.ctx, "unknown")
		b.must(err)
		all, err := b.Kinds(b.ctx)
		b.must(err)
		b.same("kinds", all, []engine.Kind{
			k, {Name: "sms", Workers: 1}, {Name: "unknown", Paused: true, PausedAt: T0, PausedBy: Actor},
		})
		b.clock.Advance(time.Second)
		b.why(id, "was enqueued at 09:00:00Z and has not started yet; due since 09:00:00Z (1s ago)",
			"kind mail is paused since 09:00:00Z (1s) by order of maya; nothing of it starts in any queue before: ebb kind resume mail")
		b.explained(false, "the oldest due job has waited since 09:00:00Z (1s)",
			"kind mail is paused since 09:00:00Z (1s) by order of maya, 1 of 1 waiting job: ebb kind resume mail")
		k, err = b.ResumeKind(b.ctx, "mail")
		b.must(err)
		b.same("resumed", k, engine.Kind{Name: "mail", Workers: 1})
		_, err = b.ResumeKind(b.ctx, "mail")
		b.refused(err, engine.ErrNotFound, "kind: mail: it is not paused")
		_, err = b.PauseKind(b.ctx, "")
		b.refused(err, engine.ErrInvalid, "kind: the name is empty")
	}},
}

var keyRules = []rule{
	{"a key's later jobs are told who is first", func(b *bench) {
		first := b.add(engine.NewJob{Kind: "mail", Key: "k"})
		second := b.add(engine.NewJob{Kind: "mail", Key: "k", KeyRule: "block"})
		b.work([]string{"default"}, "mail")
		got, err := b.Job(b.ctx, second)
		b.must(err)
		b.same("second", []any{got.Key, got.KeyRule, got.Blocked}, []any{"k", job.KeyBlock, true})
		b.why(second, "was enqueued at 09:00:00Z and has not started yet; due since 09:00:00Z (0s ago)",
			`it is behind job `+first+` of key "k", which is due and waits for its turn: ebb job why `+first)
		b.explained(true, "the oldest due job has waited since 09:00:00Z (0s)", "behind an earlier job of their key: 1 of 2 waiting jobs",
			"1 live worker serves it: due jobs start as slots get free")
		b.fail(b.claim("mail"), rejected("no"), "aa")
		b.clock.Advance(time.Second)
		b.why(second, "was enqueued at 09:00:00Z and has not started yet; due since 09:00:00Z (1s ago)",
			`it is behind job `+first+` of key "k", which failed (fatal) and blocks it, as its key rule says, until it is retried or dropped: ebb job retry `+first)
	}},
	{"a failed head may be skipped, or park the others", func(b *bench) {
		b.work([]string{"default"}, "mail")
		b.add(engine.NewJob{Kind: "mail", Key: "k", KeyRule: job.KeySkip})
		next := b.add(engine.NewJob{Kind: "mail", Key: "k", KeyRule: job.KeyPark})
		last := b.add(engine.NewJob{Kind: "mail", Key: "k"})
		b.fail(b.claim("mail"), rejected("no"), "aa")
		b.same("states", b.states(next, last), []job.State{job.Queued, job.Queued})
		b.fail(b.claim("mail"), rejected("no"), "aa")
		b.same("states", b.states(next, last), []job.State{job.Failed, job.Parked})
		b.why(last, `was parked: an earlier job of its key "k" failed, and its key rule parks those behind it`, "what releases it is an order: ebb job retry "+last)
	}},
	{"a unique key has a scope and an answer to conflict", func(b *bench) {
		first := b.add(engine.NewJob{Kind: "mail", Unique: "u", UniqueScope: job.UniqueInQueue})
		b.add(engine.NewJob{Kind: "mail", Unique: "u", UniqueScope: job.UniqueInQueue, Queue: "other"})
		added, err := b.Enqueue(b.ctx, engine.NewJob{
			Kind: "mail", Unique: "u", UniqueScope: job.UniqueInQueue, OnConflict: job.ConflictReplace, Args: json.RawMessage(`2`), DueAt: T0.Add(time.Hour),
		})
		b.must(err)
		b.same("replaced", []any{added[0].ID, added[0].Existing, string(added[0].Args), added[0].DueAt}, []any{first, true, "2", T0.Add(time.Hour)})
		_, err = b.Enqueue(b.ctx, engine.NewJob{Kind: "good"}, engine.NewJob{Kind: "mail", Unique: "u", UniqueScope: job.UniqueInQueue, OnConflict: job.ConflictRefuse})
		b.refused(err, engine.ErrTaken, `enqueue: the unique key "queue default: u" is taken by job `+first)
		list, err := b.Jobs(b.ctx, engine.Filter{Kind: "good"}, engine.Page{})
		b.must(err)
		b.same("added beside it", len(list.Jobs), 0)
	}},
	{"wishes about keys that make no sense are refused", func(b *bench) {
		for _, c := range []struct {
			job   engine.NewJob
			words string
		}{
			{engine.NewJob{Kind: "mail", KeyRule: job.KeySkip}, `enqueue: key rule "skip" without a key`},
			{engine.NewJob{Kind: "mail", Unique: "u", UniqueFor: -1}, "enqueue: mail: unique_for_s -1: must be 0 or more seconds, up to 100 years"},
			{engine.NewJob{Kind: "mail", Unique: "u", UniqueScope: "world"}, `enqueue: unique scope "world": want "queue", "kind" or nothing, which means everywhere`},
			{engine.NewJob{Kind: "mail", OnConflict: job.ConflictRefuse}, "enqueue: unique scope, time or conflict without a unique key"},
			{engine.NewJob{Kind: "mail", Target: "queue:x"}, `enqueue: target "queue:x": names that begin with "queue:" are for the limits of queues`},
		} {
			_, err := b.Enqueue(b.ctx, c.job)
			b.refused(err, engine.ErrInvalid, c.words)
		}
	}},
}
