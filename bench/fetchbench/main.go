// Command fetchbench measures ebb fetch beside wget, aria2c, curl --parallel,
// colly and scrapy on loopback: pages a second of a healthy site, with every
// page in a file and Ebb's durable ledger on; pages lost and requests sent
// into the outage of a fragile one; memory at 10,000 and more URLs.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/ebbhq/ebb/bench/report"
)

func main() {
	var b bench
	flag.IntVar(&b.pages, "pages", 20_000, "pages of the healthy site")
	flag.IntVar(&b.rounds, "rounds", 3, "interleaved rounds")
	flag.IntVar(&b.many, "many", 1_000_000, "URLs of the second measure of memory; 0 = none")
	flag.BoolVar(&b.fragileToo, "fragile", true, "measure the fragile site: some ten minutes")
	flag.StringVar(&b.ebb, "ebb", "", "the ebb binary")
	flag.StringVar(&b.record, "record", "", "file whose section fetch is replaced")
	serve := flag.String("serve", "", "run as a site: healthy or fragile")
	crawl := flag.String("colly", "", "run as colly over the URLs of a file")
	out := flag.String("out", "", "directory of -colly")
	at := flag.Int("parallel", parallel, "requests at once of -colly")
	flag.Parse()
	var err error
	switch {
	case *serve != "":
		err = serveSite(*serve)
	case *crawl != "":
		err = runColly(*crawl, *out, *at)
	default:
		err = b.run(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "fetchbench:", err)
		os.Exit(1)
	}
}

// parallel is how many requests everybody has at once.
const parallel = 16

type bench struct {
	pages, rounds, many int
	fragileToo          bool
	ebb, record         string
	dir                 string
	targets             report.Targets
}

func (b *bench) run(ctx context.Context) (err error) {
	if b.ebb == "" {
		return fmt.Errorf("-ebb: name the binary")
	}
	if b.ebb, err = filepath.Abs(b.ebb); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("", "fetchbench-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	head := fmt.Sprintf("`make bench-fetch` · %s · load average %s before · %d pages of 10 KB, %d at once, medians of %d interleaved rounds\n\n",
		report.Machine(time.Now().UTC()), report.LoadAverage(), b.pages, parallel, b.rounds)
	healthy, err := b.healthy(ctx)
	if err != nil {
		return err
	}
	fragile, err := b.fragile(ctx)
	if err != nil {
		return err
	}
	memory, err := b.memory(ctx)
	if err != nil {
		return err
	}
	text := head + healthy.String() + "\n" + fragile.String() + "\n" + memory.String() + "\n```\n" + b.targets.String() + "```\n"
	fmt.Print(text)
	if b.record != "" {
		return report.Section(b.record, "fetch", text)
	}
	return nil
}

// once runs a tool and returns how long it took.
func once(ctx context.Context, argv []string, dir string) (time.Duration, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, err
	}
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.Dir = dir
	began := time.Now()
	out, err := c.CombinedOutput()
	if _, exited := err.(*exec.ExitError); err != nil && !exited {
		return 0, fmt.Errorf("%s: %w: %s", argv[0], err, out)
	}
	return time.Since(began), nil
}
