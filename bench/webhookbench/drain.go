package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"time"

	"github.com/ebbhq/ebb/bench/command"
	"github.com/ebbhq/ebb/bench/report"
)

// used is the processor time of this process.
func used() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// cost is what a run took of this process.
type cost struct {
	cpu    time.Duration
	memory runtime.MemStats
}

func costNow() (c cost) {
	c.cpu = used()
	runtime.ReadMemStats(&c.memory)
	return c
}

// each tells what was spent since, by each of n.
func (c *cost) each(n int) string {
	now, per := costNow(), func(x float64) string { return report.Number(x / float64(n)) }
	return fmt.Sprintf("%s µs of processor time, %s allocations and %s bytes each, %d collections", per((now.cpu-c.cpu).Seconds()*1e6),
		per(float64(now.memory.Mallocs-c.memory.Mallocs)), per(float64(now.memory.TotalAlloc-c.memory.TotalAlloc)), now.memory.NumGC-c.memory.NumGC)
}

// drainOnly sends n messages by the bare loop and drains as many deliveries on
// each database. The profile has the last drain and nothing else.
func drainOnly(ctx context.Context, databases []database, to *receiver, n int, profile string) error {
	before := costNow()
	rate, err := aside(ctx, to, "", n)
	if err != nil {
		return err
	}
	command.Progress("bare loop: %s a second, %s", report.Number(rate), before.each(n))
	for _, d := range databases {
		if err := drainOn(ctx, d, to, n, profile); err != nil {
			return err
		}
	}
	return nil
}

func drainOn(ctx context.Context, d database, to *receiver, n int, profile string) (err error) {
	url, err := d.fresh(ctx)
	if err != nil {
		return err
	}
	s, err := newSender(ctx, url, to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.fill(ctx, everybody, n); err != nil {
		return err
	}
	stop, err := command.Profile(profile)
	if err != nil {
		return err
	}
	before := costNow()
	rate, err := s.empty(ctx, to, n)
	command.Progress("%s: %s a second, %s; a PostgreSQL's own and the receiver's are not in it", d.name, report.Number(rate), before.each(n))
	return errors.Join(err, stop())
}
