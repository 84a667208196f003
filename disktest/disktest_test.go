//go:build linux

package disktest_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/ebbhq/ebb/disktest"
)

func TestDiskIsSmallAndFills(t *testing.T) {
	const size = 1 << 20
	disktest.Run(t, size, func(t *testing.T, dir string) {
		filler := filepath.Join(dir, "filler")
		if err := disktest.Fill(filler); err != nil {
			t.Fatal(err)
		}
		entry, err := os.Stat(filler)
		if err != nil || entry.Size() > size || entry.Size() < size/2 {
			t.Fatalf("%v, %v: want most of %d bytes", entry, err, size)
		}
		more := filepath.Join(dir, "more")
		if err := os.WriteFile(more, make([]byte, 8192), 0o600); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%v, want %v", err, syscall.ENOSPC)
		}
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(more, make([]byte, 8192), 0o600); err != nil {
			t.Error(err)
		}
	})
}
