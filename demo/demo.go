// Package demo shows Ebb at work on this machine: the incidents of the four
// seeds at once, with real servers on loopback, a real crawler, the real
// engine, and policy time running faster. Every figure that it prints was
// counted while it ran.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/ebbhq/ebb/clock"
)

// Options says how the demonstration runs.
type Options struct {
	Out io.Writer
	// Live redraws the view in place, and leaves the console open at the end
	// until the context ends.
	Live  bool
	Speed float64 // policy time against the machine's; 60 if 0
	Seed  uint64
	// Self is the command line that becomes a supervised command's wrapper.
	Self []string
	// Parts are the incidents to show: pages, webhooks, documents, crawl.
	// Empty = all.
	Parts []string

	size size // of the incidents; zero = as told
}

// size is how much of everything there is.
type size struct{ pages, documents, events int }

// told is the size of the seeds' incidents, or what people can watch.
var told = size{pages: 882, documents: 40, events: 40}

// part is one incident: run goes through it in a world and says what came of
// it.
type part struct {
	name, title string
	run         func(ctx context.Context, w *world) (result, error)
}

// result is one row of the table.
type result struct {
	asked  string
	failed string // what went wrong on the way
	lost   int
	said   string // what else is worth telling
}

func parts() []part {
	return []part{
		{"pages", "a fragile site with an outage (seed 000)", pages},
		{"documents", "a provider that browns out (seed 001)", documents},
		{"webhooks", "customers' endpoints, one down for 10 minutes, one dead (seed 002)", webhooks},
		{"crawl", "a crawl of a noisy site that stalls (seed 003)", crawl},
	}
}

// Run shows the incidents, each under its preset and, in a second world beside
// it, under the policy that caused it.
func Run(ctx context.Context, o Options) error {
	if o.Speed == 0 {
		o.Speed = 60
	}
	if o.Speed < 1 || o.Speed > 1000 {
		return fmt.Errorf("demo: speed %g is out of range; 1 to 1000", o.Speed)
	}
	if o.size == (size{}) {
		o.size = told
	}
	chosen, err := choose(o.Parts)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "ebb-demo-")
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // the system empties its temporary directory
	if err := guard(o); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	policyTime := clock.NewEased(time.Now(), o.Speed)
	ticking, still := context.WithCancel(ctx)
	defer still()
	go policyTime.Run(ticking)
	ours, err := newWorld(ctx, filepath.Join(dir, "ours"), o, policyTime, presets)
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	foil, err := newWorld(ctx, filepath.Join(dir, "foil"), o, policyTime, causes)
	if err != nil {
		return errors.Join(fmt.Errorf("demo: %w", err), ours.close()) //nolint:contextcheck // it ends what the context began
	}
	err = show(ctx, o, chosen, ours, foil)
	return errors.Join(err, ours.close(), foil.close()) //nolint:contextcheck // as above
}

func choose(names []string) ([]part, error) {
	all := parts()
	if len(names) == 0 {
		return all, nil
	}
	var chosen []part
	for _, name := range names {
		i := slices.IndexFunc(all, func(p part) bool { return p.name == name })
		if i < 0 {
			return nil, fmt.Errorf("demo: no part %q; there are pages, documents, webhooks and crawl", name)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// show runs the parts in both worlds at once and prints what came of them.
func show(ctx context.Context, o Options, chosen []part, ours, foil *world) error {
	address, err := ours.console(ctx)
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	fmt.Fprintf(o.Out, "Four incidents at once, policy time %g× faster. Watch them in the console:\n  %s\n\n", o.Speed, address)
	v := newView(o, chosen, ours)
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { v.run(watching) })

	results := make([][2]result, len(chosen))
	errs := make([]error, 2*len(chosen))
	var work sync.WaitGroup
	for i, p := range chosen {
		for side, w := range []*world{ours, foil} {
			work.Go(func() {
				results[i][side], errs[2*i+side] = p.run(ctx, w)
				if side == 0 {
					v.done(i, errs[2*i])
				}
			})
		}
	}
	work.Wait()
	stop()
	watch.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	table(o, chosen, results)
	fmt.Fprintf(o.Out, "\n%s of policy time in %s.\n", ours.clock.Now().Sub(ours.clock.Start).Round(time.Second), time.Since(ours.clock.Start).Round(100*time.Millisecond))
	if o.Live {
		fmt.Fprintf(o.Out, "\nThe console stays open at %s; Ctrl-C ends it.\n", ours.at)
		<-ctx.Done()
	}
	return nil
}

// table says what was asked, what failed, what was retried when, and what was
// lost, under the preset and under the policy that caused the incident.
func table(o Options, chosen []part, results [][2]result) {
	fmt.Fprintln(o.Out, "What came of it:")
	for i, p := range chosen {
		ours, foil := results[i][0], results[i][1]
		fmt.Fprintf(o.Out, "\n  %s: %s\n", p.name, p.title)
		fmt.Fprintf(o.Out, "    asked    %s\n", ours.asked)
		fmt.Fprintf(o.Out, "    failed   %s\n", ours.failed)
		fmt.Fprintf(o.Out, "    lost     %d; %s\n", ours.lost, ours.said)
		fmt.Fprintf(o.Out, "    before   %d lost under the policy that caused it; %s\n", foil.lost, foil.said)
	}
}
