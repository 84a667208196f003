package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/sqlite"
)

func begin(t *testing.T, db *sql.DB, options *sql.TxOptions) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tx.Rollback(); err != nil && !errors.Is(err, sql.ErrTxDone) {
			t.Error(err)
		}
	})
	return tx
}

func TestForeignTransactionsAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ebb.db")
	s, other := openAt(t, path, sqlite.Options{}), open(t)
	ended := begin(t, s.DB(), nil)
	if err := ended.Commit(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		tx   any
		want string
		is   error
	}{
		{"the same file opened by somebody else", begin(t, direct(t, path), nil), "not of a database that Ebb opened", store.ErrForeignTx},
		{"another store", begin(t, other.DB(), nil), "the transaction is of", store.ErrForeignTx},
		{"another store of the same file", begin(t, openAt(t, path, sqlite.Options{}).DB(), nil), "begin it with the DB of this one", store.ErrForeignTx},
		{"a read-only one", begin(t, s.DB(), &sql.TxOptions{ReadOnly: true}), "read-only", store.ErrForeignTx},
		{"a handle", s.DB(), "want a *sql.Tx", store.ErrForeignTx},
		{"nil", (*sql.Tx)(nil), "want a *sql.Tx", store.ErrForeignTx},
		{"an ended one", ended, "", sql.ErrTxDone},
	} {
		_, err := s.EnqueueTx(t.Context(), c.tx, t0, []job.New{{Kind: "k"}})
		if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("enqueue in %s: got %v, want %q", c.name, err, c.want)
		}
		_, err = s.SettleTx(t.Context(), c.tx, t0, 1, store.Settle{To: job.Succeeded})
		if !errors.Is(err, c.is) {
			t.Errorf("settle in %s: got %v, want %v", c.name, err, c.is)
		}
	}
}

func TestUsersTablesShareTheTransaction(t *testing.T) {
	s := open(t)
	db := s.DB()
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT)"); err != nil {
		t.Fatal(err)
	}
	for _, commit := range []bool{false, true} {
		tx := begin(t, db, nil)
		if _, err := tx.ExecContext(t.Context(), "INSERT INTO customer (name) VALUES (?)", "ann"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.EnqueueTx(t.Context(), tx, t0, []job.New{{Kind: "welcome"}}); err != nil {
			t.Fatal(err)
		}
		end := tx.Rollback
		if commit {
			end = tx.Commit
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
		var customers, want int
		if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM customer").Scan(&customers); err != nil {
			t.Fatal(err)
		}
		list, err := s.List(t.Context(), store.Filter{}, store.Page{Limit: 9})
		if want = b2i(commit); err != nil || customers != want || len(list) != want {
			t.Errorf("committed %t: %d customers, %d jobs, %v", commit, customers, len(list), err)
		}
	}
}

// A refused batch must leave no half of itself in the user's transaction,
// which may go on.
func TestRefusedEnqueueLeavesNothingInTheTransaction(t *testing.T) {
	s := open(t)
	tx := begin(t, s.DB(), nil)
	if _, err := tx.ExecContext(t.Context(), `CREATE TRIGGER no AFTER INSERT ON ebb_job WHEN new.kind = 'bad' BEGIN SELECT raise(ABORT, 'no'); END`); err != nil {
		t.Fatal(err)
	}
	if _, err := s.EnqueueTx(t.Context(), tx, t0, []job.New{{Kind: "good"}, {Kind: "bad"}}); err == nil {
		t.Fatal("accepted")
	}
	if _, err := s.EnqueueTx(t.Context(), tx, t0, []job.New{{Kind: "later"}}); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	list, err := s.List(t.Context(), store.Filter{}, store.Page{Limit: 9})
	if err != nil || len(list) != 1 || list[0].Kind != "later" {
		t.Errorf("got %+v, %v", list, err)
	}
}

func TestOpenTransactionIsWaitedForWithPatience(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ebb.db")
	s := openAt(t, path, sqlite.Options{Patience: 50 * time.Millisecond})
	elsewhere := openAt(t, path, sqlite.Options{Patience: 50 * time.Millisecond})
	tx := begin(t, s.DB(), nil)
	enqueue := func(s *sqlite.Store, ctx context.Context) error {
		_, err := s.Enqueue(ctx, t0, []job.New{{Kind: "k"}})
		return err
	}
	for name, who := range map[string]*sqlite.Store{"this process": s, "another process": elsewhere} {
		err := enqueue(who, t.Context())
		if err == nil || !strings.Contains(err.Error(), "keep transactions short") || failure.Classify(err).Class != failure.Unavailable {
			t.Errorf("%s: got %v of class %s", name, err, failure.Classify(err).Class)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if err := enqueue(who, ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: got %v, want the context's error", name, err)
		}
		cancel()
		if _, err := who.List(t.Context(), store.Filter{}, store.Page{Limit: 1}); err != nil {
			t.Errorf("%s: a read waited: %v", name, err)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	for _, who := range []*sqlite.Store{s, elsewhere} {
		if err := enqueue(who, t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// A transaction whose context ends gives the right to write back.
func TestCancelledTransactionLetsOthersWrite(t *testing.T) {
	s := open(t)
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		tx, err := s.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.EnqueueTx(ctx, tx, t0, []job.New{{Kind: "lost"}}); err != nil {
			t.Fatal(err)
		}
		cancel()
		if _, err := s.Enqueue(t.Context(), t0, []job.New{{Kind: "kept"}}); err != nil {
			t.Fatal(err)
		}
	}
	list, err := s.List(t.Context(), store.Filter{Kind: "lost"}, store.Page{Limit: 9})
	if err != nil || len(list) != 0 {
		t.Errorf("got %d lost jobs, %v", len(list), err)
	}
}

// Statements outside of transactions wait their turn too.
func TestUsersOwnWritesBesideTheStores(t *testing.T) {
	s := open(t)
	if _, err := s.DB().ExecContext(t.Context(), "CREATE TABLE n (i INTEGER)"); err != nil {
		t.Fatal(err)
	}
	errs := make(chan error)
	for range 4 {
		go func() {
			var err error
			for i := 0; i < 50 && err == nil; i++ {
				_, err = s.DB().ExecContext(t.Context(), "INSERT INTO n VALUES (?)", i)
			}
			errs <- err
		}()
		go func() {
			var err error
			for i := 0; i < 50 && err == nil; i++ {
				_, err = s.Enqueue(t.Context(), t0, []job.New{{Kind: "k"}})
			}
			errs <- err
		}()
	}
	for range 8 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}
