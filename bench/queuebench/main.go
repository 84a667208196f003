// Command queuebench measures Ebb beside other queues on one throw-away
// PostgreSQL and on SQLite files, in one run and in interleaved rounds.
//
//	queuebench [-quick] [-record FILE]   the benchmark
//	queuebench child NAME                one system under test, driven by the former
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ebbhq/ebb/bench/child"
	"github.com/ebbhq/ebb/bench/command"
	"github.com/ebbhq/ebb/bench/pg"
	"github.com/ebbhq/ebb/bench/queue"
	"github.com/ebbhq/ebb/bench/report"
)

// plan is how much is measured.
type plan struct {
	rounds     int
	jobs       int           // of insert, drain and fail once
	batch      int           // jobs an insert
	slow       int           // jobs of 10 ms on 10 workers
	latencies  int           // single enqueues into an idle queue
	future     int           // jobs that are not due yet
	futureEach int           // rounds with and without them
	held       time.Duration // load with and without an open snapshot, each
	lite       int           // jobs on SQLite
	liteRiver  int           // … for River, which is slow there
	only       string        // parts to run, comma-separated; empty = all
	systems    string        // systems to run, comma-separated; empty = all
}

var (
	full  = plan{rounds: 5, jobs: 50_000, batch: 5000, slow: 2000, latencies: 300, future: 1_000_000, futureEach: 3, held: 5 * time.Minute, lite: 50_000, liteRiver: 10_000}
	quick = plan{rounds: 1, jobs: 10_000, batch: 5000, slow: 500, latencies: 50, future: 100_000, futureEach: 1, held: 10 * time.Second, lite: 10_000, liteRiver: 2000}
)

func main() { command.Main("queuebench", run) }

func run(ctx context.Context) error {
	if len(os.Args) == 3 && os.Args[1] == "child" {
		return serve(os.Args[2])
	}
	fast := flag.Bool("quick", false, "a short run to try the benchmark itself; its figures mean little")
	record := flag.String("record", "", "file whose section bench:queue is replaced by the result")
	node := flag.String("node", "node", "directory of the Node programs")
	lite := flag.String("riversqlite", "", "the program built from bench/riversqlite; empty leaves River on SQLite out")
	rounds := flag.Int("rounds", 0, "interleaved rounds; 0 = the plan's")
	only := flag.String("only", "", "parts to run: rounds,future,held,sqlite; empty = all")
	systems := flag.String("systems", "", "systems to run, such as ebb,river; empty = all")
	held := flag.Duration("held", 0, "how long the load lasts with and without an open snapshot; 0 = the plan's")
	flag.Parse()
	p := full
	if *fast {
		p = quick
	}
	if *rounds > 0 {
		p.rounds = *rounds
	}
	if *held > 0 {
		p.held = *held
	}
	p.only, p.systems = *only, *systems
	b := &bench{plan: p, node: *node, riverSQLite: *lite, results: map[string]*result{}, loadBefore: report.LoadAverage()}
	err := command.Scratch("queue", func(dir string) error {
		b.dir = dir
		return b.measure(ctx)
	})
	if err != nil {
		return err
	}
	tables, targets := b.report()
	return command.Publish(*record, "queue", tables, targets)
}

// serve is the child's side of a Go system.
func serve(name string) error {
	q := queue.New(name)
	if q == nil {
		return fmt.Errorf("child: no system %q; one of: %s", name, strings.Join(queue.Names(), ", "))
	}
	// BENCH_PROFILE is for whoever looks for where the time goes.
	path := os.Getenv("BENCH_PROFILE")
	if path != "" {
		path = filepath.Join(path, fmt.Sprintf("%s-%d.pprof", name, os.Getpid()))
	}
	stop, err := command.Profile(path)
	if err != nil {
		return err
	}
	return errors.Join(child.Serve(os.Stdin, os.Stdout, queue.NewRunner(q).Handle), stop())
}

// bench is one run.
type bench struct {
	plan        plan
	node        string
	riverSQLite string
	cluster     *pg.Cluster
	dir         string
	loadBefore  string
	results     map[string]*result
	heldRates   map[string][2][]float64 // system → rates a second without and with a snapshot
}

// measure runs every part of the plan.
func (b *bench) measure(ctx context.Context) (err error) {
	home := filepath.Join(b.dir, "pg")
	if err := os.Mkdir(home, 0o700); err != nil {
		return err
	}
	if b.wants("rounds") || b.wants("future") || b.wants("held") {
		if b.cluster, err = pg.Start(ctx, home); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, b.cluster.Stop()) }()
	}
	for _, part := range []struct {
		name string
		run  func(context.Context) error
	}{{"rounds", b.rounds}, {"future", b.future}, {"held", b.held}, {"sqlite", b.sqlite}} {
		if !b.wants(part.name) {
			continue
		}
		if err := part.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}

func (b *bench) wants(part string) bool {
	return b.plan.only == "" || command.Listed(b.plan.only, part)
}
