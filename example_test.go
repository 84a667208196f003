package ebb_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ebbhq/ebb"
	"github.com/ebbhq/ebb/policy"
)

type welcome struct{ To string }

func Example_quickstart() {
	ctx, stop := context.WithCancel(context.Background())
	c, err := ebb.Open(ctx, "memory:") // sqlite:app.db or postgres://… to keep them
	if err != nil {
		panic(err)
	}
	defer c.Close()

	ebb.Handle(c, "welcome", func(_ context.Context, t *ebb.Task, args welcome) error {
		fmt.Printf("attempt %d: welcome, %s\n", t.Attempt(), args.To)
		stop()
		return nil
	})
	if _, err := c.Enqueue(ctx, ebb.Job{Kind: "welcome", Args: welcome{To: "Ada"}}); err != nil {
		panic(err)
	}
	if err := c.Run(ctx); err != nil {
		panic(err)
	}
	// Output:
	// attempt 1: welcome, Ada
}

// An order and the job that ships it become durable together, or not at all.
// On SQLite the transaction must come from Client.DB.
func ExampleClient_EnqueueTx() {
	ctx := context.Background()
	c, cleanup := openTemporary(ctx)
	defer cleanup()
	db := c.DB()
	if _, err := db.ExecContext(ctx, `CREATE TABLE orders (id INTEGER PRIMARY KEY)`); err != nil {
		panic(err)
	}

	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		panic(err)
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, `INSERT INTO orders VALUES (7)`); err != nil {
		panic(err)
	}
	jobs, err := c.EnqueueTx(ctx, tx, ebb.Job{Kind: "ship", Args: 7})
	if err != nil {
		panic(err)
	}
	if err := tx.Commit(); err != nil {
		panic(err)
	}
	j, err := c.Job(ctx, jobs[0].ID)
	fmt.Println(j.Kind, string(j.Args), j.State, err)
	// Output:
	// ship 7 queued <nil>
}

// What the handler writes and the completion of its job become durable
// together: the work is done exactly once in the database.
func ExampleTask_complete() {
	ctx, stop := context.WithCancel(context.Background())
	c, cleanup := openTemporary(ctx)
	defer cleanup()
	if _, err := c.DB().ExecContext(ctx, `CREATE TABLE account (balance INTEGER)`); err != nil {
		panic(err)
	}
	if _, err := c.DB().ExecContext(ctx, `INSERT INTO account VALUES (0)`); err != nil {
		panic(err)
	}
	ebb.Handle(c, "deposit", func(ctx context.Context, t *ebb.Task, amount int) error {
		defer stop()
		tx, err := c.DB().BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if _, err := tx.ExecContext(ctx, `UPDATE account SET balance = balance + ?`, amount); err != nil {
			return err
		}
		if err := t.Complete(ctx, tx); err != nil {
			return err
		}
		return tx.Commit()
	})
	deposit, err := c.Enqueue(ctx, ebb.Job{Kind: "deposit", Args: 100})
	if err != nil {
		panic(err)
	}
	if err := c.Run(ctx); err != nil {
		panic(err)
	}

	after := context.WithoutCancel(ctx)
	var balance int
	if err := c.DB().QueryRowContext(after, `SELECT balance FROM account`).Scan(&balance); err != nil {
		panic(err)
	}
	j, err := c.Job(after, deposit.ID)
	fmt.Println(balance, j.State, err)
	// Output:
	// 100 succeeded <nil>
}

// A handler's plain error is judged by the job's policy; Fatal, Park and
// Snooze say what is meant.
func ExampleFatal() {
	ctx, stop := context.WithCancel(context.Background())
	c, err := ebb.Open(ctx, "memory:", ebb.WithConcurrency(1))
	if err != nil {
		panic(err)
	}
	defer c.Close()
	ebb.Handle(c, "charge", func(_ context.Context, _ *ebb.Task, what string) error {
		switch what {
		case "expired card":
			return ebb.Fatal(errors.New("the card has expired"))
		case "no API key":
			return ebb.Park(errors.New("set CHARGE_KEY and start again"))
		case "bank holiday":
			return ebb.Snooze(24 * time.Hour)
		case "bank down":
			return errors.New("connection refused")
		}
		stop()
		return nil
	})
	cases := []string{"expired card", "no API key", "bank holiday", "bank down"}
	var ids []string
	for _, what := range append(cases, "all is well") {
		answer, err := c.Enqueue(ctx, ebb.Job{Kind: "charge", Args: what})
		if err != nil {
			panic(err)
		}
		ids = append(ids, answer.ID)
	}
	if err := c.Run(ctx); err != nil {
		panic(err)
	}
	for i, what := range cases {
		j, err := c.Job(context.WithoutCancel(ctx), ids[i])
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s: %s %s, %d attempts spent\n", what, j.State, j.Cause, j.History.Attempts)
	}
	// Output:
	// expired card: failed fatal, 1 attempts spent
	// no API key: parked config, 0 attempts spent
	// bank holiday: queued , 0 attempts spent
	// bank down: queued , 1 attempts spent
}

// A policy of your own starts from the default or from a preset.
func ExampleWithPolicies() {
	patient := policy.Base("patient") // figures of the default
	patient.Attempts = 10
	patient.Backoff.Base, patient.Backoff.Factor = time.Minute, 2
	patient.Concurrency = 4

	c, err := ebb.Open(context.Background(), "memory:", ebb.WithPolicies(patient))
	if err != nil {
		panic(err)
	}
	defer c.Close()
	_, err = c.Enqueue(context.Background(), ebb.Job{Kind: "import", Policy: "patient"})
	fmt.Println(err)
	// Output:
	// <nil>
}

func openTemporary(ctx context.Context) (c *ebb.Client, cleanup func()) {
	dir, err := os.MkdirTemp("", "ebb")
	if err != nil {
		panic(err)
	}
	c, err = ebb.Open(ctx, "sqlite:"+filepath.Join(dir, "app.db"))
	if err != nil {
		panic(err)
	}
	return c, func() {
		c.Close()
		os.RemoveAll(dir)
	}
}
