package main

import (
	"context"
	"errors"

	"github.com/ebbhq/ebb/bench/command"

	"github.com/ebbhq/ebb/bench/child"
	"github.com/ebbhq/ebb/bench/report"
)

// result gathers what the rounds of one system gave.
type result struct {
	insert, drain, fail, slow    []float64 // jobs a second
	insertCPU, drainCPU, failCPU []float64 // ms per 1,000 jobs, database and client
	drainDB                      []float64 // … of the database alone
	insertWAL, drainWAL          []float64 // bytes a job
	p50, p99                     []float64 // ms from enqueue to start, of each round
	plain, future                []float64 // drain without and with future jobs
	lite, liteInsert, liteFail   []float64 // SQLite, jobs a second
}

func (b *bench) result(key string) *result {
	if b.results[key] == nil {
		b.results[key] = &result{}
	}
	return b.results[key]
}

// warmUp is how many jobs a child drains before it is measured: compilers
// that learn, caches and prepared statements.
const warmUp = 3000

// rounds measures all systems, in another order each round.
func (b *bench) rounds(ctx context.Context) error {
	for round := range b.plan.rounds {
		for i := range systems {
			s := systems[(i+round)%len(systems)]
			if b.plan.systems != "" && !command.Listed(b.plan.systems, s.key) {
				continue
			}
			if err := b.round(ctx, s); err != nil {
				return err
			}
			r := b.result(s.key)
			command.Progress("round %d of %d: %s: insert %s, drain %s, fail once %s jobs/s", round+1, b.plan.rounds, s.name,
				last(r.insert), last(r.drain), last(r.fail))
		}
	}
	return nil
}

func last(values []float64) string {
	if len(values) == 0 {
		return "–"
	}
	return report.Number(values[len(values)-1])
}

// round measures one system once, in a database of its own.
func (b *bench) round(ctx context.Context, s system) (err error) {
	p, dsn, err := b.start(ctx, s)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			p.Kill()
			return
		}
		err = errors.Join(p.Close(), b.cluster.Drop(ctx, s.key))
	}()
	for _, op := range []string{"insert", "drain"} {
		if _, err := p.Call(child.Request{Op: op, N: warmUp, Batch: b.plan.batch}); err != nil {
			return err
		}
	}
	if err := b.bulk(ctx, s, p); err != nil {
		return err
	}
	if s.slow {
		if err := b.slow(s, p); err != nil {
			return err
		}
	}
	return b.latency(ctx, s, p, dsn)
}

// bulk measures insert, drain and fail once. Checkpoints come before the
// inserts, so that no full page images disturb the count of bytes.
func (b *bench) bulk(ctx context.Context, s system, p *child.Process) error {
	n, r := b.plan.jobs, b.result(s.key)
	per := func(c cost) (rate, cpu, db, wal float64) {
		jobs := float64(n)
		return jobs / c.seconds, (c.db + c.client) / jobs * 1e6, c.db / jobs * 1e6, c.wal / jobs
	}
	if err := b.cluster.Checkpoint(ctx); err != nil {
		return err
	}
	c, err := b.price(ctx, p, child.Request{Op: "insert", N: n, Batch: b.plan.batch})
	if err != nil {
		return err
	}
	rate, cpu, _, wal := per(c)
	r.insert, r.insertCPU, r.insertWAL = append(r.insert, rate), append(r.insertCPU, cpu), append(r.insertWAL, wal)
	if err := b.cluster.Analyze(ctx, s.key); err != nil {
		return err
	}
	if c, err = b.price(ctx, p, child.Request{Op: "drain", N: n}); err != nil {
		return err
	}
	rate, cpu, db, wal := per(c)
	r.drain, r.drainCPU, r.drainWAL, r.drainDB = append(r.drain, rate), append(r.drainCPU, cpu), append(r.drainWAL, wal), append(r.drainDB, db)

	if err := b.cluster.Checkpoint(ctx); err != nil {
		return err
	}
	if _, err := p.Call(child.Request{Op: "insert", N: n, Batch: b.plan.batch}); err != nil {
		return err
	}
	if err := b.cluster.Analyze(ctx, s.key); err != nil {
		return err
	}
	if c, err = b.price(ctx, p, child.Request{Op: "failonce", N: n}); err != nil {
		return err
	}
	rate, cpu, _, _ = per(c)
	r.fail, r.failCPU = append(r.fail, rate), append(r.failCPU, cpu)
	return nil
}

// slow measures handlers of 10 ms on 10 workers.
func (b *bench) slow(s system, p *child.Process) error {
	n := b.plan.slow
	if _, err := p.Call(child.Request{Op: "insert", N: n, Batch: b.plan.batch}); err != nil {
		return err
	}
	a, err := p.Call(child.Request{Op: "slow", N: n, Workers: 10, Millis: 10})
	if err != nil {
		return err
	}
	r := b.result(s.key)
	r.slow = append(r.slow, float64(n)/a.Seconds)
	return nil
}

// latency measures from before an enqueue in one process to the handler's
// start in another, with an idle queue.
func (b *bench) latency(ctx context.Context, s system, p *child.Process, dsn string) error {
	producer, err := b.spawn(ctx, s)
	if err != nil {
		return err
	}
	defer producer.Kill()
	if _, err := producer.Call(child.Request{Op: "setup", DSN: dsn}); err != nil {
		return err
	}
	if _, err := p.Call(child.Request{Op: "serve"}); err != nil {
		return err
	}
	// The first few open connections and prepare statements; they do not count.
	const first = 10
	n := b.plan.latencies
	if _, err := producer.Call(child.Request{Op: "enqueue", N: n + first, Millis: 20}); err != nil {
		return err
	}
	a, err := p.Call(child.Request{Op: "collect", N: n + first})
	if err != nil {
		return err
	}
	r, values := b.result(s.key), a.Values[first:]
	r.p50, r.p99 = append(r.p50, report.Quantile(values, 0.5)), append(r.p99, report.Quantile(values, 0.99))
	return nil
}
