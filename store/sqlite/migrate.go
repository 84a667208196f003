package sqlite

import (
	"context"
	"database/sql/driver"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/ebbhq/ebb/store"
)

//go:embed schema/*.sql
var schemaFiles embed.FS

// Directions of Migrate.
const (
	Up     = "up"     // to the newest version
	Down   = "down"   // one version back; what its tables hold is lost, unless it Keeps it
	Status = "status" // change nothing
)

// Migration is one version of the schema.
type Migration struct {
	Version   int
	Name      string
	AppliedAt time.Time // zero = not applied
	Keeps     bool      // down loses nothing

	up, down string
}

// versionTable remembers what was applied.
const versionTable = `CREATE TABLE IF NOT EXISTS ebb_schema (
    version    INTEGER PRIMARY KEY,
    name       TEXT    NOT NULL,
    applied_at INTEGER NOT NULL -- microseconds since 1970, UTC
) STRICT;
`

// keepsAll begins the down part of a version that loses nothing.
const keepsAll = "-- Keeps everything."

// migrations lists schema/NNN_name.sql in order.
func migrations(schema fs.FS) []Migration {
	files, err := fs.ReadDir(schema, "schema")
	if err != nil {
		panic(err) // embedded: cannot be absent
	}
	list := make([]Migration, len(files))
	for i, f := range files {
		text, err := fs.ReadFile(schema, "schema/"+f.Name())
		if err != nil {
			panic(err)
		}
		number, name, _ := strings.Cut(strings.TrimSuffix(f.Name(), ".sql"), "_")
		version, err := strconv.Atoi(number)
		up, down, found := strings.Cut(string(text), "\n-- down\n")
		if err != nil || version != i+1 || !found {
			panic(fmt.Sprintf("sqlite: schema/%s: want NNN_name.sql in order, with a part \"-- down\"", f.Name()))
		}
		list[i] = Migration{Version: version, Name: name, up: up, down: down, Keeps: strings.HasPrefix(strings.TrimSpace(down), keepsAll)}
	}
	return list
}

// SQL returns the whole schema as a script, for those who apply it by hand.
func SQL() string {
	var b strings.Builder
	b.WriteString("BEGIN IMMEDIATE;\n\n" + versionTable + "\n")
	for _, m := range migrations(schemaFiles) {
		fmt.Fprintf(&b, "%s\nINSERT INTO ebb_schema VALUES (%d, '%s', CAST(unixepoch('subsec') * 1000000 AS INTEGER));\n\n", m.up, m.Version, m.Name)
	}
	b.WriteString("COMMIT;\n")
	return b.String()
}

// Migrate brings the schema of the file at path up or one version down, and
// returns all versions as they stand then. Up creates the file if need be.
func Migrate(ctx context.Context, path, direction string) (_ []Migration, err error) {
	s, err := newStore(path, Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if direction == Up {
		err = s.create()
	} else {
		_, err = os.Stat(s.path)
	}
	if err != nil {
		return nil, fmt.Errorf("sqlite: migrate: %w", err)
	}
	switch direction {
	case Up:
		err = s.upgrade(ctx)
	case Down:
		err = s.downgrade(ctx)
	case Status:
	default:
		err = fmt.Errorf("sqlite: migrate: %q: want up, down or status", direction)
	}
	if err != nil {
		return nil, err
	}
	var steps []Migration
	err = s.read(ctx, "migrate", true, func(c *conn) error {
		steps, err = c.applied(ctx)
		return err
	})
	return steps, err
}

// applied returns the steps with what the file remembers of them. It refuses
// a file that knows steps which this program does not.
func (c *conn) applied(ctx context.Context) ([]Migration, error) {
	steps := migrations(c.store.schema)
	exists, err := c.ask(ctx, "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'ebb_schema'")
	if err != nil || exists[0].int(0) == 0 {
		return steps, err
	}
	rows, err := c.ask(ctx, "SELECT version, applied_at, name FROM ebb_schema ORDER BY version")
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		if n := int(r.int(0)); n > len(steps) {
			return nil, fmt.Errorf("sqlite: %s: it has step %d (%s), this program knows %d; use a newer ebb: %w",
				c.store.path, n, r.text(2), len(steps), store.ErrNewerSchema)
		}
		steps[r.int(0)-1].AppliedAt = r.at(1)
	}
	return steps, nil
}

// ask runs a query that is needed before the schema is there.
func (c *conn) ask(ctx context.Context, query string) ([]row, error) {
	rows, err := c.QueryContext(ctx, query, nil)
	if err != nil {
		return nil, err
	}
	cursor := &cursor{name: "schema", rows: rows}
	var list []row
	for {
		cursor.values = make([]driver.Value, len(rows.Columns()))
		r, err := cursor.next()
		if err != nil || r == nil {
			return list, errors.Join(err, cursor.close())
		}
		list = append(list, r)
	}
}

// script runs statements that return nothing.
func (t *tx) script(text string, args ...any) error {
	_, err := t.rawConn.ExecContext(t.ctx, text, t.named(args))
	return err
}

// upgrade applies what is missing, all of it or nothing.
func (s *Store) upgrade(ctx context.Context) error {
	current := false
	err := s.read(ctx, "open", true, func(c *conn) error {
		steps, err := c.applied(ctx)
		current = err == nil && !steps[len(steps)-1].AppliedAt.IsZero()
		if current {
			err = c.whole(ctx, steps)
		}
		return err
	})
	if err != nil || current {
		return err
	}
	return s.write(ctx, "migrate", time.Time{}, func(t *tx) error {
		steps, err := t.applied(t.ctx)
		if err != nil || !steps[len(steps)-1].AppliedAt.IsZero() { // somebody was faster
			return err
		}
		if old := !steps[0].AppliedAt.IsZero(); old {
			if err := t.sound(); err != nil {
				return err
			}
		}
		if err := t.script(versionTable); err != nil {
			return err
		}
		for _, m := range steps {
			if !m.AppliedAt.IsZero() {
				continue
			}
			if err := t.script(m.up); err != nil {
				return fmt.Errorf("step %d (%s): %w", m.Version, m.Name, err)
			}
			if err := t.script("INSERT INTO ebb_schema VALUES (?, ?, ?)", int64(m.Version), m.Name, t.now.UnixMicro()); err != nil {
				return err
			}
		}
		return nil
	})
}

// whole refuses a file that lacks what its steps made: before the first release
// a step changed in place, and files of those days remember it as applied.
func (c *conn) whole(ctx context.Context, steps []Migration) error {
	rows, err := c.ask(ctx, "SELECT name FROM sqlite_schema WHERE type IN ('table', 'index')")
	if err != nil {
		return err
	}
	there := make(map[string]bool, len(rows))
	for _, r := range rows {
		there[r.text(0)] = true
	}
	for _, m := range steps {
		for line := range strings.Lines(m.up) {
			words := strings.Fields(strings.Replace(line, "UNIQUE ", "", 1))
			if len(words) > 2 && words[0] == "CREATE" && (words[1] == "TABLE" || words[1] == "INDEX") && !there[words[2]] {
				return fmt.Errorf("sqlite: %s: it has step %d (%s), but lacks %s: an ebb from before the first release made it; start with a new file: %w",
					c.store.path, m.Version, m.Name, words[2], store.ErrSchema)
			}
		}
	}
	return nil
}

// sound refuses to migrate a damaged file.
func (t *tx) sound() error {
	rows, err := t.ask(t.ctx, "PRAGMA quick_check(1)")
	if err != nil {
		return err
	}
	if len(rows) != 1 || rows[0].text(0) != "ok" {
		return fmt.Errorf("sqlite: migrate: %s: it is damaged, nothing was changed; restore a backup: %v", t.store.path, rows)
	}
	return nil
}

// downgrade takes the newest applied step back.
func (s *Store) downgrade(ctx context.Context) error {
	return s.write(ctx, "migrate", time.Time{}, func(t *tx) error {
		steps, err := t.applied(t.ctx)
		if err != nil {
			return err
		}
		for i := len(steps) - 1; i >= 0; i-- {
			m := steps[i]
			if m.AppliedAt.IsZero() {
				continue
			}
			if err := t.script(m.down); err != nil {
				return fmt.Errorf("step %d (%s): %w", m.Version, m.Name, err)
			}
			return t.script("DELETE FROM ebb_schema WHERE version = ?", int64(m.Version))
		}
		return nil
	})
}
