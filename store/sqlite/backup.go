package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	driver "modernc.org/sqlite"

	"github.com/ebbhq/ebb/store"
)

var (
	// ErrOccupied is returned where a copy would replace something and was not
	// told to.
	ErrOccupied = errors.New("there is something already")
	// ErrInUse is returned where a database that is to be replaced is open in
	// some process.
	ErrInUse = errors.New("a process has it open")
)

// Copy is a copy of a database that was made and found sound.
type Copy struct {
	Path  string
	Bytes int64
	Jobs  int64 // live and ended
	// Replaced is where a database that a restore replaced is kept now; empty
	// = there was none.
	Replaced string
}

// Backup copies the database at path to the file to, while others write to it:
// it is as it was at one instant, and everything that was acknowledged before
// the call is in it. It is checked before it gets its name. ErrOccupied if
// there is such a file and it is not to be replaced.
func Backup(ctx context.Context, path, to string, replace bool) (_ Copy, err error) {
	if path, err = filePath(path); err != nil {
		return Copy{}, err
	}
	if _, err := os.Stat(path); err != nil {
		return Copy{}, fmt.Errorf("sqlite: backup: %w", err)
	}
	if err := vacant(to, replace); err != nil {
		return Copy{}, fmt.Errorf("sqlite: backup: %w", err)
	}
	if to, err = filepath.Abs(to); err != nil {
		return Copy{}, fmt.Errorf("sqlite: backup: %w", err)
	}
	draft, err := newDraft(to)
	if err != nil {
		return Copy{}, fmt.Errorf("sqlite: backup: %w", err)
	}
	defer func() { _ = os.Remove(draft) }() // its other name stays
	err = with(ctx, path, "busy_timeout(60000)", func(c *sql.Conn) error {
		_, err := c.ExecContext(ctx, "VACUUM INTO ?", draft)
		return err
	})
	if err != nil {
		return Copy{}, (&Store{path: path}).explain("backup", err)
	}
	made := Copy{Path: to}
	if made.Jobs, err = verify(ctx, draft); err != nil {
		return Copy{}, fmt.Errorf("sqlite: backup: %s: the copy is not sound, so it was not kept: %w", path, err)
	}
	if made.Bytes, err = publish(draft, to, replace); err != nil {
		return Copy{}, fmt.Errorf("sqlite: backup: %w", err)
	}
	return made, nil
}

// vacant refuses a name that is taken.
func vacant(path string, replace bool) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s: is not a file; name one", path)
	case !replace:
		return fmt.Errorf("%s: %w", path, ErrOccupied)
	}
	return nil
}

// newDraft makes an empty file beside path that only its owner reads.
func newDraft(path string) (string, error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return "", err
	}
	return f.Name(), f.Close()
}

// with opens the file by itself, with nothing of a store's, and closes it.
func with(ctx context.Context, path, pragma string, do func(*sql.Conn) error) (err error) {
	query := url.Values{"_pragma": {pragma}, "_error_rc": {"1"}}
	connector, err := driver.NewConnector((&url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: query.Encode()}).String())
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer func() { err = errors.Join(err, db.Close()) }()
	c, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	return do(c)
}

// verify reads all of a copy and counts its jobs.
func verify(ctx context.Context, path string) (jobs int64, err error) {
	err = with(ctx, path, "query_only(1)", func(c *sql.Conn) error {
		var said string
		if err := c.QueryRowContext(ctx, "PRAGMA integrity_check(1)").Scan(&said); err != nil {
			return err
		}
		if said != "ok" {
			return fmt.Errorf("integrity check: %s", said)
		}
		var step int
		if err := c.QueryRowContext(ctx, "SELECT max(version) FROM ebb_schema").Scan(&step); err != nil {
			return fmt.Errorf("it is not a database of ebb: %w", err)
		}
		if known := len(migrations(schemaFiles)); step > known {
			return fmt.Errorf("its schema has step %d, this program knows %d; use a newer ebb: %w", step, known, store.ErrNewerSchema)
		}
		return c.QueryRowContext(ctx, "SELECT coalesce(sum(n), 0) FROM ebb_tally").Scan(&jobs)
	})
	return jobs, err
}

// publish gives a draft its name once it is on the disk.
func publish(draft, to string, replace bool) (size int64, err error) {
	if size, err = synced(draft); err != nil {
		return 0, err
	}
	if replace {
		err = os.Rename(draft, to)
	} else if err = os.Link(draft, to); errors.Is(err, fs.ErrExist) {
		err = fmt.Errorf("%s: %w", to, ErrOccupied)
	}
	if err != nil {
		return 0, err
	}
	_, err = synced(filepath.Dir(to))
	return size, err
}

// synced waits until a file or directory is on the disk.
func synced(path string) (size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), f.Sync()
}
