//go:build unix

package sqlite_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"path/filepath"
	"strconv"
	"testing"

	moderncsqlite "modernc.org/sqlite"
)

// lean is design B as bare SQL on the same driver with the same durability:
// the limit that a drain is measured against. It has no fencing, no kinds, no
// unique keys, no counts and no ledger of failures worth reading.
type lean struct {
	tb       testing.TB
	raw      driver.Conn
	prepared map[string]driver.Stmt
}

const leanSchema = `
CREATE TABLE job (
    id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, queue TEXT NOT NULL, priority INTEGER NOT NULL,
    due_at INTEGER NOT NULL, state INTEGER NOT NULL DEFAULT 0, epoch INTEGER NOT NULL DEFAULT 0, attempts INTEGER NOT NULL DEFAULT 0,
    leased_at INTEGER, args BLOB NOT NULL);
CREATE INDEX job_ready ON job (queue, priority, due_at, id) WHERE state = 0;
CREATE TABLE history (
    id INTEGER PRIMARY KEY, kind TEXT NOT NULL, queue TEXT NOT NULL, priority INTEGER NOT NULL, due_at INTEGER NOT NULL,
    epoch INTEGER NOT NULL, attempts INTEGER NOT NULL, leased_at INTEGER, ended_at INTEGER, args BLOB NOT NULL);
CREATE TABLE attempt (id INTEGER NOT NULL, epoch INTEGER NOT NULL, started_at INTEGER, ended_at INTEGER, error TEXT, PRIMARY KEY (id, epoch)) WITHOUT ROWID;`

const (
	leanInsert = `INSERT INTO job (kind, queue, priority, due_at, args)
		SELECT 'noop', 'default', 0, ?1, CAST(value AS BLOB) FROM json_each(?2)`
	leanClaim = `UPDATE job SET state = 1, epoch = epoch + 1, leased_at = ?1 WHERE id IN (
			SELECT id FROM job WHERE state = 0 AND queue = 'default' AND priority = 0 AND due_at <= ?1 ORDER BY due_at, id LIMIT ?2)
		RETURNING id, kind, args, attempts`
	leanHistory = `INSERT INTO history
		SELECT id, kind, queue, priority, due_at, epoch, attempts, leased_at, ?1, args FROM job WHERE id IN (SELECT value FROM json_each(?2))`
	leanDelete  = `DELETE FROM job WHERE id IN (SELECT value FROM json_each(?1))`
	leanAttempt = `INSERT INTO attempt SELECT id, epoch, leased_at, ?1, 'no answer' FROM job WHERE id IN (SELECT value FROM json_each(?2))`
	leanAgain   = `UPDATE job SET state = 0, attempts = attempts + 1, due_at = ?1 WHERE id IN (SELECT value FROM json_each(?2))`
)

func newLean(tb testing.TB) *lean {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "lean.db")
	connector, err := moderncsqlite.NewConnector("file:" + path + "?_pragma=journal_mode(wal)&_pragma=synchronous(full)" +
		"&_pragma=temp_store(memory)&_pragma=wal_autocheckpoint(4000)&_pragma=cache_size(-16384)")
	if err != nil {
		tb.Fatal(err)
	}
	raw, err := connector.Connect(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	l := &lean{tb: tb, raw: raw, prepared: map[string]driver.Stmt{}}
	tb.Cleanup(func() {
		for _, st := range l.prepared {
			_ = st.Close()
		}
		if err := raw.Close(); err != nil {
			tb.Error(err)
		}
	})
	script, ok := raw.(driver.ExecerContext)
	if !ok {
		tb.Fatalf("%T cannot exec", raw)
	}
	if _, err := script.ExecContext(tb.Context(), leanSchema, nil); err != nil {
		tb.Fatal(err)
	}
	return l
}

// query runs a prepared statement and returns the first column.
func (l *lean) query(text string, args ...any) []int64 {
	l.tb.Helper()
	st := l.prepared[text]
	if st == nil {
		var err error
		if st, err = l.raw.Prepare(text); err != nil {
			l.tb.Fatal(err)
		}
		l.prepared[text] = st
	}
	values := make([]driver.NamedValue, len(args))
	for i, a := range args {
		values[i] = driver.NamedValue{Ordinal: i + 1, Value: a}
	}
	rows, err := st.(driver.StmtQueryContext).QueryContext(context.Background(), values)
	if err != nil {
		l.tb.Fatal(err)
	}
	var ids []int64
	row := make([]driver.Value, len(rows.Columns()))
	for err = rows.Next(row); err == nil; err = rows.Next(row) {
		id, _ := row[0].(int64)
		ids = append(ids, id)
	}
	if !errors.Is(err, io.EOF) {
		l.tb.Fatal(err)
	}
	if err := rows.Close(); err != nil {
		l.tb.Fatal(err)
	}
	return ids
}

func (l *lean) enqueue(n int) {
	args := []byte{'['}
	for i := range n {
		if i > 0 {
			args = append(args, ',')
		}
		args = strconv.AppendQuote(args, string(benchArgs))
	}
	l.query("BEGIN IMMEDIATE")
	l.query(leanInsert, int64(1), string(append(args, ']')))
	l.query("COMMIT")
}

// turn ends what ran, as the fail says, and claims the next.
func (l *lean) turn(ran []int64, fail bool, limit int) []int64 {
	l.query("BEGIN IMMEDIATE")
	if len(ran) > 0 {
		list := listOf(ran)
		if fail {
			l.query(leanAttempt, int64(2), list)
			l.query(leanAgain, int64(2), list)
		} else {
			l.query(leanHistory, int64(2), list)
			l.query(leanDelete, list)
		}
	}
	next := l.query(leanClaim, int64(3), int64(limit))
	l.query("COMMIT")
	return next
}

func listOf(ids []int64) string {
	text := []byte{'['}
	for i, id := range ids {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, id, 10)
	}
	return string(append(text, ']'))
}
