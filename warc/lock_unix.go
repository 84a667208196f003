//go:build unix

package warc

import (
	"os"

	"golang.org/x/sys/unix"
)

// lock takes the file for this process, so that another that recovers the
// directory leaves it alone. The lock ends with the process.
func lock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }
