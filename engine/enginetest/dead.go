package enginetest

import (
	"time"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
)

var deadRules = []rule{
	{"dead letters are listed and grouped", func(b *bench) {
		b.add(engine.NewJob{Kind: "other", Queue: "elsewhere"})
		first := b.die(engine.NewJob{Kind: "mail"}, rejected("no page 1"), "aa")
		b.clock.Advance(time.Second)
		second := b.die(engine.NewJob{Kind: "mail"}, rejected("no page 2"), "aa")
		third := b.die(engine.NewJob{Kind: "mail"}, failure.Of(failure.InvalidInput), "bb")
		list, err := b.Dead(b.ctx, engine.Filter{}, engine.Page{})
		b.must(err)
		b.same("ids", ids(list), []string{third, second, first})
		list, err = b.Dead(b.ctx, engine.Filter{Class: "rejected", Since: T0.Add(time.Second)}, engine.Page{})
		b.must(err)
		b.same("ids", ids(list), []string{second})
		groups, err := b.Groups(b.ctx, engine.Filter{}, engine.Page{Limit: 10})
		b.must(err)
		b.same("groups", groups, []engine.Group{
			{
				Fingerprint: "aa", Kind: "mail", Queue: "default", Class: "rejected", Cause: retry.CauseFatal,
				Error: "no page 2", Count: 2, FirstAt: T0, LastAt: T0.Add(time.Second),
			},
			{
				Fingerprint: "bb", Kind: "mail", Queue: "default", Class: "invalid_input", Cause: retry.CauseFatal,
				Count: 1, FirstAt: T0.Add(time.Second), LastAt: T0.Add(time.Second),
			},
		})
	}},
	{"only what ended can be asked for", func(b *bench) {
		_, err := b.Dead(b.ctx, engine.Filter{State: job.Queued}, engine.Page{})
		b.refused(err, engine.ErrInvalid, `state "queued": must be failed or parked`)
		_, err = b.Redrive(b.ctx, engine.Order{Filter: engine.Filter{State: job.Running}})
		b.refused(err, engine.ErrInvalid, `state "running": must be failed or parked`)
		_, err = b.Redrive(b.ctx, engine.Order{Rate: -1})
		b.refused(err, engine.ErrInvalid, "redrive: rate -1: must be 0 (at once) or more jobs a second")
		_, err = b.Groups(b.ctx, engine.Filter{State: job.Parked}, engine.Page{Limit: 10})
		b.refused(err, engine.ErrInvalid, `state "parked": only dead letters are grouped; leave it out`)
		_, err = b.FinishRedrive(b.ctx, "9", nil)
		b.refused(err, engine.ErrNotFound, "redrive: 9: no such redrive")
	}},
	{"a dry run counts and changes nothing", func(b *bench) {
		b.die(engine.NewJob{Kind: "mail"}, rejected("no"), "aa")
		b.die(engine.NewJob{Kind: "mail"}, rejected("no"), "bb")
		got, err := b.Redrive(b.ctx, engine.Order{Filter: engine.Filter{Fingerprint: "aa"}, DryRun: true})
		b.must(err)
		b.same("answer", got, engine.Redrive{Filter: engine.Filter{State: job.Failed, Fingerprint: "aa"}, Actor: Actor, Matching: 1, DryRun: true})
		all, err := b.Redrives(b.ctx, 10)
		b.must(err)
		b.same("orders", len(all), 0)
	}},
	{"an order is durable and seen through", func(b *bench) {
		var dead []string
		for range 3 {
			dead = append(dead, b.die(engine.NewJob{Kind: "mail"}, rejected("no"), "aa"))
		}
		kept := b.die(engine.NewJob{Kind: "mail"}, rejected("yes"), "bb")
		order, err := b.Redrive(b.ctx, engine.Order{Filter: engine.Filter{Fingerprint: "aa", IDs: []string{dead[0], dead[2], kept}}})
		b.must(err)
		b.same("order", []any{order.ID, order.Matching, order.Moved, order.Done(), order.Actor}, []any{"1", 2, int64(0), false, Actor})
		var last engine.Redrive
		done, err := b.FinishRedrive(b.ctx, order.ID, func(r engine.Redrive) { last = r })
		b.must(err)
		b.same("done", []any{done.Moved, done.Done()}, []any{int64(2), true})
		b.same("progress", last, done)
		list, err := b.Dead(b.ctx, engine.Filter{}, engine.Page{})
		b.must(err)
		b.same("left", ids(list), []string{kept, dead[1]})
		again, err := b.FinishRedrive(b.ctx, order.ID, nil)
		b.must(err)
		b.same("a finished order", again, done)
		all, err := b.Redrives(b.ctx, 10)
		b.must(err)
		b.same("orders", all, []engine.Redrive{done})
	}},
	{"parked jobs are released by an order", func(b *bench) {
		id := b.die(engine.NewJob{Kind: "mail"}, failure.Of(failure.Config), "cc")
		list, err := b.Dead(b.ctx, engine.Filter{State: job.Parked}, engine.Page{})
		b.must(err)
		b.same("parked", ids(list), []string{id})
		order, err := b.Redrive(b.ctx, engine.Order{Filter: engine.Filter{State: job.Parked, Fingerprint: "cc"}})
		b.must(err)
		_, err = b.FinishRedrive(b.ctx, order.ID, nil)
		b.must(err)
		got, err := b.Job(b.ctx, id)
		b.must(err)
		b.same("state", got.State, job.Queued)
	}},
}
