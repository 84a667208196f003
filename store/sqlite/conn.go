package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
)

// rawConn is what the driver's connections can do.
type rawConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.SessionResetter
	driver.Validator
}

// rawStmt is what the driver's prepared statements can do.
type rawStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// conn is one connection with its prepared statements, used by one goroutine
// at a time. The store works on the driver itself: going through database/sql
// would cost a quarter of the throughput in conversions.
type conn struct {
	rawConn
	store    *Store
	prepared map[string]rawStmt

	args []driver.NamedValue // of the statement that is being bound; used again
	desk desk

	inTx   bool // of the user's handle: inside a transaction
	queued bool // of the user's handle: the transaction made jobs claimable
}

// statement returns the prepared statement; slot tells apart those of one
// text that are open at the same time.
func (c *conn) statement(ctx context.Context, name string, slot int) (rawStmt, error) {
	key := name
	if slot > 0 {
		key = fmt.Sprintf("%s#%d", name, slot)
	}
	if st := c.prepared[key]; st != nil {
		return st, nil
	}
	text := statements[name]
	if text == "" {
		return nil, fmt.Errorf("sqlite: no statement is named %q", name)
	}
	st, err := c.PrepareContext(context.WithoutCancel(ctx), text)
	if err != nil {
		return nil, fmt.Errorf("sqlite: prepare %s: %w", name, err)
	}
	raw, ok := st.(rawStmt)
	if !ok {
		return nil, fmt.Errorf("sqlite: the driver's %T lacks contexts", st)
	}
	c.prepared[key] = raw
	return raw, nil
}

// exec runs a statement and returns how many rows it changed.
func (c *conn) exec(ctx context.Context, name string, args ...any) (int64, error) {
	st, err := c.statement(ctx, name, 0)
	if err != nil {
		return 0, err
	}
	result, err := st.ExecContext(ctx, c.named(args))
	clear(c.args)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return result.RowsAffected()
}

// query calls each for every row. The row is valid until each returns.
func (c *conn) query(ctx context.Context, name string, args []any, each func(row) error) error {
	rows, err := c.open(ctx, name, 0, args)
	if err != nil {
		return err
	}
	var r row
	for {
		if r, err = rows.next(); err != nil || r == nil {
			break
		}
		if err = each(r); err != nil {
			break
		}
	}
	return errors.Join(err, rows.close())
}

// one returns the first row, nil if there is none.
func (c *conn) one(ctx context.Context, name string, args ...any) (row, error) {
	rows, err := c.open(ctx, name, 0, args)
	if err != nil {
		return nil, err
	}
	r, err := rows.next()
	return r, errors.Join(err, rows.close())
}

// cursor walks the rows of one statement.
type cursor struct {
	name   string
	rows   driver.Rows
	values []driver.Value
}

func (c *conn) open(ctx context.Context, name string, slot int, args []any) (*cursor, error) {
	st, err := c.statement(ctx, name, slot)
	if err != nil {
		return nil, err
	}
	rows, err := st.QueryContext(ctx, c.named(args))
	clear(c.args)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &cursor{name: name, rows: rows, values: make([]driver.Value, len(rows.Columns()))}, nil
}

// next returns the next row, valid until the one after it; nil at the end.
func (c *cursor) next() (row, error) {
	switch err := c.rows.Next(c.values); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	return c.values, nil
}

func (c *cursor) close() error { return c.rows.Close() }

// named numbers the arguments, which must be of the driver's own types. It
// copies them before a statement's call returns.
func (c *conn) named(args []any) []driver.NamedValue {
	c.args = c.args[:0]
	for i, a := range args {
		c.args = append(c.args, driver.NamedValue{Ordinal: i + 1, Value: a})
	}
	return c.args
}

// desk is memory that every turn needs again.
type desk struct {
	rows    []waiter // what lanes were read of
	numbers []byte   // of settles, and their results
	results []byte
}

// maxDeskRows and maxDeskBytes are what is kept of it: as much as turns of a
// worker with thousands of slots need, some megabytes in all.
const (
	maxDeskRows  = 1 << 13
	maxDeskBytes = 1 << 20
)

// tidy keeps no more than that.
func (d *desk) tidy() {
	if d.rows = d.rows[:0]; cap(d.rows) > maxDeskRows {
		d.rows = nil
	}
	if cap(d.numbers) > maxDeskBytes || cap(d.results) > maxDeskBytes {
		d.numbers, d.results = nil, nil
	}
}

// Close ends the connection and its statements.
func (c *conn) Close() error {
	var errs []error
	for _, st := range c.prepared {
		errs = append(errs, st.Close())
	}
	c.prepared = nil
	return errors.Join(append(errs, c.rawConn.Close())...)
}
