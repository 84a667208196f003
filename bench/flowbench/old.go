package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"

	"github.com/ebbhq/ebb/bench/child"
)

// oldPart drains plain work with the code of another checkout and with ours,
// each a program of its own:
//
//	git worktree add /tmp/before 89c1d29
//	make bench-flow OLD=/tmp/before
func oldPart(ctx context.Context, b *bench, d database, swapped bool) (measured, measured, error) {
	return inTurn(swapped,
		func() (measured, error) { return b.program(ctx, d, filepath.Join(b.old, "bench"), "before") },
		func() (measured, error) { return b.program(ctx, d, ".", "now") })
}

// program builds the benchmark of the queue in a directory and drains with it.
func (b *bench) program(ctx context.Context, d database, dir, name string) (m measured, err error) {
	file, err := filepath.Abs(filepath.Join(b.dir, name))
	if err != nil {
		return m, err
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", file, "github.com/ebbhq/ebb/bench/queuebench")
	build.Dir = dir
	if said, err := build.CombinedOutput(); err != nil {
		return m, fmt.Errorf("build %s: %w: %s", dir, err, said)
	}
	dsn, err := d.fresh(ctx)
	if err != nil {
		return m, err
	}
	p, err := child.Start(ctx, name, file, "child", d.system())
	if err != nil {
		return m, err
	}
	defer func() {
		if err != nil {
			p.Kill()
			return
		}
		err = errors.Join(err, p.Close())
	}()
	if _, err := p.Call(child.Request{Op: "setup", DSN: dsn}); err != nil {
		return m, err
	}
	if _, err := p.Call(child.Request{Op: "insert", N: b.plan.jobs, Batch: batch}); err != nil {
		return m, err
	}
	if err := d.ready(ctx); err != nil {
		return m, err
	}
	a, err := p.Call(child.Request{Op: "drain", N: b.plan.jobs})
	return measured{value: float64(b.plan.jobs) / a.Seconds}, err
}
