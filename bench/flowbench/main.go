// Command flowbench measures what flow control costs, on SQLite and on one
// throw-away PostgreSQL: plain work beside it, limits over many targets, one
// target with a limit, a healthy target beside one that times out.
//
// Everything is a ratio of two drains of the same run, in interleaved rounds.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/ebbhq/ebb/bench/command"
	"github.com/ebbhq/ebb/bench/report"
)

// plan is how much is measured.
type plan struct {
	rounds  int
	often   int           // of parts that say so
	jobs    int           // that do nothing, of a drain: a long one, so that its begin and its end weigh little
	calls   int           // jobs that call a server: as long a drain
	backlog int           // jobs of each held target
	slow    int           // jobs of 10 ms
	dead    int           // jobs that time out
	trickle time.Duration // how long a healthy target gets its jobs
}

var (
	full  = plan{rounds: 3, often: 15, jobs: 400_000, calls: 120_000, backlog: 100, slow: 8000, dead: 100_000, trickle: 6 * time.Second}
	quick = plan{rounds: 1, often: 1, jobs: 40_000, calls: 6_000, backlog: 20, slow: 2000, dead: 10_000, trickle: 2 * time.Second}
)

func main() { command.Main("flowbench", run) }

func run(ctx context.Context) (err error) {
	fast := flag.Bool("quick", false, "a short run to try the benchmark itself; its figures mean little")
	record := flag.String("record", "", "file whose section bench:flow is replaced by the result")
	rounds := flag.Int("rounds", 0, "interleaved rounds; 0 = the plan's")
	only := flag.String("only", "", "parts to run: "+strings.Join(partNames(), ",")+"; empty = all")
	on := flag.String("on", "sqlite,postgres", "databases to run on")
	old := flag.String("old", "", "a checkout from before flow control, to compare plain drains with")
	profile := flag.String("profile", "", "write a processor profile of the run to this file")
	flag.Parse()
	p := full
	if *fast {
		p = quick
	}
	if *rounds > 0 {
		p.rounds, p.often = *rounds, *rounds
	}
	stop, err := command.Profile(*profile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	b := &bench{plan: p, only: *only, old: *old, before: report.LoadAverage(), results: map[string]*result{}}
	err = command.Scratch("flow", func(dir string) error {
		b.dir = dir
		return b.measure(ctx, *on)
	})
	if err != nil {
		return err
	}
	text, targets := b.report()
	return command.Publish(*record, "flow", text, targets)
}

// bench is one run.
type bench struct {
	plan    plan
	only    string
	old     string
	dir     string // ends with the run
	before  string // load average
	results map[string]*result
	order   []string // of the results
}

// result is what the rounds of one comparison gave: base is what the work
// reaches without flow control, with is what it reaches with it.
type result struct {
	database string
	part     part
	base     []float64
	with     []float64
	baseCPU  []float64 // µs a job
	withCPU  []float64
}

// of is how many rounds the part has.
func (p plan) of(x part) int {
	if x.often {
		return p.often
	}
	return p.rounds
}

// note adds a round's pair.
func (b *bench) note(d database, p part, base, with measured) {
	key := d.name() + " " + p.name
	r := b.results[key]
	if r == nil {
		r = &result{database: d.name(), part: p}
		b.results[key] = r
		b.order = append(b.order, key)
	}
	r.base, r.with = append(r.base, base.value), append(r.with, with.value)
	r.baseCPU, r.withCPU = append(r.baseCPU, base.cpu), append(r.withCPU, with.cpu)
	command.Progress("%s: round %d of %d: %s %s, %s %s %s; CPU %s and %s us a job", key, len(r.base), b.plan.of(p),
		p.baseName, report.Number(base.value), p.withName, report.Number(with.value), p.unit, report.Number(base.cpu), report.Number(with.cpu))
}

// measure runs every part on every database; each round visits all of them.
func (b *bench) measure(ctx context.Context, on string) (err error) {
	databases, closeAll, err := open(ctx, b.dir, on)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeAll()) }()
	for round := range max(b.plan.rounds, b.plan.often) {
		for _, p := range parts {
			if round >= b.plan.of(p) {
				continue
			}
			if b.only != "" && !command.Listed(b.only, p.name) || p.name == "old" && b.old == "" {
				continue
			}
			for _, d := range databases {
				base, with, err := p.measure(ctx, b, d, round%2 == 1)
				if err != nil {
					return fmt.Errorf("%s: %s: %w", d.name(), p.name, err)
				}
				b.note(d, p, base, with)
			}
		}
	}
	return nil
}
