package postgres_test

import (
	"context"
	"os"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/pgtest"
	"github.com/ebbhq/ebb/store/postgres"
	"github.com/ebbhq/ebb/store/storetest"
)

// Durability is the subject of tests with a server of their own.
func TestMain(m *testing.M) { os.Exit(pgtest.RunWith(m, pgtest.Config{NoSync: true})) }

// migrated returns the URL of a database of the newest schema.
func migrated(tb testing.TB) string {
	tb.Helper()
	return pgtest.Prepared(tb, "ebb_schema", func(ctx context.Context, url string) error {
		_, err := postgres.Migrate(ctx, url, postgres.Up)
		return err
	})
}

// open opens a store that is closed when the test ends.
func open(tb testing.TB, url string, o postgres.Options) *postgres.Store {
	tb.Helper()
	s, err := postgres.Open(tb.Context(), url, o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// connect returns a pool of plain connections.
func connect(tb testing.TB, url string) *pgxpool.Pool {
	tb.Helper()
	pool, err := pgxpool.New(tb.Context(), url)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(pool.Close)
	return pool
}

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { return open(t, migrated(t), postgres.Options{}) })
}

func TestFlow(t *testing.T) {
	storetest.RunFlow(t, func(t *testing.T) store.Store { return open(t, migrated(t), postgres.Options{}) })
}

func TestFlowTraces(t *testing.T) {
	storetest.SameFlowTraces(t, func(t *testing.T) store.Store { return open(t, migrated(t), postgres.Options{}) })
}

func TestTraces(t *testing.T) {
	storetest.SameTraces(t, func(t *testing.T) store.Store { return open(t, migrated(t), postgres.Options{}) })
}

func TestConformanceInTransactions(t *testing.T) {
	storetest.RunTx(t, joinable)
}

func TestFlowInTransactions(t *testing.T) { storetest.RunFlowTx(t, joinable) }

// joinable is a store and a second way into its database.
func joinable(t *testing.T) storetest.Joinable {
	url := migrated(t)
	return joined(t, url, url)
}

// joined is a store at one URL, and users' transactions that come by another.
func joined(t *testing.T, url, users string) storetest.Joinable {
	pool := connect(t, users)
	return storetest.Joinable{Store: open(t, url, postgres.Options{}), Concurrent: true, Begin: func() storetest.Tx {
		tx, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return storetest.Tx{
			Join:     tx,
			Commit:   func() error { return tx.Commit(t.Context()) },
			Rollback: func() error { return tx.Rollback(t.Context()) },
		}
	}}
}

func TestLinearizable(t *testing.T) {
	storetest.Linearizable(t, func(t *testing.T) store.Store { return open(t, migrated(t), postgres.Options{}) })
}
