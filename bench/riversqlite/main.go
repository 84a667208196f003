// Command riversqlite is River's SQLite driver as a system under test. It is
// a module of its own: the only release of the driver that resolves, 0.31,
// does not compile with the River that is measured on PostgreSQL. Package
// child of the benchmarks describes the protocol.
package main

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"
	_ "modernc.org/sqlite" // the driver that River recommends and Ebb uses
)

func main() {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, "riversqlite:", err)
		os.Exit(1)
	}
}

type request struct {
	Op    string `json:"op"`
	DSN   string `json:"dsn"`
	N     int    `json:"n"`
	Batch int    `json:"batch"`
}

type answer struct {
	Seconds float64 `json:"seconds"`
	Error   string  `json:"error,omitempty"`
}

func serve() error {
	lines, answers := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	var q lite
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return err
		}
		var a answer
		var err error
		if a.Seconds, err = q.handle(context.Background(), r); err != nil {
			a.Error = err.Error()
		}
		if err := answers.Encode(a); err != nil {
			return err
		}
		if r.Op == "close" {
			return nil
		}
	}
	return lines.Err()
}

type args struct {
	N int64 `json:"n"`
}

func (args) Kind() string { return "noop" }

type worker struct {
	river.WorkerDefaults[args]
	handle func(n int64) error
}

func (w *worker) Work(_ context.Context, job *river.Job[args]) error { return w.handle(job.Args.N) }

// atOnce retries without delay.
type atOnce struct{}

func (atOnce) NextRetry(*rivertype.JobRow) time.Time { return time.Now() }

type lite struct {
	db       *sql.DB
	inserter *river.Client[*sql.Tx]
	numbers  int64
}

func (l *lite) handle(ctx context.Context, r request) (float64, error) {
	began := time.Now()
	switch r.Op {
	case "setup":
		return 0, l.setup(ctx, r.DSN)
	case "insert":
		err := l.insert(ctx, r.N, r.Batch)
		return time.Since(began).Seconds(), err
	case "drain":
		return l.drain(ctx, r.N, func(int64) error { return nil })
	case "failonce":
		var seen sync.Map
		return l.drain(ctx, r.N, func(n int64) error {
			if _, failed := seen.LoadOrStore(n, true); !failed {
				return errors.New("upstream answered 503, try again")
			}
			return nil
		})
	case "close":
		return 0, l.db.Close()
	}
	return 0, fmt.Errorf("no such order: %q", r.Op)
}

func quiet() *slog.Logger {
	return slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelError + 4}))
}

func (l *lite) setup(ctx context.Context, path string) (err error) {
	l.db, err = sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=busy_timeout(5000)&_txlock=immediate")
	if err != nil {
		return err
	}
	l.db.SetMaxOpenConns(1) // as River's manual says
	migrator, err := rivermigrate.New(riversqlite.New(l.db), &rivermigrate.Config{Logger: quiet()})
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	l.inserter, err = river.NewClient(riversqlite.New(l.db), &river.Config{Logger: quiet()})
	return err
}

func (l *lite) insert(ctx context.Context, n, batch int) error {
	for n > 0 {
		params := make([]river.InsertManyParams, min(n, batch))
		for i := range params {
			l.numbers++
			params[i].Args = args{l.numbers}
		}
		if _, err := l.inserter.InsertManyFast(ctx, params); err != nil {
			return err
		}
		n -= len(params)
	}
	return nil
}

func (l *lite) drain(ctx context.Context, n int, handle func(int64) error) (float64, error) {
	var done atomic.Int64
	all := make(chan struct{})
	known := river.NewWorkers()
	river.AddWorker(known, &worker{handle: func(number int64) error {
		if err := handle(number); err != nil {
			return err
		}
		if done.Add(1) == int64(n) {
			close(all)
		}
		return nil
	}})
	client, err := river.NewClient(riversqlite.New(l.db), &river.Config{
		Queues:        map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 1000}},
		FetchCooldown: time.Millisecond, FetchPollInterval: time.Millisecond,
		JobTimeout: -1, RetryPolicy: atOnce{}, Logger: quiet(), Workers: known,
	})
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := client.Start(ctx); err != nil {
		return 0, err
	}
	select {
	case <-all:
	case <-time.After(2 * time.Minute):
		return 0, fmt.Errorf("only %d of %d jobs ran within 2 minutes", done.Load(), n)
	}
	for left := true; left; time.Sleep(time.Millisecond) {
		err := l.db.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM river_job WHERE state <> 'completed')").Scan(&left)
		if err != nil {
			return 0, err
		}
	}
	took := time.Since(began).Seconds()
	return took, client.Stop(ctx)
}
