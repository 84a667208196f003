package enginetest

import (
	"encoding/json"
	"time"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
)

var enqueueRules = []rule{
	{"defaults are filled and the job is told back", func(b *bench) {
		added, err := b.Enqueue(b.ctx, engine.NewJob{Kind: "mail", Args: json.RawMessage(`{"to":1}`)})
		b.must(err)
		b.same("JSON", b.encoded(added[0]), `{"id":"0000000000001","kind":"mail","queue":"default","state":"queued","due_at":"2026-02-21T09:00:00Z",`+
			`"policy":"default","priority":0,"enqueued_at":"2026-02-21T09:00:00Z","starts":0,"attempts":0,"epoch":0,"args":{"to":1}}`)
		got, err := b.Job(b.ctx, added[0].ID)
		b.must(err)
		b.same("job", got, added[0].Job)
	}},
	{"every wish is kept", func(b *bench) {
		n := engine.NewJob{
			Kind: "mail", Queue: "out", Target: "smtp", Key: "k", Unique: "u", Policy: "webhook", Priority: 3, DueAt: T0.Add(time.Hour),
			DeadlineAt: T0.Add(2 * time.Hour), Batch: "b", ArgsBase64: []byte{0xff, 0}, Trace: "t",
		}
		got, err := b.Job(b.ctx, b.add(n))
		b.must(err)
		b.same("job", got, engine.Job{
			ID: "0000000000001", Kind: "mail", Queue: "out", State: job.Queued, Target: "smtp", Key: "k", Unique: "u", Policy: "webhook", Priority: 3,
			DueAt: T0.Add(time.Hour), DeadlineAt: T0.Add(2 * time.Hour), Batch: "b", Trace: "t", EnqueuedAt: T0, ArgsBase64: []byte{0xff, 0},
		})
	}},
	{"a unique key answers with the living job", func(b *bench) {
		first := b.add(engine.NewJob{Kind: "mail", Unique: "u"})
		added, err := b.Enqueue(b.ctx, engine.NewJob{Kind: "mail"}, engine.NewJob{Kind: "mail", Unique: "u"})
		b.must(err)
		b.same("existing", []any{added[0].Existing, added[1].Existing, added[1].ID}, []any{false, true, first})
	}},
	{"what makes no sense is refused, all of it", func(b *bench) {
		for _, c := range []struct {
			job   engine.NewJob
			words string
		}{
			{engine.NewJob{}, "enqueue: the kind is empty; name the handler"},
			{engine.NewJob{Kind: "mail", Priority: 10}, "enqueue: mail: priority 10 is out of range; 0 to 9"},
			{engine.NewJob{Kind: "mail", Args: json.RawMessage("1"), ArgsBase64: []byte("1")}, "enqueue: mail: args and args_base64: give one"},
			{engine.NewJob{Kind: "mail", DeadlineAt: T0.Add(-time.Second)}, "enqueue: mail: deadline 2026-02-21T08:59:59Z is before the due time 2026-02-21T09:00:00Z: it could never start"},
		} {
			_, err := b.Enqueue(b.ctx, engine.NewJob{Kind: "good"}, c.job)
			b.refused(err, engine.ErrInvalid, c.words)
		}
		list, err := b.Jobs(b.ctx, engine.Filter{}, engine.Page{})
		b.must(err)
		b.same("jobs", len(list.Jobs), 0)
		_, err = b.Enqueue(b.ctx)
		b.refused(err, engine.ErrInvalid, "enqueue: no jobs given")
	}},
}

var jobRules = []rule{
	{"an unknown id is not found", func(b *bench) {
		_, err := b.Job(b.ctx, "0000000000009")
		b.refused(err, engine.ErrNotFound, "job: 0000000000009: no such job")
		_, err = b.Attempts(b.ctx, "nonsense")
		b.refused(err, engine.ErrNotFound, "job: nonsense: no such job: an id has 13 characters out of 0-9 and a-z")
		_, err = b.Retry(b.ctx, "0000000000009")
		b.refused(err, engine.ErrNotFound, "job: 0000000000009: no such job")
		_, err = b.Cancel(b.ctx, "0000000000009")
		b.refused(err, engine.ErrNotFound, "job: 0000000000009: no such job")
	}},
	{"lists go from newest to oldest, part by part", func(b *bench) {
		for range 5 {
			b.add(engine.NewJob{Kind: "mail"})
		}
		var seen []string
		page := engine.Page{Limit: 2}
		for range 3 {
			list, err := b.Jobs(b.ctx, engine.Filter{Kind: "mail"}, page)
			b.must(err)
			seen, page.Cursor = append(seen, ids(list)...), list.Next
		}
		b.same("ids", seen, []string{"0000000000005", "0000000000004", "0000000000003", "0000000000002", "0000000000001"})
		b.same("next of the last part", page.Cursor, "")
	}},
	{"a list selects", func(b *bench) {
		b.add(engine.NewJob{Kind: "mail"})
		b.add(engine.NewJob{Kind: "mail", Queue: "out"})
		b.add(engine.NewJob{Kind: "sms", Queue: "out"})
		list, err := b.Jobs(b.ctx, engine.Filter{Kind: "mail", Queue: "out", State: job.Queued}, engine.Page{})
		b.must(err)
		b.same("ids", ids(list), []string{"0000000000002"})
		list, err = b.Jobs(b.ctx, engine.Filter{IDs: []string{"0000000000001", "0000000000003"}}, engine.Page{})
		b.must(err)
		b.same("ids", ids(list), []string{"0000000000003", "0000000000001"})
	}},
	{"a list that makes no sense is refused", func(b *bench) {
		for _, c := range []struct {
			filter engine.Filter
			page   engine.Page
			words  string
		}{
			{engine.Filter{State: "done"}, engine.Page{}, `state "done": must be one of queued, running, succeeded, failed, parked, cancelled`},
			{engine.Filter{Cause: "bad"}, engine.Page{}, `cause "bad": must be one of fatal, exhausted, poison, expired, config, no_progress, target_down, host_lost, disabled, head_failed`},
			{engine.Filter{Since: T0, Until: T0}, engine.Page{}, "since 2026-02-21T09:00:00Z: must be before until 2026-02-21T09:00:00Z"},
			{engine.Filter{IDs: []string{"x"}}, engine.Page{}, `id "x": want 13 characters, got 1`},
			{engine.Filter{}, engine.Page{Limit: 1001}, "limit 1001: must be 1 to 1000"},
			{engine.Filter{}, engine.Page{Cursor: "x"}, `cursor "x": must be the next of a list before`},
		} {
			_, err := b.Jobs(b.ctx, c.filter, c.page)
			b.refused(err, engine.ErrInvalid, c.words)
		}
	}},
	{"the ledger tells every start", func(b *bench) {
		id := b.add(engine.NewJob{Kind: "mail", Policy: "processing"})
		b.work([]string{"default"}, "mail")
		f := failure.Of(failure.Server)
		f.Status = 503
		b.clock.Advance(time.Second)
		b.fail(b.claim("mail"), f, "ff")
		b.clock.Advance(30 * time.Second)
		b.succeed(b.claim("mail"), `"sent"`)
		got, err := b.Attempts(b.ctx, id)
		b.must(err)
		version := policy.MustPreset("processing").Version
		b.same("ledger", got, []engine.Attempt{
			{
				Start: 1, Epoch: 1, Process: b.process, StartedAt: T0.Add(time.Second), EndedAt: T0.Add(time.Second), Class: "server", Status: 503, Action: "retry",
				Delay: 30, DueAt: T0.Add(31 * time.Second), Rule: "builtin/server", Counted: retry.CountedAttempt, PolicyVersion: version,
			},
			{Start: 2, Epoch: 2, Process: b.process, StartedAt: T0.Add(31 * time.Second), EndedAt: T0.Add(31 * time.Second), OK: true, PolicyVersion: version},
		})
		done, err := b.Job(b.ctx, id)
		b.must(err)
		b.same("job", []any{done.State, done.EndedAt, done.Attempts, string(done.Result)}, []any{job.Succeeded, T0.Add(31 * time.Second), 2, `"sent"`})
	}},
	{"a retry makes a waiting job due and a dead letter live", func(b *bench) {
		later := b.add(engine.NewJob{Kind: "sms", DueAt: T0.Add(time.Hour)})
		got, err := b.Retry(b.ctx, later)
		b.must(err)
		b.same("due", got.DueAt, T0)
		dead := b.die(engine.NewJob{Kind: "mail"}, rejected("no such page"), "ff")
		got, err = b.Retry(b.ctx, dead)
		b.must(err)
		b.same("job", []any{got.State, got.Attempts, got.Starts}, []any{job.Queued, 0, 1})
	}},
	{"a cancel ends what waits and orders what runs", func(b *bench) {
		waiting := b.add(engine.NewJob{Kind: "mail"})
		got, err := b.Cancel(b.ctx, waiting)
		b.must(err)
		b.same("state", got.State, job.Cancelled)
		_, err = b.Cancel(b.ctx, waiting)
		b.refused(err, engine.ErrState, "cancel: 0000000000001: it is cancelled; only queued, running and parked jobs can be cancelled")
		_, err = b.Retry(b.ctx, waiting)
		b.refused(err, engine.ErrState, "retry: 0000000000001: it is cancelled; only failed, parked and queued jobs can be retried")
		running := b.add(engine.NewJob{Kind: "mail"})
		b.work([]string{"default"}, "mail")
		b.claim("mail")
		got, err = b.Cancel(b.ctx, running)
		b.must(err)
		b.same("state", got.State, job.Running)
	}},
	{"a retry whose unique key is taken is refused", func(b *bench) {
		dead := b.die(engine.NewJob{Kind: "mail", Unique: "u"}, rejected("no"), "ff")
		b.add(engine.NewJob{Kind: "mail", Unique: "u"})
		_, err := b.Retry(b.ctx, dead)
		b.refused(err, engine.ErrState, `retry: 0000000000001: it is failed; its unique key "u" is taken by a living job`)
	}},
	{"policies have versions", func(b *bench) {
		got, err := b.Policies(b.ctx)
		b.must(err)
		var names []string
		for _, p := range got {
			names = append(names, p.Name)
			b.same(p.Name, p.Version, policy.MustPreset(p.Name).Version)
		}
		b.same("names", names, policy.PresetNames())
	}},
}
