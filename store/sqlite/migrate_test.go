package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// laterSchema is this schema with one more version.
func laterSchema(t *testing.T, up string) fstest.MapFS {
	t.Helper()
	later := fstest.MapFS{"schema/004_later.sql": {Data: []byte("-- up\n" + up + "\n-- down\nDROP TABLE later;\n")}}
	for _, name := range []string{"schema/001_queue.sql", "schema/002_lane_numbers.sql", "schema/003_process_identity.sql"} {
		text, err := schemaFiles.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		later[name] = &fstest.MapFile{Data: text}
	}
	return later
}

// older writes a file of today's schema that holds jobs.
func older(t *testing.T) string {
	t.Helper()
	s := filled(t, 2000)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return s.path
}

// openLater opens the file with a program that knows one more version.
func openLater(t *testing.T, path, up string) (*Store, error) {
	t.Helper()
	s, err := newStore(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	s.schema = laterSchema(t, up)
	err = s.prepare(t.Context())
	return s, err
}

func TestOlderSchemaIsMigratedWhenOpened(t *testing.T) {
	path := older(t)
	s, err := openLater(t, path, "CREATE TABLE later (n INTEGER);")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.DB().ExecContext(t.Context(), "INSERT INTO later VALUES (1)"); err != nil {
		t.Error(err)
	}
	if list, err := s.List(t.Context(), store.Filter{State: job.Queued}, store.Page{Limit: 3}); err != nil || len(list) != 3 {
		t.Errorf("after the migration: %d jobs, %v", len(list), err)
	}
	if _, err := Open(t.Context(), path, Options{}); !errors.Is(err, store.ErrSchema) {
		t.Errorf("the older program got %v, want ErrSchema", err)
	}
	if err := s.downgrade(t.Context()); err != nil {
		t.Fatal(err)
	}
	again, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatalf("after down: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

func TestFailedMigrationChangesNothing(t *testing.T) {
	path := older(t)
	if _, err := openLater(t, path, "CREATE TABLE later (n INTEGER);\nINSERT INTO nowhere VALUES (1);"); err == nil || !strings.Contains(err.Error(), "step 4 (later)") {
		t.Fatalf("got %v", err)
	}
	s, err := openLater(t, path, "CREATE TABLE later (n INTEGER);")
	if err != nil {
		t.Fatalf("half of it was left behind: %v", err)
	}
	if _, err := s.Queues(t.Context()); err != nil {
		t.Error(err)
	}
}

// Before the first release step 1 changed in place.
func TestFileFromBeforeTheReleaseIsRefused(t *testing.T) {
	for _, lost := range []string{"TABLE ebb_record", "INDEX ebb_key_target"} {
		path := older(t)
		s, err := Open(t.Context(), path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.DB().ExecContext(t.Context(), "DROP "+lost); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		_, name, _ := strings.Cut(lost, " ")
		if _, err := Open(t.Context(), path, Options{}); !errors.Is(err, store.ErrSchema) || !strings.Contains(err.Error(), "it has step 1 (queue), but lacks "+name) {
			t.Errorf("without %s: %v, want ErrSchema that says so", name, err)
		}
	}
}

func TestDamagedFileIsNotMigrated(t *testing.T) {
	path := older(t)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := len(text) - 9*4096; i < len(text)-4*4096; i++ {
		text[i] = 0xee
	}
	damaged := filepath.Join(t.TempDir(), "ebb.db")
	if err := os.WriteFile(damaged, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openLater(t, damaged, "CREATE TABLE later (n INTEGER);"); err == nil || !strings.Contains(err.Error(), "restore a backup") {
		t.Errorf("got %v, want it refused", err)
	}
}

// What waits in lanes waits there in a file of the first schema, too, and is
// claimed in the same order after it has come back.
func TestLaneNumbersKeepWhatWaits(t *testing.T) {
	path := older(t)
	const byNumber = "SELECT l.target, l.queue, l.kind, l.retry, l.look_at, w.priority, w.due_at, w.seq, w.deadline_at FROM ebb_lane AS l JOIN ebb_wait AS w ON w.lane = l.id ORDER BY w.seq"
	const byName = "SELECT l.target, l.queue, l.kind, l.retry, l.look_at, w.priority, w.due_at, w.seq, w.deadline_at FROM ebb_lane AS l JOIN ebb_wait AS w USING (target, queue, kind, retry) ORDER BY w.seq"
	now := lanesOf(t, path, byNumber)
	if len(now) < 20 {
		t.Fatalf("%d jobs wait in lanes: too few to show anything", len(now))
	}
	for range 2 {
		for range 2 { // to the first schema
			if _, err := Migrate(t.Context(), path, Down); err != nil {
				t.Fatal(err)
			}
		}
		if before := lanesOf(t, path, byName); !slices.Equal(before, now) {
			t.Fatalf("down: got %d rows %q\nwant %d %q", len(before), before, len(now), now)
		}
		if _, err := Migrate(t.Context(), path, Up); err != nil {
			t.Fatal(err)
		}
		if after := lanesOf(t, path, byNumber); !slices.Equal(after, now) {
			t.Fatalf("up: got %d rows %q\nwant %d %q", len(after), after, len(now), now)
		}
	}
}

// lanesOf reads the rows of a query, each as one text, without a store.
func lanesOf(t *testing.T, path, query string) (list []string) {
	t.Helper()
	s, err := newStore(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = s.read(t.Context(), "lanes", true, func(c *conn) error {
		rows, err := c.ask(t.Context(), query)
		for _, r := range rows {
			list = append(list, fmt.Sprint(r))
		}
		return err
	})
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	return list
}
