package sqlite_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/sqlite"
)

// acks is what a store has acknowledged so far.
type acks struct {
	mu  sync.Mutex
	seq []int64
}

func (a *acks) add(seq int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seq = append(a.seq, seq)
}

func (a *acks) all() []int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]int64{}, a.seq...)
}

// TestBackupUnderLoad: every job that was acknowledged before a backup began
// is in it, though others are written meanwhile; restored, all are there and
// no number is given twice.
func TestBackupUnderLoad(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "ebb.db")
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{Relaxed: true})
	if err != nil {
		t.Fatal(err)
	}
	var acked acks
	ctx, stop := context.WithCancel(t.Context())
	started := make(chan struct{})
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() {
			for n := 0; ctx.Err() == nil && n < 2000; n++ { // enough for the backups; a slow disk makes them few
				added, err := s.Enqueue(context.WithoutCancel(ctx), t0, []job.New{{Kind: "k", Args: make([]byte, 500)}})
				if err != nil {
					t.Error(err)
					return
				}
				acked.add(added[0].Seq)
				if added[0].Seq == 100 {
					close(started)
				}
			}
		})
	}
	<-started
	backups := map[string][]int64{}
	for _, name := range []string{"a.db", "b.db"} {
		before := acked.all()
		made, err := sqlite.Backup(t.Context(), path, filepath.Join(dir, name), false)
		if err != nil {
			t.Fatal(err)
		}
		if made.Jobs < int64(len(before)) || made.Bytes < 1<<16 {
			t.Errorf("%s: %+v, want %d jobs at least", name, made, len(before))
		}
		backups[name] = before
	}
	stop()
	group.Wait()
	last := acked.all()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for name, want := range backups {
		target := filepath.Join(dir, "restored", name)
		made, err := sqlite.Restore(t.Context(), filepath.Join(dir, name), target, false, t0)
		if err != nil {
			t.Fatal(err)
		}
		has(t, target, want, int64(len(last)))
		if made.Replaced != "" {
			t.Errorf("%s: %+v", name, made)
		}
	}
}

// has fails the test unless the database is sound, holds the jobs, and gives
// the next one a number beyond those that were given.
func has(t *testing.T, path string, want []int64, given int64) {
	t.Helper()
	s := openAt(t, path, sqlite.Options{Relaxed: true})
	for _, seq := range want {
		if _, err := s.Job(t.Context(), seq); err != nil {
			t.Fatalf("%s: job %d was acknowledged before the backup: %v", path, seq, err)
		}
	}
	added, err := s.Enqueue(t.Context(), t0, []job.New{{Kind: "k"}})
	if err != nil || added[0].Seq <= given {
		t.Errorf("%s: the next job is %+v, %v; %d were given", path, added, err, given)
	}
	sound(t, path)
}

// TestRestoreOver: a database is replaced on demand alone, never under a
// process, and kept.
func TestRestoreOver(t *testing.T) {
	dir := t.TempDir()
	path, saved := filepath.Join(dir, "ebb.db"), filepath.Join(dir, "saved.db")
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{Relaxed: true})
	if err != nil {
		t.Fatal(err)
	}
	enqueue(t, s, 3)
	if _, err := sqlite.Backup(t.Context(), path, saved, false); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Backup(t.Context(), path, saved, false); !errors.Is(err, sqlite.ErrOccupied) {
		t.Errorf("a backup over another: %v", err)
	}
	if _, err := sqlite.Backup(t.Context(), path, saved, true); err != nil {
		t.Errorf("a backup over another, as told: %v", err)
	}
	enqueue(t, s, 2)
	if _, err := sqlite.Restore(t.Context(), saved, path, false, t0); !errors.Is(err, sqlite.ErrOccupied) {
		t.Errorf("a restore over a database: %v", err)
	}
	if _, err := sqlite.Restore(t.Context(), saved, path, true, t0); !errors.Is(err, sqlite.ErrInUse) {
		t.Errorf("a restore under a process: %v", err)
	}
	enqueue(t, s, 1) // it was left alone
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	made, err := sqlite.Restore(t.Context(), saved, path, true, t0)
	if err != nil || made.Jobs != 3 || made.Replaced != path+".replaced-20260221T090000Z" {
		t.Fatalf("got %+v, %v", made, err)
	}
	has(t, path, []int64{1, 2, 3}, 6)
	has(t, made.Replaced, []int64{1, 2, 3, 4, 5, 6}, 6)
}

func enqueue(t *testing.T, s store.Store, n int) {
	t.Helper()
	for range n {
		if _, err := s.Enqueue(t.Context(), t0, []job.New{{Kind: "k"}}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRestoreRefuses: what is no backup, or half of one, replaces nothing; a
// damaged database can be replaced.
func TestRestoreRefuses(t *testing.T) {
	dir := t.TempDir()
	path, saved := filepath.Join(dir, "ebb.db"), filepath.Join(dir, "saved.db")
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{Relaxed: true})
	if err != nil {
		t.Fatal(err)
	}
	enqueue(t, s, 200)
	if _, err := sqlite.Backup(t.Context(), path, saved, false); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Restore(t.Context(), path, filepath.Join(dir, "other.db"), false, t0); err == nil || !strings.Contains(err.Error(), "not a backup") {
		t.Errorf("a database in use as a backup: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(saved)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"half": whole[:len(whole)/2], "words": []byte(strings.Repeat("no database ", 100)), "empty": nil} {
		from := filepath.Join(dir, name)
		if err := os.WriteFile(from, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := sqlite.Restore(t.Context(), from, path, true, t0); err == nil || !strings.Contains(err.Error(), "nothing was changed") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("damaged ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Restore(t.Context(), saved, path, true, t0); err != nil {
		t.Fatalf("over a damaged database: %v", err)
	}
	has(t, path, []int64{1, 200}, 200)
	left, err := filepath.Glob(filepath.Join(dir, ".*"))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
