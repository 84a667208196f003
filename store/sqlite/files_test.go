package sqlite_test

import (
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/sqlite"
)

// direct opens the file as any other program would.
func direct(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// sound fails the test unless SQLite finds nothing wrong with the file, and
// the tables agree with each other.
func sound(t *testing.T, path string) {
	t.Helper()
	db := direct(t, path)
	for query, want := range map[string]string{
		"PRAGMA integrity_check": "ok",
		// A live job waits or runs, and never both.
		"SELECT count(*) FROM ebb_job WHERE (seq IN (SELECT seq FROM ebb_ready)) = (seq IN (SELECT seq FROM ebb_lease))":            "0",
		"SELECT (SELECT count(*) FROM ebb_job) - (SELECT count(*) FROM ebb_ready) - (SELECT count(*) FROM ebb_lease)":               "0",
		"SELECT count(*) FROM ebb_ready AS r LEFT JOIN ebb_job AS j USING (seq, queue, kind, priority, due_at) WHERE j.seq IS NULL": "0",
		// A job stands in one place.
		"SELECT count(*) - count(DISTINCT seq) FROM ebb_all_view": "0",
		// What is counted is there.
		`SELECT count(*) FROM (SELECT queue, state, count(*) AS n FROM ebb_all_view GROUP BY queue, state) AS truth
		   FULL JOIN (SELECT * FROM ebb_tally WHERE n <> 0) AS tally USING (queue, state, n) WHERE truth.n IS NULL OR tally.n IS NULL`: "0",
	} {
		var got string
		if err := db.QueryRowContext(t.Context(), query).Scan(&got); err != nil {
			t.Errorf("%s: %v", query, err)
		} else if got != want {
			t.Errorf("%s: got %s, want %s", query, got, want)
		}
	}
}

func TestCreatesFileForItsOwnerAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "deep")
	path := filepath.Join(dir, "my ebb?#%41.db") // a path, not a URL
	s := openAt(t, path, sqlite.Options{})
	if _, err := s.Enqueue(t.Context(), t0, []job.New{{Kind: "k"}}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fs.FileMode{dir: 0o700, path: 0o600, path + "-wal": 0o600, path + "-shm": 0o600, path + "-wake": 0o600} {
		info, err := os.Stat(name)
		if err != nil {
			t.Errorf("%v", err)
		} else if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", name, got, want)
		}
	}
}

func TestRefusesWhatIsNoDatabase(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode fs.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	garbage := strings.Repeat("this is a letter to a friend\n", 1000)
	for _, c := range []struct{ name, path, want string }{
		{"garbage", write("letter.txt", garbage, 0o600), "is not an SQLite database"},
		{"short garbage", write("short.txt", "hello", 0o600), "is not an SQLite database"},
		{"a directory", dir, "is a directory"},
		{"below a file", filepath.Join(write("file", "x", 0o600), "ebb.db"), "not a directory"},
		{"read-only", write("ro.db", "", 0o400), "cannot be written"},
		{"no path", "", "name a file"},
		{"memory", ":memory:", "store/memory"},
		{"a URL", "file:x.db", "name a file"},
	} {
		_, err := sqlite.Open(t.Context(), c.path, sqlite.Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error that says %q", c.name, err, c.want)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "letter.txt")); err != nil || string(text) != garbage {
		t.Errorf("the letter was changed: %v", err)
	}
}

func TestReadOnlyFileIsALocalFault(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ro.db")
	if err := os.WriteFile(path, nil, 0o400); err != nil {
		t.Fatal(err)
	}
	_, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if got := failure.Classify(err).Class; got != failure.LocalIO {
		t.Errorf("%v is of class %s, want %s", err, got, failure.LocalIO)
	}
}

func TestMigrateUpAndDown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ebb.db")
	if _, err := sqlite.Migrate(t.Context(), path, sqlite.Status); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("status of no file: %v", err)
	}
	db := direct(t, path)
	own := "CREATE TABLE customer (id INTEGER PRIMARY KEY)" // a user's own table stays
	if _, err := db.ExecContext(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	before := schemaOf(t, db)
	for range 2 {
		for _, step := range []struct {
			direction string
			applied   int
		}{{sqlite.Status, 0}, {sqlite.Up, 3}, {sqlite.Up, 3}, {sqlite.Status, 3}, {sqlite.Down, 2}, {sqlite.Down, 1}, {sqlite.Down, 0}, {sqlite.Down, 0}} {
			steps, err := sqlite.Migrate(t.Context(), path, step.direction)
			if err != nil {
				t.Fatalf("%s: %v", step.direction, err)
			}
			applied, names := 0, ""
			for _, m := range steps {
				names += m.Name + " "
				if !m.AppliedAt.IsZero() {
					applied++
				}
			}
			if names != "queue lane_numbers process_identity " || applied != step.applied {
				t.Fatalf("%s: %d of %sapplied, want %d", step.direction, applied, names, step.applied)
			}
		}
	}
	if after := strings.ReplaceAll(schemaOf(t, db), ledgerOf(t, db), ""); after != before {
		t.Errorf("down left behind:\n%s\nwant:\n%s", after, before)
	}
	if _, err := sqlite.Migrate(t.Context(), path, "sideways"); err == nil {
		t.Error("went sideways")
	}
}

// schemaOf lists everything in the file by its SQL.
func schemaOf(t *testing.T, db *sql.DB) string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT coalesce(sql, name) FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' ORDER BY name")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var all strings.Builder
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			t.Fatal(err)
		}
		all.WriteString(text + "\n")
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// ledgerOf is the table that remembers migrations.
func ledgerOf(t *testing.T, db *sql.DB) string {
	t.Helper()
	var text string
	if err := db.QueryRowContext(t.Context(), "SELECT sql FROM sqlite_schema WHERE name = 'ebb_schema'").Scan(&text); err != nil {
		t.Fatal(err)
	}
	return text + "\n"
}

func TestPrintedSQLIsTheSchema(t *testing.T) {
	byHand := filepath.Join(t.TempDir(), "hand.db")
	db := direct(t, byHand)
	if _, err := db.ExecContext(t.Context(), sqlite.SQL()); err != nil {
		t.Fatal(err)
	}
	migrated := filepath.Join(t.TempDir(), "ebb.db")
	if _, err := sqlite.Migrate(t.Context(), migrated, sqlite.Up); err != nil {
		t.Fatal(err)
	}
	if hand, ours := schemaOf(t, db), schemaOf(t, direct(t, migrated)); hand != ours {
		t.Errorf("by hand:\n%s\nmigrated:\n%s", hand, ours)
	}
	openAt(t, byHand, sqlite.Options{}) // and Open agrees
}

func TestNewerSchemaIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ebb.db")
	if err := openAt(t, path, sqlite.Options{}).Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := direct(t, path).ExecContext(t.Context(), "INSERT INTO ebb_schema VALUES (99, 'later', 0)"); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Open(t.Context(), path, sqlite.Options{}); !errors.Is(err, store.ErrSchema) || !strings.Contains(err.Error(), "newer") {
		t.Errorf("got %v, want ErrSchema", err)
	}
}

func TestDamagedFileIsNamedSo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ebb.db")
	if err := openAt(t, path, sqlite.Options{}).Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteAt([]byte(strings.Repeat("damage", 3000)), 4096); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err == nil {
		_, err = s.Enqueue(t.Context(), t0, []job.New{{Kind: "k"}})
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if err == nil || !strings.Contains(err.Error(), "SQLITE_CORRUPT") {
		t.Errorf("got %v, want SQLITE_CORRUPT", err)
	}
}
