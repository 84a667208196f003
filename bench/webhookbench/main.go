// Command webhookbench measures webhook delivery on SQLite and on one
// throw-away PostgreSQL, beside a bare Go client loop that signs and sends as
// many messages by as many connections to the same receiver on loopback, and
// how long an event takes from enqueue to its endpoint at 200 events a second.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/ebbhq/ebb/bench/command"
	"github.com/ebbhq/ebb/bench/pg"
	"github.com/ebbhq/ebb/bench/report"
)

// plan is how much is measured.
type plan struct {
	rounds     int
	deliveries int // of one drain, and of the bare loop before and after it; many, so that the begin weighs little
	slow       int // the same of endpoints that take their time
	rate       int // events a second
	events     int // at that rate
	paced      int // rounds with those
}

var (
	full  = plan{rounds: 7, deliveries: 40_000, slow: 3000, rate: 200, events: 2000, paced: 3}
	quick = plan{rounds: 1, deliveries: 4000, slow: 1000, rate: 200, events: 600, paced: 1}
)

func main() { command.Main("webhookbench", run) }

func run(ctx context.Context) (err error) {
	fast := flag.Bool("quick", false, "a short run to try the benchmark itself; its figures mean little")
	record := flag.String("record", "", "file whose section bench:webhook is replaced by the result")
	only := flag.Int("drain", 0, "drain so many deliveries on each database and nothing else, for a profile")
	rounds := flag.Int("rounds", 0, "interleaved rounds; 0 = the plan's")
	on := flag.String("on", "sqlite,postgres", "databases to run on")
	profile := flag.String("profile", "", "write a processor profile of the run to this file")
	receiving := flag.Bool("receive", false, "be the receiver")
	flag.Parse()
	if *receiving {
		return receive()
	}
	b := &bench{plan: full, before: report.LoadAverage(), found: map[string]*result{}}
	if *fast {
		b.plan = quick
	}
	if *rounds > 0 {
		b.plan.rounds = *rounds
	}
	if *only > 0 {
		return command.Scratch("webhook", func(dir string) error {
			return stage(ctx, dir, strings.Split(*on, ","), func(on []database, to *receiver) error { return drainOnly(ctx, on, to, *only, *profile) })
		})
	}
	stop, err := command.Profile(*profile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if err := command.Scratch("webhook", func(dir string) error {
		return stage(ctx, dir, strings.Split(*on, ","), func(on []database, to *receiver) error { return b.measure(ctx, on, to) })
	}); err != nil {
		return err
	}
	text, targets := b.report()
	return command.Publish(*record, "webhook", text, targets)
}

// bench is one run.
type bench struct {
	plan   plan
	before string // load average
	found  map[string]*result
	order  []string // of the databases
}

// result is what one database reached.
type result struct {
	drains pairs
	slow   pairs       // to endpoints that take their time
	ages   [][]float64 // ms from enqueue to receipt, by round
}

// pairs are deliveries a second, by round, each with those of the bare loop
// around it: a machine is not as fast a minute later.
type pairs struct{ ebb, bare []float64 }

// database gives out empty ones as URLs.
type database struct {
	name  string
	fresh func(ctx context.Context) (url string, err error)
}

// stage calls do with the databases and a receiver, which end with it.
func stage(ctx context.Context, dir string, names []string, do func(databases []database, to *receiver) error) (err error) {
	databases, end, err := open(ctx, dir, names)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	to, err := startReceiver(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.close()) }()
	return do(databases, to)
}

func (b *bench) measure(ctx context.Context, databases []database, to *receiver) error {
	for round := range b.plan.rounds {
		for _, d := range databases {
			if err := b.round(ctx, d, to, round); err != nil {
				return fmt.Errorf("%s: %w", d.name, err)
			}
		}
	}
	return nil
}

func open(ctx context.Context, dir string, names []string) (list []database, end func() error, err error) {
	end = func() error { return nil }
	for _, name := range names {
		switch name {
		case "sqlite":
			n := 0
			list = append(list, database{"SQLite", func(context.Context) (string, error) {
				n++
				return "sqlite:" + filepath.Join(dir, fmt.Sprintf("hooks-%d.db", n)), nil
			}})
		case "postgres":
			home := filepath.Join(dir, "pg")
			if err := os.Mkdir(home, 0o700); err != nil {
				return nil, nil, err
			}
			cluster, err := pg.Start(ctx, home)
			if err != nil {
				return nil, nil, err
			}
			end = cluster.Stop
			list = append(list, database{"PostgreSQL", func(ctx context.Context) (string, error) { return cluster.Fresh(ctx, "hooks") }})
		default:
			return nil, nil, fmt.Errorf("no database %q; one of: sqlite, postgres", name)
		}
	}
	return list, end, nil
}

func (b *bench) round(ctx context.Context, d database, to *receiver, round int) (err error) {
	r := b.found[d.name]
	if r == nil {
		r = &result{}
		b.found[d.name] = r
		b.order = append(b.order, d.name)
	}
	url, err := d.fresh(ctx)
	if err != nil {
		return err
	}
	s, err := newSender(ctx, url, to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.compare(ctx, to, everybody, "", b.plan.deliveries, &r.drains); err != nil {
		return err
	}
	if err := s.compare(ctx, to, patient, slowPath, b.plan.slow, &r.slow); err != nil {
		return err
	}
	command.Progress("round %d: %s: %s, to endpoints of %s %s", round+1, d.name, r.drains.last(), slow, r.slow.last())
	if round >= b.plan.paced {
		return nil
	}
	if err := s.trickle(ctx, b.plan.rate, b.plan.events); err != nil {
		return err
	}
	ages, err := to.taken(ctx)
	if err != nil || len(ages) != b.plan.events {
		return errors.Join(err, fmt.Errorf("received %d of %d", len(ages), b.plan.events))
	}
	r.ages = append(r.ages, ages)
	command.Progress("round %d: %s: at %d/s p50 %s ms, p95 %s ms", round+1, d.name, b.plan.rate,
		report.Number(report.Quantile(ages, 0.5)), report.Number(report.Quantile(ages, 0.95)))
	return nil
}

// last tells the last of them.
func (p *pairs) last() string {
	n := len(p.ebb) - 1
	return fmt.Sprintf("%s a second, the bare loop %s", report.Number(p.ebb[n]), report.Number(p.bare[n]))
}
