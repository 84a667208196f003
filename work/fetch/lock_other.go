//go:build !unix

package fetch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// lockFile takes a lock by opening a file that nobody else may have open.
func lockFile(path string) (*os.File, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, ErrBusy // an open file cannot be removed here
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(f, "%d\n", os.Getpid())
	return f, err
}
