// Command pagebench loads a million jobs in every state into SQLite and into
// one throw-away PostgreSQL, and measures how long every list and page of the
// console and of the API takes over HTTP on loopback. It also states how many
// jobs a second the API takes in.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ebbhq/ebb/bench/command"
	"github.com/ebbhq/ebb/bench/pg"
	"github.com/ebbhq/ebb/bench/report"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/postgres"
	"github.com/ebbhq/ebb/store/sqlite"
)

const (
	most  = 200.0 // ms that a page may take
	shown = 12    // slowest pages in the table
)

// timed is how long a page takes, in ms.
type timed struct {
	page                 string
	median, p95, slowest float64
}

func main() { command.Main("pagebench", run) }

func run(ctx context.Context) (err error) {
	jobs := flag.Int("jobs", 1_000_000, "jobs in each database")
	rounds := flag.Int("rounds", 20, "how often each page is asked for")
	program := flag.String("ebb", "../bin/ebb", "the program that serves")
	on := flag.String("on", "sqlite,postgres", "databases to run on")
	record := flag.String("record", "", "file whose section bench:pages is replaced by the result")
	flag.Parse()
	before := report.LoadAverage()
	if *program, err = filepath.Abs(*program); err != nil {
		return err
	}
	table := &report.Table{Head: []string{"page", "database", "median, ms", "95 of 100, ms", "slowest, ms"}}
	var targets report.Targets
	var rates []string
	err = command.Scratch("pages", func(dir string) error {
		for name := range strings.SplitSeq(*on, ",") {
			rate, err := measure(ctx, dir, name, *program, *jobs, *rounds, table, &targets)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			rates = append(rates, rate...)
		}
		return nil
	})
	if err != nil {
		return err
	}
	text := fmt.Sprintf("`make bench-pages` · %s · load average %s before · %s jobs in each database, each page asked for %d times; the slowest %d of each\n\n%s",
		report.Machine(time.Now()), before, report.Number(float64(*jobs)), *rounds, shown, table)
	for _, r := range rates {
		targets.Note("%s", r)
	}
	return command.Publish(*record, "pages", text, &targets)
}

// measure fills one database and asks for every page of it.
func measure(ctx context.Context, dir, name, program string, jobs, rounds int, table *report.Table, targets *report.Targets) (rates []string, err error) {
	s, address, end, err := open(ctx, dir, name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end()) }()
	start := time.Now()
	w := &world{store: s}
	if err := w.load(ctx, jobs); err != nil {
		return nil, err
	}
	command.Progress("%s: loaded in %s", name, time.Since(start).Round(time.Second))
	site, err := serve(ctx, program, address, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, site.close()) }()
	var list []timed
	for _, p := range w.pages() {
		took, err := site.time(ctx, p, rounds)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
		list = append(list, timed{p, report.Median(took), report.Quantile(took, 0.95), report.Quantile(took, 1)})
	}
	slices.SortStableFunc(list, func(a, b timed) int { return cmp.Compare(b.p95, a.p95) })
	for i, t := range list {
		command.Progress("%s: %s: median %s, 95 of 100 %s, slowest %s ms", name, t.page, report.Number(t.median), report.Number(t.p95), report.Number(t.slowest))
		if i < shown {
			table.Add("`"+t.page+"`", name, report.Number(t.median), report.Number(t.p95), report.Number(t.slowest))
		}
	}
	targets.Below("pages.slowest."+name, list[0].p95, most, " ms")
	rates = append(rates, fmt.Sprintf("pages: %d pages of %s; the slowest is %s", len(list), name, list[0].page))
	for _, n := range []int{1, 100} {
		rate, err := site.enqueue(ctx, n)
		if err != nil {
			return nil, err
		}
		rates = append(rates, fmt.Sprintf("pages: the API of one server on %s takes in %s jobs/s, %d a request, 8 clients", name, report.Number(rate), n))
	}
	return rates, nil
}

// open makes an empty database and says how the program is told of it.
func open(ctx context.Context, dir, name string) (store.Store, string, func() error, error) {
	home := filepath.Join(dir, name)
	if err := os.Mkdir(home, 0o700); err != nil {
		return nil, "", nil, err
	}
	switch name {
	case "sqlite":
		file := filepath.Join(home, "ebb.db")
		s, err := sqlite.Open(ctx, file, sqlite.Options{})
		if err != nil {
			return nil, "", nil, err
		}
		return s, "sqlite:" + file, s.Close, nil
	case "postgres":
		cluster, err := pg.Start(ctx, home)
		if err != nil {
			return nil, "", nil, err
		}
		dsn, err := cluster.Fresh(ctx, "pages")
		if err != nil {
			return nil, "", nil, errors.Join(err, cluster.Stop())
		}
		s, err := postgres.Open(ctx, dsn, postgres.Options{Name: "pagebench"})
		if err != nil {
			return nil, "", nil, errors.Join(err, cluster.Stop())
		}
		return s, dsn, func() error { return errors.Join(s.Close(), cluster.Stop()) }, nil
	}
	return nil, "", nil, fmt.Errorf("no such database; one of: sqlite, postgres")
}
