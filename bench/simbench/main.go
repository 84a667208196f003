// Command simbench measures the simulator: events a second on one core over a
// scenario that has everything in it, and what a run allocates at one million
// and at ten million events. Memory is flat when both allocate the same.
package main

import (
	"context"
	_ "embed"
	"flag"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/ebbhq/ebb/bench/report"
	"github.com/ebbhq/ebb/simulate"
	"github.com/ebbhq/ebb/simulate/file"
	"github.com/ebbhq/ebb/simulate/scenario"
)

// Targets of the contract.
const (
	minRate   = 1e6
	maxGrowth = 1.25 // of what 10 million events allocate over 1 million
	smallRun  = 1e6
	largeRun  = 10e6
)

const (
	mebibyte = 1 << 20
	// period is that of the curves in mixed.yaml.
	period = 30 * time.Minute
)

//go:embed mixed.yaml
var mixed string

// played is one run of a scenario.
type played struct {
	events    int64
	took      time.Duration
	allocated uint64
	heap      uint64 // that the process has taken from the system so far
}

func main() {
	rounds := flag.Int("rounds", 5, "interleaved rounds; medians count")
	record := flag.String("record", "", "file whose section bench:simulate is replaced by the result")
	flag.Parse()
	if err := run(*rounds, *record); err != nil {
		fmt.Fprintln(os.Stderr, "simbench:", err)
		os.Exit(1)
	}
}

func run(rounds int, record string) error {
	runtime.GOMAXPROCS(1)
	f, err := file.Parse("mixed.yaml", []byte(mixed), nil)
	if err != nil {
		return err
	}
	small, err := lengthFor(f.Scenario, smallRun)
	if err != nil {
		return err
	}
	large := time.Duration(float64(small) * largeRun / smallRun)
	load := report.LoadAverage()
	table := &report.Table{Head: []string{"scenario", "events", "seconds", "events/s", "allocated, MiB"}}
	targets := &report.Targets{}
	one, err := median(f.Scenario, small, rounds)
	if err != nil {
		return err
	}
	ten, err := median(f.Scenario, large, min(rounds, 3))
	if err != nil {
		return err
	}
	add(table, "mixed", one)
	add(table, "mixed, ten times as long", ten)
	if err := builtIns(table, targets, rounds); err != nil {
		return err
	}
	targets.AtLeast("simulate.events_per_second", min(rate(one), rate(ten)), minRate, "/s")
	targets.AtMost("simulate.memory_10m_vs_1m_events", float64(ten.allocated)/float64(one.allocated), maxGrowth, "x")
	targets.Note("the heap took %s MiB from the system", report.Number(float64(ten.heap)/mebibyte))
	fmt.Fprint(os.Stdout, "\n", table, "\n", targets)
	if record == "" {
		return nil
	}
	text := fmt.Sprintf("`make bench-simulate` · %s · load average %s before · one core (GOMAXPROCS=1), medians of %d rounds\n\n%s\n```\n%s```\n",
		report.Machine(time.Now()), load, rounds, table, targets)
	return report.Section(record, "simulate", text)
}

// lengthFor is how long the scenario must be to have about that many events.
func lengthFor(s simulate.Scenario, events float64) (time.Duration, error) {
	p, err := play(s, period)
	if err != nil {
		return 0, err
	}
	return time.Duration(float64(period) * events / float64(p.events)), nil
}

func play(s simulate.Scenario, length time.Duration) (played, error) {
	if length > 0 {
		s.Length = simulate.Length{Time: length}
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	began := time.Now()
	r, err := simulate.Run(context.Background(), s, simulate.Options{})
	if err != nil {
		return played{}, err
	}
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	return played{events: r.Runs[0].Events, took: took, allocated: after.TotalAlloc - before.TotalAlloc, heap: after.HeapSys}, nil
}

// median plays a scenario several times and returns the run of the median
// time.
func median(s simulate.Scenario, length time.Duration, rounds int) (played, error) {
	var runs []played
	var took []float64
	for i := range rounds {
		p, err := play(s, length)
		if err != nil {
			return p, err
		}
		runs, took = append(runs, p), append(took, float64(p.took))
		fmt.Fprintf(os.Stderr, "%s: round %d of %d: %s events/s\n", s.Name, i+1, rounds, report.Number(rate(p)))
	}
	p := runs[0]
	p.took = time.Duration(report.Median(took))
	return p, nil
}

func rate(p played) float64 { return float64(p.events) / p.took.Seconds() }

func add(table *report.Table, name string, p played) {
	table.Add(name, report.Number(float64(p.events)), report.Number(p.took.Seconds()), report.Number(rate(p)), report.Number(float64(p.allocated)/mebibyte))
}

// builtIns adds the built-in scenarios that run long enough to be measured.
func builtIns(table *report.Table, targets *report.Targets, rounds int) error {
	for _, c := range []struct{ name, variant string }{{"pr-247", "new"}, {"metastable", "jitter"}, {"metastable", "budget"}} {
		f, err := scenario.Load(c.name)
		if err != nil {
			return err
		}
		v, ok := f.Variant(c.variant)
		if !ok {
			return fmt.Errorf("%s has no variant %s", c.name, c.variant)
		}
		p, err := median(v.Scenario, 0, rounds)
		if err != nil {
			return err
		}
		add(table, c.name+", "+c.variant, p)
		targets.Note("%s, %s: %s events/s", c.name, c.variant, report.Number(rate(p)))
	}
	return nil
}
