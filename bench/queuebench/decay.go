package main

import (
	"context"
	"errors"
	"time"

	"github.com/ebbhq/ebb/bench/command"

	"github.com/ebbhq/ebb/bench/child"
	"github.com/ebbhq/ebb/bench/report"
)

// lasting are the systems whose decay is measured: Ebb for the target, River
// for the record.
func (b *bench) lasting() []system {
	var of []system
	for _, s := range systems {
		if s.key != "ebb" && s.key != "river" {
			continue
		}
		if b.plan.systems == "" || command.Listed(b.plan.systems, s.key) {
			of = append(of, s)
		}
	}
	return of
}

// future compares the drain beside jobs that are not due yet with the drain
// without them, taking turns.
func (b *bench) future(ctx context.Context) error {
	for round := range b.plan.futureEach {
		for _, s := range b.lasting() {
			r := b.result(s.key)
			for _, turn := range []struct {
				jobs int
				into *[]float64
			}{{0, &r.plain}, {b.plan.future, &r.future}} {
				rate, err := b.drainBeside(ctx, s, turn.jobs)
				if err != nil {
					return err
				}
				*turn.into = append(*turn.into, rate)
			}
			command.Progress("future %d of %d: %s: drain %s without, %s with %s future jobs", round+1, b.plan.futureEach, s.name,
				last(r.plain), last(r.future), report.Number(float64(b.plan.future)))
		}
	}
	return nil
}

func (b *bench) drainBeside(ctx context.Context, s system, future int) (rate float64, err error) {
	p, _, err := b.start(ctx, s)
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			p.Kill()
			return
		}
		err = errors.Join(p.Close(), b.cluster.Drop(ctx, s.key))
	}()
	orders := []child.Request{
		{Op: "insert", N: warmUp, Batch: b.plan.batch},
		{Op: "drain", N: warmUp},
	}
	if future > 0 {
		orders = append(orders, child.Request{Op: "insert", N: future, Batch: b.plan.batch, Due: 24 * 3600})
	}
	for _, r := range append(orders, child.Request{Op: "insert", N: b.plan.jobs, Batch: b.plan.batch}) {
		if _, err := p.Call(r); err != nil {
			return 0, err
		}
	}
	if err := errors.Join(b.cluster.Analyze(ctx, s.key), b.cluster.Checkpoint(ctx)); err != nil {
		return 0, err
	}
	a, err := p.Call(child.Request{Op: "drain", N: b.plan.jobs})
	return float64(b.plan.jobs) / a.Seconds, err
}

// held compares a steady load with the same load under a snapshot that stays
// open all the while, each in a fresh database.
func (b *bench) held(ctx context.Context) error {
	b.heldRates = map[string][2][]float64{}
	for _, s := range b.lasting() {
		var rates [2][]float64
		for i := range rates {
			var err error
			if rates[i], err = b.underLoad(ctx, s, b.heldFor(s), i == 1); err != nil {
				return err
			}
		}
		b.heldRates[s.key] = rates
		command.Progress("held %s: %s: %s jobs/s without, %s with an open snapshot, at the end %s and %s", b.heldFor(s), s.name,
			report.Number(report.Mean(rates[0])), report.Number(report.Mean(rates[1])),
			report.Number(report.Mean(tail(rates[0]))), report.Number(report.Mean(tail(rates[1]))))
	}
	return nil
}

// heldFor is how long the snapshot is held: the target's time for Ebb, a
// minute at most for peers, who are measured for the record.
func (b *bench) heldFor(s system) time.Duration {
	if s.key == "ebb" {
		return b.plan.held
	}
	return min(b.plan.held, time.Minute)
}

func (b *bench) underLoad(ctx context.Context, s system, lasts time.Duration, snapshot bool) (rates []float64, err error) {
	p, _, err := b.start(ctx, s)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			p.Kill()
			return
		}
		err = errors.Join(p.Close(), b.cluster.Drop(ctx, s.key))
	}()
	// A short load first: the planner's statistics are those of a queue in use.
	if _, err := p.Call(child.Request{Op: "load", Seconds: 2, Batch: 2000}); err != nil {
		return nil, err
	}
	if err := errors.Join(b.cluster.Analyze(ctx, s.key), b.cluster.Checkpoint(ctx)); err != nil {
		return nil, err
	}
	release := func() error { return nil }
	if snapshot {
		if release, err = b.cluster.Hold(ctx, s.key); err != nil {
			return nil, err
		}
	}
	a, err := p.Call(child.Request{Op: "load", Seconds: lasts.Round(time.Second).Seconds(), Batch: 2000})
	return a.Values, errors.Join(err, release())
}

// tail is the last fifth: what the load has come to.
func tail(rates []float64) []float64 { return rates[len(rates)-(len(rates)+4)/5:] }
