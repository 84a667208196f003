// Package crashtest kills real worker processes and judges what is left.
//
// A driver enqueues orders, keeps workers alive, each a process of its own on
// a real database, and ends them with kill -9, SIGSTOP or SIGTERM. Every
// worker writes what it does into a file of its own, outside of the database,
// before it does it: the evidence. Judge compares what was acknowledged, the
// evidence and the store's account of itself. The evidence decides: a store
// that forgets a job forgets its row, too.
//
// The worker program is the test binary itself, started again with its
// configuration in the environment:
//
//	func TestMain(m *testing.M) {
//		if crashtest.IsWorker() {
//			os.Exit(crashtest.Work())
//		}
//		os.Exit(pgtest.Run(m))
//	}
package crashtest

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/postgres"
	"github.com/ebbhq/ebb/store/sqlite"
)

// Open opens the store that the URL names: sqlite:PATH or postgres://…
func Open(ctx context.Context, url string) (store.Store, error) {
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
		return sqlite.Open(ctx, path, sqlite.Options{})
	}
	return postgres.Open(ctx, url, postgres.Options{})
}

// Tx is a transaction that EnqueueTx and SettleTx can join.
type Tx struct {
	Join             any
	Commit, Rollback func(ctx context.Context) error
}

// Begin opens a transaction beside the store, as an application would.
func Begin(ctx context.Context, s store.Store, url string) (Tx, error) {
	if lite, ok := s.(*sqlite.Store); ok {
		tx, err := lite.Begin(ctx)
		if err != nil {
			return Tx{}, fmt.Errorf("crashtest: begin: %w", err)
		}
		end := func(f func() error) func(context.Context) error {
			return func(context.Context) error { return f() }
		}
		return Tx{Join: tx, Commit: end(tx.Commit), Rollback: end(tx.Rollback)}, nil
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return Tx{}, fmt.Errorf("crashtest: begin: %w", err)
	}
	tx, err := conn.Begin(ctx)
	if err != nil {
		_ = conn.Close(ctx) // the transaction's error is the one to tell
		return Tx{}, fmt.Errorf("crashtest: begin: %w", err)
	}
	end := func(f func(context.Context) error) func(context.Context) error {
		return func(ctx context.Context) error {
			err := f(ctx)
			_ = conn.Close(ctx) // what counts is how the transaction ended
			return err
		}
	}
	return Tx{Join: tx, Commit: end(tx.Commit), Rollback: end(tx.Rollback)}, nil
}
