package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/ebbhq/ebb/bench/report"
)

const incidentPages = 882

// files counts the pages below a directory: what has the body's size.
func files(dir string) (n int) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && strings.HasSuffix(path, ".html") {
			if info, err := d.Info(); err == nil && info.Size() > 10_000 {
				n++
			}
		}
		return nil
	})
	return n
}

// healthy measures pages a second.
func (b *bench) healthy(ctx context.Context) (*report.Table, error) {
	site, err := startSite("healthy")
	if err != nil {
		return nil, err
	}
	defer site.stop()
	list := filepath.Join(b.dir, "urls.txt")
	if err := writeList(list, site.base, b.pages); err != nil {
		return nil, err
	}
	tools := b.fast()
	rates := map[string][]float64{}
	for range b.rounds {
		for _, t := range tools {
			dir := filepath.Join(b.dir, "out")
			took, err := once(ctx, t.argv(list, dir), dir)
			if err != nil {
				return nil, err
			}
			if n := files(dir); n != b.pages {
				return nil, fmt.Errorf("%s left %d of %d pages", t.name, n, b.pages)
			}
			rates[t.name] = append(rates[t.name], float64(b.pages)/took.Seconds())
			if err := os.RemoveAll(dir); err != nil {
				return nil, err
			}
		}
	}
	table := &report.Table{Head: []string{"healthy site", "pages/s"}}
	best := 0.0
	for _, t := range tools {
		rate := report.Median(rates[t.name])
		table.Add(t.name, report.Number(rate))
		if t.name == "wget" || t.name == "aria2c" || t.name == "colly" {
			best = max(best, rate)
		}
	}
	ours := report.Median(rates["ebb fetch"])
	b.targets.AtLeast("fetch.pages_vs_best_of_wget_aria2c_colly", ours/best, 1, "x")
	b.targets.AtLeast("fetch.pages_vs_curl_parallel", ours/report.Median(rates["curl --parallel"]), 0.5, "x")
	return table, nil
}

// fragile measures what the incident costs.
func (b *bench) fragile(ctx context.Context) (*report.Table, error) {
	if err := os.WriteFile(filepath.Join(b.dir, "spider.py"), []byte(spider), 0o644); err != nil {
		return nil, err
	}
	table := &report.Table{Head: []string{"fragile site of 882 pages", "told", "lost", "requests", "into the outage", "seconds"}}
	if !b.fragileToo {
		return table, nil
	}
	for _, t := range b.gentle() {
		site, err := startSite("fragile")
		if err != nil {
			return nil, err
		}
		list, dir := filepath.Join(b.dir, "fragile.txt"), filepath.Join(b.dir, "fragile")
		if err := writeList(list, site.base, incidentPages); err != nil {
			return nil, err
		}
		took, err := once(ctx, t.argv(list, dir), dir)
		if err != nil {
			return nil, err
		}
		log, err := site.log()
		if err != nil {
			return nil, err
		}
		lost := incidentPages - files(dir)
		table.Add(t.name, t.how, fmt.Sprint(lost), fmt.Sprint(log.Requests), fmt.Sprint(log.Into), report.Number(took.Seconds()))
		if t.name == "ebb fetch" {
			b.targets.AtMost("fetch.fragile.lost", float64(lost), 0, "pages")
		}
		if err := site.stop(); err != nil {
			return nil, err
		}
		if err := os.RemoveAll(dir); err != nil {
			return nil, err
		}
	}
	return table, nil
}

// memory measures the most memory that Ebb takes for few and for many URLs.
func (b *bench) memory(ctx context.Context) (*report.Table, error) {
	table := &report.Table{Head: []string{"URLs", "most memory, MiB", "pages/s"}}
	if b.many == 0 {
		return table, nil
	}
	site, err := startSite("healthy")
	if err != nil {
		return nil, err
	}
	defer site.stop()
	var peaks []float64
	for _, n := range []int{10_000, b.many} {
		list, dir := filepath.Join(b.dir, "many.txt"), filepath.Join(b.dir, "many")
		if err := writeList(list, site.base, n); err != nil {
			return nil, err
		}
		// Without files: a million of them would measure the file system.
		c := exec.CommandContext(ctx, b.ebb, "fetch", "-i", list, "-o", dir, "--quiet", "--waive", "a benchmark on loopback", "--no-robots",
			"--policy", "scrape", "--concurrency", fmt.Sprint(parallel), "--spacing", "-1ns", "--warc", "--no-files")
		began := time.Now()
		if out, err := c.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%w: %s", err, out)
		}
		peak := float64(c.ProcessState.SysUsage().(*syscall.Rusage).Maxrss) / 1024 //nolint:forcetypeassert // of Linux
		peaks = append(peaks, peak)
		table.Add(report.Number(float64(n)), report.Number(peak), report.Number(float64(n)/time.Since(began).Seconds()))
		if err := os.RemoveAll(dir); err != nil {
			return nil, err
		}
	}
	b.targets.AtMost(fmt.Sprintf("fetch.memory_%d_vs_10000_urls", b.many), peaks[1]/peaks[0], 1.5, "x")
	return table, nil
}
