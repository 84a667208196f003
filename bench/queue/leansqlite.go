package queue

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	_ "modernc.org/sqlite" // the driver that Ebb uses as well
)

// LeanSQLite is design B as bare SQL on SQLite: one connection, one loop,
// batches of 500, as durable as SQLite can be.
type LeanSQLite struct {
	db *sql.DB
}

const leanLiteBatch = 500

const leanLiteSchema = `
CREATE TABLE lean_job (
	id       INTEGER PRIMARY KEY AUTOINCREMENT,
	kind     TEXT NOT NULL,
	queue    TEXT NOT NULL DEFAULT 'default',
	priority INTEGER NOT NULL DEFAULT 0,
	due_at   INTEGER NOT NULL,
	running  INTEGER NOT NULL DEFAULT 0,
	attempt  INTEGER NOT NULL DEFAULT 0,
	worker   INTEGER,
	began_at INTEGER,
	args     TEXT NOT NULL
);
CREATE INDEX lean_ready ON lean_job (priority, due_at, id) WHERE running = 0;
CREATE TABLE lean_done (
	id INTEGER PRIMARY KEY, kind TEXT NOT NULL, queue TEXT NOT NULL, attempt INTEGER NOT NULL, worker INTEGER,
	began_at INTEGER, ended_at INTEGER NOT NULL, args TEXT NOT NULL
);
CREATE TABLE lean_failure (id INTEGER NOT NULL, attempt INTEGER NOT NULL, worker INTEGER, began_at INTEGER, ended_at INTEGER NOT NULL, error TEXT NOT NULL);`

// Setup creates the file.
func (l *LeanSQLite) Setup(ctx context.Context, path string) (err error) {
	l.db, err = sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=busy_timeout(5000)&_txlock=immediate")
	if err != nil {
		return err
	}
	l.db.SetMaxOpenConns(1)
	_, err = l.db.ExecContext(ctx, leanLiteSchema)
	return err
}

// Insert passes a batch as one JSON parameter, several times faster than rows.
func (l *LeanSQLite) Insert(ctx context.Context, jobs []Job) error {
	type row struct {
		Due  int64           `json:"d"`
		Args json.RawMessage `json:"a"`
	}
	now := time.Now()
	rows := make([]row, len(jobs))
	for i, j := range jobs {
		due := j.Due
		if due.IsZero() {
			due = now
		}
		rows[i] = row{due.UnixMicro(), j.Args}
	}
	text, err := json.Marshal(rows)
	if err != nil {
		return err
	}
	_, err = l.db.ExecContext(ctx, `INSERT INTO lean_job (kind, due_at, args)
		SELECT 'noop', value ->> 'd', value -> 'a' FROM json_each(?)`, string(text))
	return err
}

// Work runs the loop; workers is ignored.
func (l *LeanSQLite) Work(ctx context.Context, _ int, handle Handler) (func() error, error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		must(l.loop(ctx, handle))
	}()
	return func() error { cancel(); <-ended; return nil }, nil
}

func (l *LeanSQLite) loop(ctx context.Context, handle Handler) error {
	var done, failed []int64
	for ctx.Err() == nil {
		settled := len(done)+len(failed) > 0
		ids, args, err := l.turn(context.WithoutCancel(ctx), done, failed)
		if err != nil {
			return fmt.Errorf("lean: %w", err)
		}
		done, failed = done[:0], failed[:0]
		for i, id := range ids {
			if handle(ctx, args[i]) == nil {
				done = append(done, id)
			} else {
				failed = append(failed, id)
			}
		}
		if !settled && len(ids) == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}

// turn writes results and claims the next batch in one transaction.
func (l *LeanSQLite) turn(ctx context.Context, done, failed []int64) (ids []int64, args [][]byte, err error) {
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, tx.Rollback())
		}
	}()
	now := time.Now().UnixMicro()
	if err := settleLite(ctx, tx, now, done, failed); err != nil {
		return nil, nil, err
	}
	rows, err := tx.QueryContext(ctx, `UPDATE lean_job SET running = 1, attempt = attempt + 1, worker = 1, began_at = ?1
		WHERE id IN (SELECT id FROM lean_job WHERE running = 0 AND due_at <= ?1 ORDER BY priority, due_at, id LIMIT ?2)
		RETURNING id, args`, now, leanLiteBatch)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id int64
		var arg []byte
		if err := rows.Scan(&id, &arg); err != nil {
			return nil, nil, err
		}
		ids, args = append(ids, id), append(args, arg)
	}
	if err := rows.Err(); err != nil {
		return nil, nil, err
	}
	return ids, args, tx.Commit()
}

func settleLite(ctx context.Context, tx *sql.Tx, now int64, done, failed []int64) error {
	for _, step := range []struct {
		ids []int64
		sql []string
	}{
		{done, []string{
			`INSERT INTO lean_done SELECT id, kind, queue, attempt, worker, began_at, ?1, args FROM lean_job WHERE id IN (SELECT value FROM json_each(?2))`,
			`DELETE FROM lean_job WHERE id IN (SELECT value FROM json_each(?2)) AND ?1 > 0`,
		}},
		{failed, []string{
			`INSERT INTO lean_failure SELECT id, attempt, worker, began_at, ?1, 'upstream answered 503, try again' FROM lean_job WHERE id IN (SELECT value FROM json_each(?2))`,
			`UPDATE lean_job SET running = 0, due_at = ?1 WHERE id IN (SELECT value FROM json_each(?2))`,
		}},
	} {
		if len(step.ids) == 0 {
			continue
		}
		text, err := json.Marshal(step.ids)
		if err != nil {
			return err
		}
		for _, s := range step.sql {
			if _, err := tx.ExecContext(ctx, s, now, string(text)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Left looks for a job that is due.
func (l *LeanSQLite) Left(ctx context.Context) (left bool, err error) {
	err = l.db.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM lean_job WHERE due_at <= ?)", time.Now().UnixMicro()).Scan(&left)
	return left, err
}

// Close closes the file.
func (l *LeanSQLite) Close() { _ = l.db.Close() }
