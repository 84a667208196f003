// Command retrybench measures the in-process contract beside its peers: the
// next delay, a decision, and retry.Do on success. Rounds are interleaved and
// medians count, so that a busy minute of the machine hits everybody.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebbhq/ebb/bench/report"
)

// Targets of the contract.
const (
	maxDelayNS  = 40
	maxDecideNS = 250
)

// group is which question a measurement answers.
type group string

const (
	groupDelay  group = "next delay"
	groupDecide group = "decision"
	groupDo     group = "Do on success"
)

// order is the group's place in the table.
func (g group) order() int { return slices.Index([]group{groupDelay, groupDecide, groupDo}, g) }

// subject is one thing to measure.
type subject struct {
	group group
	name  string
	ours  bool
	// note subjects are shown and judged by no target.
	note bool
	run  func(b *testing.B)
}

// measured is what the rounds of one subject gave.
type measured struct {
	ns     []float64
	allocs int64 // the most of any round
	bytes  int64
}

func main() {
	testing.Init()
	rounds := flag.Int("rounds", 7, "interleaved rounds; medians count")
	each := flag.Duration("each", 150*time.Millisecond, "time for one subject in one round")
	record := flag.String("record", "", "file whose section bench:retry is replaced by the result")
	flag.Parse()
	if err := run(*rounds, *each, *record); err != nil {
		fmt.Fprintln(os.Stderr, "retrybench:", err)
		os.Exit(1)
	}
}

func run(rounds int, each time.Duration, record string) error {
	if err := flag.Set("test.benchtime", each.String()); err != nil {
		return err
	}
	subjects := append(ours(), peers()...)
	slices.SortStableFunc(subjects, func(a, b subject) int { return cmp.Compare(a.group.order(), b.group.order()) })
	results := make([]measured, len(subjects))
	for round := range rounds {
		for i := range subjects {
			// Each round starts elsewhere: nobody always runs after the same neighbour.
			at := (i + round*3) % len(subjects)
			r := testing.Benchmark(subjects[at].run)
			if r.N == 0 {
				return fmt.Errorf("%s: %s: it failed", subjects[at].group, subjects[at].name)
			}
			m := &results[at]
			m.ns = append(m.ns, float64(r.T.Nanoseconds())/float64(r.N))
			m.allocs, m.bytes = max(m.allocs, r.AllocsPerOp()), max(m.bytes, r.AllocedBytesPerOp())
		}
		fmt.Fprintf(os.Stderr, "round %d of %d done\n", round+1, rounds)
	}
	table, targets := judge(subjects, results)
	fmt.Fprint(os.Stdout, "\n", table, "\n", targets)
	if record == "" {
		return nil
	}
	text := fmt.Sprintf("`make bench-retry` · %s · medians of %d rounds, %s each\n\n%s\n```\n%s```\n",
		report.Machine(time.Now()), rounds, each, table, targets)
	return report.Section(record, "retry", text)
}

// judge makes the table and the targets.
func judge(subjects []subject, results []measured) (*report.Table, *report.Targets) {
	table := &report.Table{Head: []string{"what", "who", "ns", "allocations", "bytes"}}
	worst := map[group]measured{} // of ours, by median
	var do float64
	for i, s := range subjects {
		ns := report.Median(results[i].ns)
		table.Add(string(s.group), s.name, report.Number(ns), fmt.Sprint(results[i].allocs), fmt.Sprint(results[i].bytes))
		if !s.ours || s.note {
			continue
		}
		if s.group == groupDo {
			do = ns
		}
		w := worst[s.group]
		w.allocs = max(w.allocs, results[i].allocs)
		w.ns = []float64{max(report.Median(w.ns), ns)}
		worst[s.group] = w
	}
	targets := &report.Targets{}
	for _, t := range []struct {
		group group
		name  string
		most  float64
	}{{groupDelay, "retry.next_delay", maxDelayNS}, {groupDecide, "retry.decide", maxDecideNS}} {
		w := worst[t.group]
		targets.AtMost(t.name, report.Median(w.ns), t.most, " ns")
		targets.AtMost(t.name+".allocations", float64(w.allocs), 0, "")
	}
	for i, s := range subjects {
		if s.group == groupDo && !s.ours {
			targets.Below("retry.do_vs_"+strings.Fields(s.name)[0], do, report.Median(results[i].ns), " ns")
		}
		if s.note && s.ours {
			targets.Note("%s: %s: %s ns, %d allocations", s.group, s.name, report.Number(report.Median(results[i].ns)), results[i].allocs)
		}
	}
	return table, targets
}
