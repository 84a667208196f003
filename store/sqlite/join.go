package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// DB returns a handle on the same file for your own tables. Its transactions
// begin with BEGIN IMMEDIATE, wait their turn with the store's, and can be
// joined by EnqueueTx and SettleTx. Keep them short: while one is open nobody
// else writes, and a call of the store other than those two would wait for
// the very transaction that it is made in. Close of the store closes it.
func (s *Store) DB() *sql.DB { return s.users }

// Begin opens a transaction that EnqueueTx and SettleTx can join.
func (s *Store) Begin(ctx context.Context) (*sql.Tx, error) { return s.users.BeginTx(ctx, nil) }

// connector opens the connections of DB.
type connector struct{ store *Store }

func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	opened, err := c.store.connect(ctx, roleUser)
	if err != nil {
		return nil, err
	}
	return opened, nil
}

func (c connector) Driver() driver.Driver { return c }

// Open is never used: database/sql calls Connect.
func (c connector) Open(string) (driver.Conn, error) { return c.Connect(context.Background()) }

// BeginTx takes the right to write, then the file's lock.
func (c *conn) BeginTx(ctx context.Context, options driver.TxOptions) (driver.Tx, error) {
	if options.ReadOnly {
		return c.rawConn.BeginTx(ctx, options)
	}
	if err := c.store.lock(ctx, inTurn); err != nil {
		return nil, err
	}
	var raw driver.Tx
	err := c.store.patiently(ctx, func() (err error) {
		raw, err = c.rawConn.BeginTx(ctx, options)
		return err
	})
	if err != nil {
		c.store.unlock()
		return nil, c.store.explain("begin", err)
	}
	c.inTx, c.queued = true, false
	return &userTx{conn: c, raw: raw}, nil
}

// userTx is a transaction of DB.
type userTx struct {
	conn *conn
	raw  driver.Tx
}

func (t *userTx) Commit() error {
	err := t.raw.Commit()
	if err == nil && t.conn.queued {
		t.conn.store.wake()
	}
	t.conn.leaveTx()
	return t.conn.store.explain("commit", err)
}

func (t *userTx) Rollback() error {
	err := t.raw.Rollback()
	t.conn.leaveTx()
	return err
}

func (c *conn) leaveTx() {
	if c.inTx {
		c.inTx = false
		c.store.unlock()
	}
}

// joined is work of the store inside a transaction of DB. It travels as an
// argument, so that it runs on the very connection, alone, between the user's
// own statements; any other database refuses an argument of this type.
type joined func(c *conn) error

const joinQuery = "ebb: join this transaction"

// CheckNamedValue lets joined pass.
func (c *conn) CheckNamedValue(v *driver.NamedValue) error {
	if _, ok := v.Value.(joined); ok {
		return nil
	}
	return driver.ErrSkip
}

// ExecContext runs joined work, or a statement of the user: outside of a
// transaction it waits its turn to write.
func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if len(args) == 1 && query == joinQuery {
		if work, ok := args[0].Value.(joined); ok {
			return driver.ResultNoRows, work(c)
		}
	}
	if c.inTx {
		return c.rawConn.ExecContext(ctx, query, args)
	}
	if err := c.store.lock(ctx, inTurn); err != nil {
		return nil, err
	}
	defer c.store.unlock()
	var result driver.Result
	err := c.store.patiently(ctx, func() (err error) {
		result, err = c.rawConn.ExecContext(ctx, query, args)
		return err
	})
	return result, c.store.explain("exec", err)
}

// join runs f inside the user's transaction, all of it or nothing.
func (s *Store) join(ctx context.Context, what string, transaction any, now time.Time, f func(t *tx) error) error {
	users, ok := transaction.(*sql.Tx)
	if !ok || users == nil {
		return fmt.Errorf("sqlite: %s: %T: want a *sql.Tx that the DB of this store or client has begun: %w", what, transaction, store.ErrForeignTx)
	}
	reached := false
	_, err := users.ExecContext(ctx, joinQuery, joined(func(c *conn) error {
		reached = true
		switch {
		case c.store != s && c.store.path == s.path:
			return fmt.Errorf("sqlite: %s: the transaction is of another store or client that has opened the same file; begin it with the DB of this one: %w", what, store.ErrForeignTx)
		case c.store != s:
			return fmt.Errorf("sqlite: %s: the transaction is of %s, the store of %s: %w", what, c.store.path, s.path, store.ErrForeignTx)
		case !c.inTx:
			return fmt.Errorf("sqlite: %s: the transaction is read-only: %w", what, store.ErrForeignTx)
		}
		return c.joinWith(ctx, now, f)
	}))
	if err != nil && !reached && !errors.Is(err, sql.ErrTxDone) && ctx.Err() == nil {
		return fmt.Errorf("sqlite: %s: the transaction is not of a database that Ebb opened, so it need not hold the write lock; "+
			"begin it with the DB of this store or client: %w", what, store.ErrForeignTx)
	}
	return s.explain(what, err)
}

// joinWith runs f within a savepoint.
func (c *conn) joinWith(ctx context.Context, now time.Time, f func(t *tx) error) error {
	t := c.transaction(ctx, now)
	if _, err := t.run("savepoint"); err != nil {
		return err
	}
	err := f(t)
	if err == nil {
		err = t.flush()
	}
	if err != nil {
		_, undo := t.run("rollback_to")
		_, end := t.run("release")
		return errors.Join(err, undo, end)
	}
	c.queued = c.queued || t.queued
	_, err = t.run("release")
	return err
}

// EnqueueTx is Enqueue inside transaction, a *sql.Tx of DB.
func (s *Store) EnqueueTx(ctx context.Context, transaction any, now time.Time, jobs []job.New) ([]store.Enqueued, error) {
	now = at(now)
	prepared, err := prepare(now, jobs)
	if err != nil {
		return nil, err
	}
	var answers []store.Enqueued
	err = s.join(ctx, "enqueue", transaction, now, func(t *tx) (err error) {
		t.timeless = true
		answers, err = t.enqueue(prepared)
		return err
	})
	return answers, err
}

// SettleTx settles inside transaction, a *sql.Tx of DB.
func (s *Store) SettleTx(ctx context.Context, transaction any, now time.Time, process int64, settle store.Settle) (bool, error) {
	settles := []store.Settle{settle}
	if err := store.CheckSettles(settles); err != nil {
		return false, err
	}
	applied := false
	err := s.join(ctx, "settle", transaction, now, func(t *tx) error {
		answers, err := t.settle(process, settles)
		applied = err == nil && answers[0]
		return err
	})
	return applied && err == nil, err
}
