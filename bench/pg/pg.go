// Package pg starts a throw-away PostgreSQL 15 for a benchmark and reads what
// work cost it: processor time from /proc, bytes from the write-ahead log.
package pg

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"
)

const binaries = "/usr/lib/postgresql/15/bin"

// Settings are those of every run: full durability, and checkpoints only
// where the benchmark asks for them.
var Settings = []string{
	"listen_addresses=", "fsync=on", "synchronous_commit=on", "full_page_writes=on",
	"shared_buffers=1GB", "max_wal_size=8GB", "checkpoint_timeout=30min", "max_connections=200",
	"logging_collector=off", "log_min_messages=warning",
}

// Cluster is one running server.
type Cluster struct {
	dir   string
	pid   int
	admin *pgx.Conn
}

// Start makes a new cluster under dir and waits until it answers. As root it
// runs as nobody, because PostgreSQL refuses root.
func Start(ctx context.Context, dir string) (*Cluster, error) {
	if _, err := os.Stat(filepath.Join(binaries, "postgres")); err != nil {
		return nil, errors.New("pg: no PostgreSQL 15; install it with: scripts/need postgresql-15")
	}
	c := &Cluster{dir: dir}
	if os.Geteuid() == 0 {
		if err := exec.CommandContext(ctx, "chown", "nobody:nogroup", dir).Run(); err != nil {
			return nil, fmt.Errorf("pg: chown %s: %w", dir, err)
		}
	}
	if err := c.command(ctx, "initdb", "-D", c.data(), "-U", "ebb", "-A", "trust", "--no-sync", "--locale=C.UTF-8", "-E", "UTF8"); err != nil {
		return nil, err
	}
	options := "-k " + dir
	for _, s := range Settings {
		key, value, _ := strings.Cut(s, "=")
		options += fmt.Sprintf(" -c %s='%s'", key, value)
	}
	if err := c.command(ctx, "pg_ctl", "-D", c.data(), "-w", "-l", filepath.Join(dir, "log"), "-o", options, "start"); err != nil {
		return nil, err
	}
	var err error
	if c.pid, err = c.postmaster(); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	if c.admin, err = pgx.Connect(ctx, c.DSN("postgres")); err != nil {
		return nil, errors.Join(fmt.Errorf("pg: %w", err), c.Stop())
	}
	return c, nil
}

func (c *Cluster) data() string { return filepath.Join(c.dir, "data") }

// command runs one of PostgreSQL's programs as the cluster's owner.
func (c *Cluster) command(ctx context.Context, name string, args ...string) error {
	argv := append([]string{filepath.Join(binaries, name)}, args...)
	if os.Geteuid() == 0 {
		argv = append([]string{"setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"}, argv...)
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = c.dir
	cmd.Env = []string{"PATH=" + binaries + ":/usr/bin:/bin", "HOME=" + c.dir, "LC_ALL=C.UTF-8"}
	// A file, not a pipe: the server inherits it and outlives pg_ctl.
	log, err := os.CreateTemp(c.dir, name+"-*.out")
	if err != nil {
		return fmt.Errorf("pg: %w", err)
	}
	defer func() { _ = log.Close() }()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Run(); err != nil {
		said, _ := os.ReadFile(log.Name())
		return fmt.Errorf("pg: %s: %w: %s", name, err, said)
	}
	return nil
}

func (c *Cluster) postmaster() (pid int, err error) {
	text, err := os.ReadFile(filepath.Join(c.data(), "postmaster.pid"))
	if err != nil {
		return 0, fmt.Errorf("pg: %w", err)
	}
	_, err = fmt.Sscan(string(text), &pid)
	return pid, err
}

// DSN is the URL of a database of the cluster.
func (c *Cluster) DSN(database string) string {
	return "postgres:///" + database + "?user=ebb&port=5432&host=" + url.QueryEscape(c.dir)
}

// Stop ends the server.
func (c *Cluster) Stop() error {
	if c.admin != nil {
		_ = c.admin.Close(context.Background())
	}
	return c.command(context.Background(), "pg_ctl", "-D", c.data(), "-w", "-m", "fast", "stop")
}

// Fresh makes an empty database, in place of an older one of that name.
func (c *Cluster) Fresh(ctx context.Context, database string) (dsn string, err error) {
	if err := c.Drop(ctx, database); err != nil {
		return "", err
	}
	return c.DSN(database), c.exec(ctx, "CREATE DATABASE "+pgx.Identifier{database}.Sanitize())
}

// Drop removes a database if it is there.
func (c *Cluster) Drop(ctx context.Context, database string) error {
	return c.exec(ctx, "DROP DATABASE IF EXISTS "+pgx.Identifier{database}.Sanitize()+" WITH (FORCE)")
}

// Checkpoint writes everything out, so that nobody pays for their predecessor.
func (c *Cluster) Checkpoint(ctx context.Context) error { return c.exec(ctx, "CHECKPOINT") }

func (c *Cluster) exec(ctx context.Context, sql string) error {
	if _, err := c.admin.Exec(ctx, sql); err != nil {
		return fmt.Errorf("pg: %s: %w", sql, err)
	}
	return nil
}

// Analyze gives the planner statistics of a database, as autovacuum would
// within its minute.
func (c *Cluster) Analyze(ctx context.Context, database string) error {
	conn, err := pgx.Connect(ctx, c.DSN(database))
	if err != nil {
		return fmt.Errorf("pg: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, "ANALYZE")
	return err
}

// Hold opens a REPEATABLE READ transaction with a snapshot in a database and
// keeps it open until release.
func (c *Cluster) Hold(ctx context.Context, database string) (release func() error, err error) {
	conn, err := pgx.Connect(ctx, c.DSN(database))
	if err != nil {
		return nil, fmt.Errorf("pg: %w", err)
	}
	if _, err := conn.Exec(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ"); err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	if _, err := conn.Exec(ctx, "SELECT count(*) FROM pg_class"); err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	return func() error {
		_, err := conn.Exec(context.Background(), "COMMIT")
		return errors.Join(err, conn.Close(context.Background()))
	}, nil
}

// WAL returns how many bytes were ever written to the log.
func (c *Cluster) WAL(ctx context.Context) (bytes int64, err error) {
	err = c.admin.QueryRow(ctx, "SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint").Scan(&bytes)
	return bytes, err
}

// CPU returns the processor time of the server and all its processes, those
// that ended included.
func (c *Cluster) CPU() (float64, error) { return treeSeconds(c.pid) }
