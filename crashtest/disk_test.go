package crashtest_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/ebbhq/ebb/crashtest"
	"github.com/ebbhq/ebb/failure"
)

// diskSize is the file system's, half of it ballast: SQLite needs 16 MiB for
// its journal alone.
const diskSize = 64 << 20

// smallDisk returns a directory on a file system of diskSize.
func smallDisk(t *testing.T) string {
	t.Helper()
	if disk := os.Getenv("EBB_SMALL_DISK"); disk != "" {
		dir, err := os.MkdirTemp(disk, "ebb")
		if err != nil {
			t.Fatalf("EBB_SMALL_DISK: %v", err)
		}
		t.Cleanup(func() {
			if err := os.RemoveAll(dir); err != nil {
				t.Error(err)
			}
		})
		return dir
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", diskSize)); err != nil {
		t.Fatalf("a file system of 64 MiB cannot be mounted: %v; run this as root, or name a directory on an empty one in EBB_SMALL_DISK", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill writes a file until nothing more fits.
func fill(t *testing.T, path string) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	block := make([]byte, 4096)
	for err == nil {
		_, err = file.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("filling the disk ended with %v, want %v", err, syscall.ENOSPC)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}

// The disk of SQLite's file is full: an enqueue is refused in clear words,
// what was acknowledged stays, and with space everything goes on.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t)
	if err := os.WriteFile(filepath.Join(dir, "ballast"), make([]byte, diskSize/2), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newStage(t, "sqlite:"+filepath.Join(dir, "ebb.db"), short)
	s.workers(2)
	var full error
	cargo := make([]byte, 16<<10)
	for range diskSize / len(cargo) {
		if _, full = s.tryEnqueue(s.orders(20, crashtest.Order{Kind: crashtest.Steps, Millis: 3, Cargo: cargo})); full != nil {
			break
		}
	}
	var classified interface{ Code() int }
	switch {
	case full == nil:
		t.Fatalf("%d jobs fit on a disk of 64 MiB", len(s.acked))
	case failure.Classify(full).Class != failure.DiskFull || !errors.As(full, &classified):
		t.Fatalf("the enqueue was refused with %v, class %v; want %v", full, failure.Classify(full).Class, failure.DiskFull)
	}
	t.Logf("after %d jobs: %v", len(s.acked), full)
	fill(t, filepath.Join(dir, "filler"))
	s.until("a worker meets the full disk", func() bool { return len(crashtest.Errors(s.fleet.Lives)) > 0 })
	for _, name := range []string{"filler", "ballast"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	s.enqueue(s.orders(10, crashtest.Order{Kind: crashtest.Quick}))
	s.finish()
	s.noErrors("disk is full", slow)
}
