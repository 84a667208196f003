package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// laterSchema is this schema with one more version.
func laterSchema(t *testing.T, up string) fstest.MapFS {
	t.Helper()
	first, err := schemaFiles.ReadFile("schema/001_queue.sql")
	if err != nil {
		t.Fatal(err)
	}
	return fstest.MapFS{
		"schema/001_queue.sql": {Data: first},
		"schema/002_later.sql": {Data: []byte("-- up\n" + up + "\n-- down\nDROP TABLE later;\n")},
	}
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
	if _, err := openLater(t, path, "CREATE TABLE later (n INTEGER);\nINSERT INTO nowhere VALUES (1);"); err == nil || !strings.Contains(err.Error(), "step 2 (later)") {
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
