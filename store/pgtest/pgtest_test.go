package pgtest_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ebbhq/ebb/store/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Run(m)) }

func scalar(t *testing.T, url, query string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	var value string
	if err := conn.QueryRow(t.Context(), query, pgx.QueryExecModeSimpleProtocol).Scan(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

func TestDatabasesAreApart(t *testing.T) {
	one, two := pgtest.Database(t), pgtest.Database(t)
	scalar(t, one, "SELECT 'made'; CREATE TABLE here (n int)")
	if got := scalar(t, two, "SELECT (to_regclass('here') IS NULL)::text"); got != "true" {
		t.Errorf("a table of one database is absent in another: %s, want true", got)
	}
	if got := scalar(t, one, "SHOW fsync"); got != "on" {
		t.Errorf("fsync is %s, want on", got)
	}
}

func TestPreparedIsPreparedOnce(t *testing.T) {
	runs := 0
	prepare := func(ctx context.Context, url string) error {
		runs++
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return err
		}
		_, err = conn.Exec(ctx, "CREATE TABLE made (n int); INSERT INTO made VALUES (7)")
		return errors.Join(err, conn.Close(ctx))
	}
	for range 2 {
		if got := scalar(t, pgtest.Prepared(t, "seven", prepare), "SELECT n::text FROM made"); got != "7" {
			t.Errorf("a copy of the template holds %s, want 7", got)
		}
	}
	if runs != 1 {
		t.Errorf("prepared %d times, want once", runs)
	}
}

func TestRestartKeepsCommitted(t *testing.T) {
	s := pgtest.Start(t, pgtest.Config{Settings: []string{"work_mem=5MB"}})
	url := s.URL("postgres")
	scalar(t, url, "SELECT ''; CREATE TABLE kept (n int); INSERT INTO kept VALUES (1)")
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if conn, err := pgx.Connect(t.Context(), url); err == nil {
		_ = conn.Close(t.Context())
		t.Fatal("a stopped server answered")
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	if got := scalar(t, url, "SELECT count(*)::text FROM kept"); got != "1" {
		t.Errorf("rows after the restart: %s, want 1", got)
	}
	if got := scalar(t, url, "SHOW work_mem"); got != "5MB" {
		t.Errorf("work_mem is %s, want 5MB", got)
	}
}

func TestMissingBinariesSayWhatToInstall(t *testing.T) {
	t.Setenv("EBB_PG_BIN", "")
	t.Setenv("PATH", t.TempDir())
	dir, err := pgtest.Binaries(t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "scripts/need postgresql-15") {
		t.Errorf("binaries of an empty machine: %q, %v; want an error that names scripts/need postgresql-15", dir, err)
	}
}

func TestWhatADeadBinaryLeftIsRemoved(t *testing.T) {
	dead := exec.CommandContext(t.Context(), "true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", t.TempDir())
	stale := filepath.Join(os.TempDir(), fmt.Sprintf("ebb-pg-%d-1", dead.ProcessState.Pid()))
	living := filepath.Join(os.TempDir(), fmt.Sprintf("ebb-pg-%d-1", os.Getppid()))
	for _, dir := range []string{stale, living} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	// One whose process is not seen from here, as in another container.
	elsewhere := filepath.Join(os.TempDir(), fmt.Sprintf("ebb-pg-%d-2", dead.ProcessState.Pid()))
	if err := os.Mkdir(elsewhere, 0o700); err != nil {
		t.Fatal(err)
	}
	holder, err := os.Open(elsewhere)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = holder.Close() }()
	if err := syscall.Flock(int(holder.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	pgtest.RemoveStale(os.TempDir())
	if _, err := os.Stat(elsewhere); err != nil {
		t.Errorf("what a process has locked is gone: %v", err)
	}
	if _, err := os.Stat(stale); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what a dead process left is still there: %v", err)
	}
	if _, err := os.Stat(living); err != nil {
		t.Errorf("what belongs to a living process is gone: %v", err)
	}
}
