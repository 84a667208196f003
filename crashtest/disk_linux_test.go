package crashtest_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/ebbhq/ebb/crashtest"
	"github.com/ebbhq/ebb/disktest"
	"github.com/ebbhq/ebb/failure"
)

// diskSize is the file system's, half of it ballast: SQLite needs 16 MiB for
// its journal alone.
const diskSize = 64 << 20

// The disk of SQLite's file is full: an enqueue is refused in clear words,
// what was acknowledged stays, and with space everything goes on.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	disktest.Run(t, diskSize, diskFull)
}

func diskFull(t *testing.T, dir string) {
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
	s.must(disktest.Fill(filepath.Join(dir, "filler")))
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
