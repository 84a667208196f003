package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ebbhq/ebb/store"
)

// scan reads the columns of one row.
type scan = func(dest ...any) error

// runner runs statements in a transaction, whoever began it.
type runner interface {
	exec(ctx context.Context, sql string, args ...any) error
	each(ctx context.Context, sql string, args []any, f func(scan scan) error) error
}

// pgxRunner runs on a pool or a transaction of pgx.
type pgxRunner struct {
	db interface {
		Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
		Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	}
}

func (r pgxRunner) exec(ctx context.Context, sql string, args ...any) error {
	_, err := r.db.Exec(ctx, sql, args...)
	return err
}

func (r pgxRunner) each(ctx context.Context, sql string, args []any, f func(scan scan) error) error {
	rows, err := r.db.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// sqlRunner runs on a transaction of database/sql over pgx.
type sqlRunner struct{ tx *sql.Tx }

func (r sqlRunner) exec(ctx context.Context, query string, args ...any) error {
	_, err := r.tx.ExecContext(ctx, query, args...)
	return err
}

func (r sqlRunner) each(ctx context.Context, query string, args []any, f func(scan scan) error) error {
	rows, err := r.tx.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // Err below tells what went wrong
	for rows.Next() {
		if err := f(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// joined returns a runner on the user's transaction.
func joined(ctx context.Context, tx any) (runner, error) {
	switch tx := tx.(type) {
	case pgx.Tx:
		return pgxRunner{tx}, nil
	case *sql.Tx:
		if tx == nil {
			break
		}
		// Another driver takes no slices; another database, no such casts.
		var n int
		if err := tx.QueryRowContext(ctx, "SELECT cardinality($1::bigint[])", []int64{1}).Scan(&n); err != nil {
			if errors.Is(err, sql.ErrTxDone) || ctx.Err() != nil {
				return nil, fmt.Errorf("postgres: join: %w", err)
			}
			return nil, fmt.Errorf("postgres: this *sql.Tx is not one of pgx's stdlib on PostgreSQL (%w): %w", err, store.ErrForeignTx)
		}
		return sqlRunner{tx}, nil
	}
	return nil, fmt.Errorf("postgres: %T: only a pgx.Tx, or a *sql.Tx of pgx's stdlib, can be joined: %w", tx, store.ErrForeignTx)
}

// foreign turns the absence of our tables into what it means.
func foreign(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "42P01" { // undefined_table
		return fmt.Errorf("postgres: the transaction's database has no ebb tables (%s): it must be the one that was opened: %w", pg.Message, store.ErrForeignTx)
	}
	return err
}
