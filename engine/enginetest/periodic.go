package enginetest

import (
	"encoding/json"
	"time"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
)

var periodicRules = []rule{
	{"a schedule is put, listed and dropped", func(b *bench) {
		wish := engine.Periodic{
			Name: "report", Cron: "0 2 * * *", Zone: "Europe/Berlin", Missed: "once",
			Job: engine.NewJob{Kind: "report", Args: json.RawMessage(`{"day":1}`), Unique: "r", OnConflict: job.ConflictReplace},
		}
		got, err := b.PutPeriodic(b.ctx, wish)
		b.must(err)
		want := wish
		want.Missed, want.NextAt, want.Job.Queue, want.Job.Policy = "", T0.Add(16*time.Hour), "default", "default"
		b.same("put", got, want)
		_, err = b.PutPeriodic(b.ctx, engine.Periodic{Name: "hourly", Cron: "@hourly", Job: engine.NewJob{Kind: "tick"}})
		b.must(err)
		list, err := b.Periodics(b.ctx)
		b.must(err)
		b.same("names", []string{list[0].Name, list[1].Name}, []string{"hourly", "report"})
		b.must(b.DropPeriodic(b.ctx, "hourly"))
		b.refused(b.DropPeriodic(b.ctx, "hourly"), engine.ErrNotFound, "periodic: hourly: no such schedule")
		rows, err := b.store.Audit(b.ctx, 9)
		b.must(err)
		b.same("audit", []string{rows[0].Actor, rows[0].Act, rows[0].What, rows[2].Act}, []string{Actor, "periodic.drop", "hourly", "periodic.put"})
	}},
	{"a schedule put again keeps its next time unless its times change", func(b *bench) {
		put := func(cron string) time.Time {
			p, err := b.PutPeriodic(b.ctx, engine.Periodic{Name: "p", Cron: cron, Job: engine.NewJob{Kind: "tick"}})
			b.must(err)
			return p.NextAt
		}
		b.same("next", put("0 * * * *"), T0.Add(time.Hour))
		b.clock.Advance(90 * time.Minute)
		b.same("the same times", put("0 * * * *"), T0.Add(time.Hour))
		b.same("other times", put("30 * * * *"), T0.Add(150*time.Minute))
	}},
	{"a schedule that makes no sense is refused", func(b *bench) {
		for _, c := range []struct {
			p     engine.Periodic
			words string
		}{
			{engine.Periodic{}, "periodic: the name is empty"},
			{engine.Periodic{Name: "p", Cron: "* * *", Job: engine.NewJob{Kind: "k"}}, `periodic: p: "* * *": want five fields, such as "0 6 * * 1", or @daily: expected exactly 5 fields, found 3: [* * *]`},
			{engine.Periodic{Name: "p", Cron: "@daily", Zone: "Nowhere", Job: engine.NewJob{Kind: "k"}}, `periodic: p: zone "Nowhere": want a name of the IANA database, such as Europe/Berlin: unknown time zone Nowhere`},
			{engine.Periodic{Name: "p", Cron: "@daily", Missed: "some", Job: engine.NewJob{Kind: "k"}}, `periodic: p: missed "some": want once, skip or all`},
			{engine.Periodic{Name: "p", Cron: "@daily"}, "periodic: p: enqueue: the kind is empty; name the handler"},
			{engine.Periodic{Name: "p", Cron: "@daily", Job: engine.NewJob{Kind: "k", DueAt: T0}}, "periodic: p: its jobs are due at its times: leave due_at and deadline_at out"},
		} {
			_, err := b.PutPeriodic(b.ctx, c.p)
			b.refused(err, engine.ErrInvalid, c.words)
		}
	}},
}
