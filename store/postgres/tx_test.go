package postgres_test

import (
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "modernc.org/sqlite"             // a driver that is not ours

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/pgtest"
	"github.com/ebbhq/ebb/store/postgres"
	"github.com/ebbhq/ebb/store/storetest"
)

// begin opens a transaction of database/sql that is rolled back when the test
// ends, if it has not ended.
func begin(t *testing.T, driver, url string) *sql.Tx {
	t.Helper()
	db, err := sql.Open(driver, url)
	if err != nil {
		t.Fatal(err)
	}
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = tx.Rollback()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return tx
}

func TestConformanceInTransactionsOfDatabaseSQL(t *testing.T) {
	storetest.RunTx(t, func(t *testing.T) storetest.Joinable {
		url := migrated(t)
		return storetest.Joinable{Store: open(t, url, postgres.Options{}), Concurrent: true, Begin: func() storetest.Tx {
			tx := begin(t, "pgx", url)
			return storetest.Tx{Join: tx, Commit: tx.Commit, Rollback: tx.Rollback}
		}}
	})
}

func TestForeignTransactionsAreRefusedWithTheReason(t *testing.T) {
	s := open(t, migrated(t), postgres.Options{})
	for _, c := range []struct {
		name string
		tx   any
		want string
	}{
		{"another driver", begin(t, "sqlite", ":memory:"), "not one of pgx's stdlib"},
		{"another database", begin(t, "pgx", pgtest.Database(t)), "has no ebb tables"},
		{"a nil *sql.Tx", (*sql.Tx)(nil), "only a pgx.Tx"},
		{"a pool", connect(t, migrated(t)), "*pgxpool.Pool"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := s.EnqueueTx(t.Context(), c.tx, time.Time{}, []job.New{{Kind: "mail"}})
			if !errors.Is(err, store.ErrForeignTx) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("enqueue: %v, want %v with %q", err, store.ErrForeignTx, c.want)
			}
		})
	}
	if list, err := s.List(t.Context(), store.Filter{}, store.Page{Limit: 1}); err != nil || len(list) != 0 {
		t.Errorf("enqueued all the same: %v, %v", list, err)
	}
}

func TestATransactionThatHasEndedIsNotForeign(t *testing.T) {
	url := migrated(t)
	s := open(t, url, postgres.Options{})
	tx := begin(t, "pgx", url)
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	_, err := s.EnqueueTx(t.Context(), tx, time.Time{}, []job.New{{Kind: "mail"}})
	if !errors.Is(err, sql.ErrTxDone) || errors.Is(err, store.ErrForeignTx) {
		t.Errorf("enqueue: %v, want %v", err, sql.ErrTxDone)
	}
}
