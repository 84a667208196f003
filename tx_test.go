package ebb_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ebbhq/ebb"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/pgtest"
)

// TestTransactions: what joins the user's transaction lives and dies with it.
func TestTransactions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.db")
	c, err := ebb.Open(t.Context(), "sqlite:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.DB().ExecContext(t.Context(), `CREATE TABLE orders (id INTEGER PRIMARY KEY, paid INTEGER)`); err != nil {
		t.Fatal(err)
	}
	ebb.Handle(c, "pay", func(ctx context.Context, task *ebb.Task, id int) error {
		tx, err := c.DB().BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if _, err := tx.ExecContext(ctx, `UPDATE orders SET paid = paid + 1 WHERE id = ?`, id); err != nil {
			return err
		}
		if err := task.Complete(ctx, tx); err != nil {
			return err
		}
		if err := tx.Commit(); err != nil {
			return err
		}
		c.Stop()
		return nil
	})
	order := func(end func(*sql.Tx) error, id int) string {
		tx, err := c.DB().BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.ExecContext(t.Context(), `INSERT INTO orders VALUES (?, 0)`, id); err != nil {
			t.Fatal(err)
		}
		answers, err := c.EnqueueTx(t.Context(), tx, ebb.Job{Kind: "pay", Args: id})
		if err != nil {
			t.Fatal(err)
		}
		if err := end(tx); err != nil {
			t.Fatal(err)
		}
		return answers[0].ID
	}
	gone := order((*sql.Tx).Rollback, 1)
	if _, err := c.Job(t.Context(), gone); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("job of a transaction that was rolled back: %v, want ErrNotFound", err)
	}
	id := order((*sql.Tx).Commit, 2)
	background(t, c)()
	paid := 0
	if err := c.DB().QueryRowContext(t.Context(), `SELECT paid FROM orders WHERE id = 2`).Scan(&paid); err != nil || paid != 1 {
		t.Errorf("paid %d times: %v, want once", paid, err)
	}
	if j, err := c.Job(t.Context(), id); err != nil || j.State != job.Succeeded {
		t.Errorf("job is %s: %v, want succeeded", j.State, err)
	}
}

func TestForeignTransaction(t *testing.T) {
	dir := t.TempDir()
	var clients [2]*ebb.Client
	for i := range clients {
		c, err := ebb.Open(t.Context(), "sqlite:"+filepath.Join(dir, string(rune('a'+i))+".db"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		clients[i] = c
	}
	tx, err := clients[1].DB().BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := clients[0].EnqueueTx(t.Context(), tx, ebb.Job{Kind: "k"}); !errors.Is(err, store.ErrForeignTx) {
		t.Errorf("another database's transaction: %v, want ErrForeignTx", err)
	}
}

// TestPostgresTransaction: a pgx.Tx and a *sql.Tx of the same database can be
// joined.
func TestPostgresTransaction(t *testing.T) {
	url := pgtest.Database(t)
	c, err := ebb.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.DB() != nil {
		t.Error("DB is not nil: on PostgreSQL the pool is the user's")
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	c.HandleRaw("k", func(ctx context.Context, task *ebb.Task) error {
		tx, err := conn.Begin(ctx)
		if err != nil {
			return err
		}
		defer tx.Rollback(ctx)
		if err := task.Complete(ctx, tx); err != nil {
			return err
		}
		defer c.Stop()
		return tx.Commit(ctx)
	})
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	answers, err := c.EnqueueTx(t.Context(), tx, ebb.Job{Kind: "k"})
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	background(t, c)()
	if j, err := c.Job(t.Context(), answers[0].ID); err != nil || j.State != job.Succeeded {
		t.Errorf("job is %s: %v", j.State, err)
	}
}
