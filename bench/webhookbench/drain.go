package main

import (
	"context"
	"errors"
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

// drainOnly drains n deliveries on each database. The profile has nothing else.
func drainOnly(ctx context.Context, databases []database, to *receiver, n int, profile string) error {
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
	before := used()
	rate, err := s.empty(ctx, to, n)
	command.Progress("%s: %s a second, %s µs of processor time each, without the database's and the receiver's", d.name, report.Number(rate),
		report.Number((used()-before).Seconds()*1e6/float64(n)))
	return errors.Join(err, stop())
}
