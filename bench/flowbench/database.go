package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/ebbhq/ebb/bench/pg"
)

// database gives out empty databases, one at a time.
type database interface {
	name() string
	// fresh makes an empty one in place of the last.
	fresh(ctx context.Context) (dsn string, err error)
	// ready is called between filling and draining.
	ready(ctx context.Context) error
	// system is the name of Ebb on it among the systems of package queue.
	system() string
	scheme() string // before a DSN it makes a URL
	// cpu returns the processor seconds used so far, by us and by the server.
	cpu() (float64, error)
}

// open starts what the databases of the list need.
func open(ctx context.Context, dir, list string) ([]database, func() error, error) {
	var all []database
	end := func() error { return nil }
	for name := range strings.SplitSeq(list, ",") {
		switch name {
		case "sqlite":
			all = append(all, &lite{dir: filepath.Join(dir, "sqlite")})
		case "postgres":
			home := filepath.Join(dir, "pg")
			if err := os.Mkdir(home, 0o700); err != nil {
				return nil, nil, err
			}
			cluster, err := pg.Start(ctx, home)
			if err != nil {
				return nil, nil, err
			}
			all, end = append(all, &postgres{cluster}), cluster.Stop
		default:
			return nil, nil, fmt.Errorf("no database %q; one of: sqlite, postgres", name)
		}
	}
	return all, end, nil
}

// lite is a SQLite file.
type lite struct{ dir string }

func (l *lite) name() string                { return "SQLite" }
func (l *lite) ready(context.Context) error { return nil }
func (l *lite) system() string              { return "ebb-sqlite" }
func (l *lite) scheme() string              { return "sqlite:" }

func (l *lite) cpu() (float64, error) { return pg.Seconds(os.Getpid()) }

func (l *lite) fresh(context.Context) (string, error) {
	if err := os.RemoveAll(l.dir); err != nil {
		return "", err
	}
	return filepath.Join(l.dir, "flow.db"), os.Mkdir(l.dir, 0o700)
}

// postgres is a database of the cluster.
type postgres struct{ cluster *pg.Cluster }

const postgresName = "flow"

func (p *postgres) name() string   { return "PostgreSQL" }
func (p *postgres) system() string { return "ebb" }
func (p *postgres) scheme() string { return "" }

func (p *postgres) fresh(ctx context.Context) (string, error) {
	return p.cluster.Fresh(ctx, postgresName)
}

func (p *postgres) cpu() (float64, error) {
	ours, err := pg.Seconds(os.Getpid())
	if err != nil {
		return 0, err
	}
	theirs, err := p.cluster.CPU()
	return ours + theirs, err
}

func (p *postgres) ready(ctx context.Context) error {
	if err := p.cluster.Analyze(ctx, postgresName); err != nil {
		return err
	}
	return p.cluster.Checkpoint(ctx)
}
