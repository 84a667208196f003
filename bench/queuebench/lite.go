package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/ebbhq/ebb/bench/command"

	"github.com/ebbhq/ebb/bench/child"
)

// lites are the systems on SQLite, all on the driver modernc.org/sqlite.
var lites = []system{
	{key: "ebb-sqlite", name: "Ebb"},
	{key: "lean-sqlite", name: "lean B, bare SQL"},
	{key: "river-sqlite", name: "River 0.31", peer: true},
}

// sqlite measures files, each round a fresh one.
func (b *bench) sqlite(ctx context.Context) error {
	for round := range b.plan.rounds {
		for i := range lites {
			s := lites[(i+round)%len(lites)]
			if b.plan.systems != "" && !command.Listed(b.plan.systems, s.key) {
				continue
			}
			if s.key == "river-sqlite" && b.riverSQLite == "" {
				continue
			}
			if err := b.liteRound(ctx, s); err != nil {
				return err
			}
			r := b.result(s.key)
			command.Progress("sqlite %d of %d: %s: insert %s, drain %s, fail once %s jobs/s", round+1, b.plan.rounds, s.name,
				last(r.liteInsert), last(r.lite), last(r.liteFail))
		}
	}
	return nil
}

func (b *bench) liteRound(ctx context.Context, s system) (err error) {
	n := b.plan.lite
	argv := []string{b.riverSQLite}
	if s.key == "river-sqlite" {
		n = b.plan.liteRiver
	} else {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		argv = []string{self, "child", s.key}
	}
	dir, err := os.MkdirTemp(b.dir, "sqlite-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	p, err := child.Start(ctx, s.key, argv...)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			p.Kill()
			return
		}
		err = p.Close()
	}()
	rates := make([]float64, 0, 4)
	for _, r := range []child.Request{
		{Op: "setup", DSN: filepath.Join(dir, "bench.db")},
		{Op: "insert", N: n, Batch: b.plan.batch},
		{Op: "drain", N: n},
		{Op: "insert", N: n, Batch: b.plan.batch},
		{Op: "failonce", N: n},
	} {
		a, err := p.Call(r)
		if err != nil {
			return err
		}
		if a.Seconds > 0 {
			rates = append(rates, float64(n)/a.Seconds)
		}
	}
	r := b.result(s.key)
	r.liteInsert, r.lite, r.liteFail = append(r.liteInsert, rates[0]), append(r.lite, rates[1]), append(r.liteFail, rates[3])
	return nil
}
