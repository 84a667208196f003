// Command documentbench measures the processing of documents beside a bare
// loop that reads the same objects, asks the same provider and writes the same
// results, and remembers nothing. The provider speaks the real protocol on
// loopback and answers in 100 ms; 32 documents are under way at once.
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

	"github.com/ebbhq/ebb/bench/command"
	"github.com/ebbhq/ebb/bench/pg"
	"github.com/ebbhq/ebb/bench/report"
	"github.com/ebbhq/ebb/work/document/providertest"
)

const (
	latency = 100 * time.Millisecond // of the provider
	atOnce  = 32
	wanted  = 0.8 // of the bare loop's throughput
)

// plan is how much is measured.
type plan struct {
	rounds    int
	documents int // of one drain
}

var (
	full  = plan{rounds: 5, documents: 2000}
	quick = plan{rounds: 1, documents: 400}
)

func main() { command.Main("documentbench", run) }

func run(ctx context.Context) error {
	fast := flag.Bool("quick", false, "a short run to try the benchmark itself; its figures mean little")
	record := flag.String("record", "", "file whose section bench:document is replaced by the result")
	on := flag.String("on", "sqlite,postgres", "databases to run on")
	flag.Parse()
	p := full
	if *fast {
		p = quick
	}
	before := report.LoadAverage()
	var found map[string][]float64
	err := command.Scratch("document", func(home string) (err error) {
		found, err = measure(ctx, home, p, strings.Split(*on, ","))
		return err
	})
	if err != nil {
		return err
	}
	table, targets := judge(found)
	text := fmt.Sprintf("`make bench-document` · %s · load before %s · medians of %d rounds, %d documents each; provider %s, %d at once\n\n%s",
		report.Machine(time.Now()), before, p.rounds, p.documents, latency, atOnce, table)
	return command.Publish(*record, "document", text, targets)
}

// subject is one way to get the documents done; it returns how long that took.
type subject struct {
	name string
	run  func(ctx context.Context, dir string) (time.Duration, error)
}

// measure runs all subjects in interleaved rounds and returns their documents a
// second.
func measure(ctx context.Context, home string, p plan, databases []string) (map[string][]float64, error) {
	provider := providertest.New(func(providertest.Call) providertest.Act {
		return providertest.Act{Text: `{"total": 1712}`, Delay: latency}
	})
	defer provider.Close()
	all := []subject{{"bare loop", func(ctx context.Context, dir string) (time.Duration, error) { return bare(ctx, dir, provider.Base()) }}}
	var end func() error
	for _, name := range databases {
		switch name {
		case "sqlite":
			all = append(all, subject{"SQLite", func(ctx context.Context, dir string) (time.Duration, error) {
				return onSQLite(ctx, dir, provider.Base(), p.documents)
			}})
		case "postgres":
			dir := filepath.Join(home, "pg")
			if err := os.Mkdir(dir, 0o700); err != nil {
				return nil, err
			}
			cluster, err := pg.Start(ctx, dir)
			if err != nil {
				return nil, err
			}
			end = cluster.Stop
			all = append(all, subject{"PostgreSQL", func(ctx context.Context, dir string) (time.Duration, error) {
				return onPostgres(ctx, cluster, dir, provider.Base(), p.documents)
			}})
		default:
			return nil, fmt.Errorf("no database %q; one of: sqlite, postgres", name)
		}
	}
	found, err := rounds(ctx, p, home, all)
	if end != nil {
		err = errors.Join(err, end())
	}
	return found, err
}

func rounds(ctx context.Context, p plan, home string, all []subject) (map[string][]float64, error) {
	found := map[string][]float64{}
	for round := range p.rounds {
		for i := range all {
			s := all[(i+round)%len(all)]
			dir := filepath.Join(home, fmt.Sprintf("%d-%s", round, s.name))
			if err := fill(dir, p.documents); err != nil {
				return nil, err
			}
			took, err := s.run(ctx, dir)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s.name, err)
			}
			if err := check(dir, p.documents); err != nil {
				return nil, fmt.Errorf("%s: %w", s.name, err)
			}
			found[s.name] = append(found[s.name], float64(p.documents)/took.Seconds())
			if err := os.RemoveAll(dir); err != nil {
				return nil, err
			}
		}
		command.Progress("round %d of %d done", round+1, p.rounds)
	}
	return found, nil
}

// judge makes the table and the targets.
func judge(found map[string][]float64) (*report.Table, *report.Targets) {
	table := &report.Table{Head: []string{"who", "documents/s", "of the bare loop", "least and most"}}
	targets := &report.Targets{}
	loop := report.Median(found["bare loop"])
	for _, name := range []string{"bare loop", "SQLite", "PostgreSQL"} {
		rates := found[name]
		if len(rates) == 0 {
			continue
		}
		share := report.Median(rates) / loop
		table.Add(name, report.Number(report.Median(rates)), fmt.Sprintf("%.2f", share), report.Number(report.Quantile(rates, 0))+" – "+report.Number(report.Quantile(rates, 1)))
		if name != "bare loop" {
			targets.AtLeast("document.vs_bare_loop."+strings.ToLower(name), share, wanted, "x")
		}
	}
	targets.Note("document: the bare loop could at most reach %d/s", int(atOnce/latency.Seconds()))
	return table, targets
}
