package storetest

import (
	"sync/atomic"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// nightly is a schedule with something in every field.
var nightly = store.Periodic{
	Name: "nightly", Cron: "0 3 * * *", Zone: "Europe/Berlin", Missed: job.MissedAll, NextAt: at(100),
	Job: job.New{
		Kind: "report", Queue: "bulk", Target: "x", Key: "k", KeyRule: job.KeySkip, Unique: "u", UniqueScope: job.UniqueInKind,
		UniqueFor: time.Hour, Conflict: job.ConflictReplace, Policy: "calm", Priority: 4, Batch: "b", Args: []byte("{}\x00"), Trace: "t",
	},
}

// schedules lists all.
func (s *flowScript) schedules() []store.Periodic {
	s.Helper()
	list, err := s.Periodics(s.ctx)
	s.must(err)
	return list
}

// fire fires nightly.
func (s *flowScript) fire(now, from, next time.Time, jobs ...job.New) bool {
	s.Helper()
	ok, err := s.Fire(s.ctx, now, nightly.Name, from, next, jobs)
	s.must(err)
	return ok
}

var periodicRules = []flowRule{
	{"a schedule is read back whole, by name", func(s *flowScript) {
		hourly := store.Periodic{Name: "hourly", Cron: "@hourly", Job: plain, NextAt: at(3600), LastAt: at(0)}
		s.must(s.PutPeriodic(s.ctx, t0, "ann", nightly))
		s.must(s.PutPeriodic(s.ctx, t0, "ann", hourly))
		s.same("all", s.schedules(), []store.Periodic{hourly, nightly})
	}},
	{"none", func(s *flowScript) { s.same("none", len(s.schedules()), 0) }},
	{"put again: its times stay unless cron or zone are others", func(s *flowScript) {
		s.must(s.PutPeriodic(s.ctx, t0, "ann", nightly))
		s.fire(at(100), at(100), at(200), plain)
		next := nightly
		next.Job, next.Missed, next.NextAt, next.LastAt = plain, job.MissedSkip, at(999), time.Time{}
		s.must(s.PutPeriodic(s.ctx, at(101), "ann", next))
		want := next
		want.NextAt, want.LastAt = at(200), at(100)
		s.same("times stay", s.schedules(), []store.Periodic{want})
		for _, change := range []func(p *store.Periodic){
			func(p *store.Periodic) { p.Cron = "0 4 * * *" },
			func(p *store.Periodic) { p.Zone = "" },
		} {
			change(&next)
			next.NextAt = next.NextAt.Add(time.Second)
			s.must(s.PutPeriodic(s.ctx, at(102), "ann", next))
			s.same("new times", s.schedules(), []store.Periodic{next})
		}
	}},
	{"it fires once and moves on", func(s *flowScript) {
		s.must(s.PutPeriodic(s.ctx, t0, "ann", nightly))
		s.same("fired", s.fire(at(101), at(100), at(200), plain, job.New{Kind: "other"}), true)
		s.same("again", s.fire(at(101), at(100), at(200), plain), false)
		s.same("too early", s.fire(at(101), at(300), at(400), plain), false)
		s.same("jobs", s.counts(job.DefaultQueue), map[job.State]int64{job.Queued: 2})
		p := s.schedules()[0]
		s.same("times", []time.Time{p.NextAt, p.LastAt}, []time.Time{at(200), at(100)})
		j, err := s.List(s.ctx, store.Filter{Kind: "other"}, store.Page{Limit: 9})
		s.must(err)
		s.same("due", []any{j[0].DueAt, j[0].EnqueuedAt}, []any{at(101), at(101)})
	}},
	{"without jobs it only moves on", func(s *flowScript) {
		s.must(s.PutPeriodic(s.ctx, t0, "ann", nightly))
		s.same("fired", s.fire(at(101), at(100), at(200)), true)
		p := s.schedules()[0]
		s.same("times", []time.Time{p.NextAt, p.LastAt}, []time.Time{at(200), {}})
		s.nothingThere()
	}},
	{"a job that is refused keeps it from moving", func(s *flowScript) {
		s.must(s.PutPeriodic(s.ctx, t0, "ann", nightly))
		if ok, err := s.Fire(s.ctx, at(101), nightly.Name, at(100), at(200), []job.New{plain, {}}); err == nil || ok {
			s.Fatalf("fired %t, %v", ok, err)
		}
		s.same("all", s.schedules(), []store.Periodic{nightly})
		s.nothingThere()
	}},
	{"a unique key that is taken adds nothing and moves on", func(s *flowScript) {
		s.must(s.PutPeriodic(s.ctx, t0, "ann", nightly))
		u := job.New{Kind: "mail", Unique: "u"}
		s.add(t0, u)
		s.same("fired", s.fire(at(101), at(100), at(200), u), true)
		s.same("jobs", s.counts(job.DefaultQueue), map[job.State]int64{job.Queued: 1})
	}},
	{"a schedule that is not there does not fire", func(s *flowScript) {
		s.same("fired", s.fire(at(101), at(100), at(200), plain), false)
		s.nothingThere()
	}},
	{"dropped, it is gone", func(s *flowScript) {
		s.must(s.PutPeriodic(s.ctx, t0, "ann", nightly))
		s.must(s.DropPeriodic(s.ctx, at(1), "bob", nightly.Name))
		s.same("left", len(s.schedules()), 0)
		s.refused(s.DropPeriodic(s.ctx, at(2), "bob", nightly.Name), store.ErrNotFound)
		rows, err := s.Audit(s.ctx, 9)
		s.must(err)
		s.same("audit", []any{len(rows), rows[0].Act, rows[0].Actor, rows[0].What, rows[1].Act}, []any{2, "periodic.drop", "bob", "nightly", "periodic.put"})
	}},
	{"of a crowd one fires", func(s *flowScript) {
		s.must(s.PutPeriodic(s.ctx, t0, "ann", nightly))
		for round := range 10 {
			from := at(100 * float64(round+1))
			var fired atomic.Int64
			s.together(func(int) error {
				ok, err := s.Fire(s.ctx, from, nightly.Name, from, from.Add(100*time.Second), []job.New{plain})
				if ok {
					fired.Add(1)
				}
				return err
			})
			s.same("fired", fired.Load(), int64(1))
		}
		s.same("jobs", s.counts(job.DefaultQueue), map[job.State]int64{job.Queued: 10})
	}},
}
