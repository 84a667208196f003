package postgres

import (
	"context"
	"embed"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ebbhq/ebb/store"
)

// The runner is our own: one transaction, one advisory lock, files that a DBA
// can read and apply by hand. A migration library would bring a second way to
// connect and a table of its own for no more than that.

//go:embed schema/*.sql
var schemaFiles embed.FS

// Migration is one version of the schema.
type Migration struct {
	Version   int
	Name      string
	AppliedAt time.Time // zero = not applied
	Keeps     bool      // down loses nothing

	up, down string
}

// keepsAll begins the down part of a version that loses nothing.
const keepsAll = "-- Keeps everything."

// Directions of Migrate.
const (
	Up     = "up"     // to the newest version
	Down   = "down"   // one version back; what its tables hold is lost
	Status = "status" // change nothing
)

// versionTable remembers what was applied.
const versionTable = `CREATE TABLE IF NOT EXISTS ebb_schema (
    version    integer     NOT NULL PRIMARY KEY,
    name       text        NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
)`

const addVersion = "INSERT INTO ebb_schema (version, name) VALUES ($1, $2)"

// lockSchema lets one migration run at a time, whoever starts it.
const lockSchema = "SELECT pg_advisory_xact_lock(1700946274)"

// migrations lists schema/NNN_name.sql in order.
func migrations() []Migration {
	files, err := schemaFiles.ReadDir("schema")
	if err != nil {
		panic(err) // embedded: cannot be absent
	}
	list := make([]Migration, len(files))
	for i, f := range files {
		text, err := schemaFiles.ReadFile("schema/" + f.Name())
		if err != nil {
			panic(err)
		}
		number, name, _ := strings.Cut(strings.TrimSuffix(f.Name(), ".sql"), "_")
		version, err := strconv.Atoi(number)
		up, down, found := strings.Cut(string(text), "\n-- down\n")
		if err != nil || version != i+1 || !found {
			panic(fmt.Sprintf("postgres: schema/%s: want NNN_name.sql in order, with a part \"-- down\"", f.Name()))
		}
		list[i] = Migration{Version: version, Name: name, up: up, down: down, Keeps: strings.HasPrefix(strings.TrimSpace(down), keepsAll)}
	}
	return list
}

// SQL returns the whole schema as a script, for those who apply it by hand.
func SQL() string {
	var b strings.Builder
	b.WriteString("BEGIN;\n\n" + versionTable + ";\n\n")
	for _, m := range migrations() {
		fmt.Fprintf(&b, "%s\nINSERT INTO ebb_schema (version, name) VALUES (%d, '%s');\n\n", m.up, m.Version, m.Name)
	}
	b.WriteString("COMMIT;\n")
	return b.String()
}

// Migrate brings the schema up or one version down, and returns all versions
// as they stand then.
func Migrate(ctx context.Context, url, direction string) ([]Migration, error) {
	var o Options
	config, err := o.parse(url)
	if err != nil {
		return nil, err
	}
	if o.Pooler {
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return nil, fmt.Errorf("postgres: migrate: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // nothing is left to lose
	switch direction {
	case Up:
		err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return up(ctx, tx) })
	case Down:
		err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return down(ctx, tx) })
	case Status:
	default:
		err = fmt.Errorf("direction %q: want up, down or status", direction)
	}
	if err != nil {
		return nil, fmt.Errorf("postgres: migrate: %w", err)
	}
	list, err := applied(ctx, conn)
	if err != nil {
		return nil, fmt.Errorf("postgres: migrate: %w", err)
	}
	return list, nil
}

// up applies what is missing. Who comes second finds nothing missing.
func up(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, lockSchema); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, versionTable); err != nil {
		return err
	}
	list, err := applied(ctx, tx)
	if err != nil {
		return err
	}
	for _, m := range list {
		if !m.AppliedAt.IsZero() {
			continue
		}
		if _, err := tx.Exec(ctx, m.up, pgx.QueryExecModeSimpleProtocol); err != nil {
			return fmt.Errorf("version %d: %w", m.Version, err)
		}
		if _, err := tx.Exec(ctx, addVersion, m.Version, m.Name); err != nil {
			return err
		}
	}
	return nil
}

// down takes the newest version back, and with the last the table of versions.
func down(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, lockSchema); err != nil {
		return err
	}
	list, err := applied(ctx, tx)
	if err != nil {
		return err
	}
	for i := len(list) - 1; i >= 0; i-- {
		m := list[i]
		if m.AppliedAt.IsZero() {
			continue
		}
		if _, err := tx.Exec(ctx, m.down, pgx.QueryExecModeSimpleProtocol); err != nil {
			return fmt.Errorf("version %d: %w", m.Version, err)
		}
		forget := fmt.Sprintf("DELETE FROM ebb_schema WHERE version = %d", m.Version)
		if i == 0 {
			forget = "DROP TABLE ebb_schema"
		}
		_, err := tx.Exec(ctx, forget)
		return err
	}
	return nil
}

// querier is a pool, a connection or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// applied lists the versions this program knows, then those it does not.
func applied(ctx context.Context, db querier) ([]Migration, error) {
	list := migrations()
	var there bool
	if err := db.QueryRow(ctx, "SELECT to_regclass('ebb_schema') IS NOT NULL").Scan(&there); err != nil || !there {
		return list, err
	}
	rows, err := db.Query(ctx, "SELECT version, name, applied_at FROM ebb_schema ORDER BY version")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var m Migration
		if err := rows.Scan(&m.Version, &m.Name, &m.AppliedAt); err != nil {
			return nil, err
		}
		m.AppliedAt = store.Instant(m.AppliedAt)
		if m.Version <= len(list) {
			list[m.Version-1].AppliedAt = m.AppliedAt
		} else {
			list = append(list, m)
		}
	}
	return list, rows.Err()
}

// ensure gives an empty database the schema and refuses any other version than
// this program's.
func ensure(ctx context.Context, pool *pgxpool.Pool) error {
	for range 2 {
		list, err := applied(ctx, pool)
		if err != nil {
			return fmt.Errorf("postgres: schema: %w", err)
		}
		version := 0
		for _, m := range list {
			if !m.AppliedAt.IsZero() {
				version = m.Version
			}
		}
		if version > 0 {
			return judge(version, len(migrations()))
		}
		if err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return up(ctx, tx) }); err != nil {
			return fmt.Errorf("postgres: first schema: %w", err)
		}
	}
	return fmt.Errorf("postgres: the schema is gone as soon as it is made: %w", store.ErrSchema)
}

// judge compares the database's version with the one this program needs.
func judge(is, needed int) error {
	switch {
	case is > needed:
		return fmt.Errorf("postgres: the database is of version %d, this program knows %d; install a newer one: %w", is, needed, store.ErrNewerSchema)
	case is < needed:
		return fmt.Errorf("postgres: the database is of version %d, this program needs %d: %w. Try: ebb migrate up", is, needed, store.ErrSchema)
	}
	return nil
}
