package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// restoreGap is how far a restore moves the numbers of jobs and processes: a
// number that was given after the backup was made is not given again.
const restoreGap = 1_000_000

// Restore makes a backup the database at path. What is there is replaced only
// if told so (ErrOccupied) and no process has it open (ErrInUse), and is kept
// under a name with now in it.
func Restore(ctx context.Context, from, path string, replace bool, now time.Time) (Copy, error) {
	path, err := filePath(path)
	if err != nil {
		return Copy{}, err
	}
	made, err := restore(ctx, from, path, replace, now)
	if err != nil {
		return Copy{}, fmt.Errorf("sqlite: restore: %w", err)
	}
	return made, nil
}

func restore(ctx context.Context, from, path string, replace bool, now time.Time) (_ Copy, err error) {
	if info, err := os.Stat(from + "-wal"); err == nil && info.Size() > 0 {
		return Copy{}, fmt.Errorf("%s: %s-wal stands beside it: it is a database in use, not a backup; back it up first", from, filepath.Base(from))
	}
	for _, part := range append([]string{""}, companions...) {
		if err := vacant(path+part, replace); err != nil {
			return Copy{}, err
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return Copy{}, err
	}
	draft, err := newDraft(path)
	if err != nil {
		return Copy{}, err
	}
	defer func() { _ = os.Remove(draft) }() // its other name stays
	if err := duplicate(from, draft); err != nil {
		return Copy{}, err
	}
	made := Copy{Path: path}
	if made.Jobs, err = verify(ctx, draft); err != nil {
		return Copy{}, fmt.Errorf("%s: it cannot be used, nothing was changed: %w", from, err)
	}
	if err := renumber(ctx, draft); err != nil {
		return Copy{}, err
	}
	if made.Replaced, err = setAside(ctx, path, now); err != nil {
		return Copy{}, err
	}
	made.Bytes, err = publish(draft, path, false)
	return made, err
}

// companions are the files of SQLite that it would take for the copy's own.
var companions = []string{"-wal", "-shm", "-journal"}

// duplicate copies the bytes of a file into another.
func duplicate(from, to string) (err error) {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close())
}

// renumber leaves a gap before the next number of everything that is numbered.
func renumber(ctx context.Context, path string) error {
	return with(ctx, path, "journal_mode(delete)", func(c *sql.Conn) error {
		for _, table := range []string{"ebb_job", "ebb_process", "ebb_redrive", "ebb_audit"} {
			changed, err := c.ExecContext(ctx, "UPDATE sqlite_sequence SET seq = seq + ? WHERE name = ?", restoreGap, table)
			if err != nil {
				return err
			}
			if n, err := changed.RowsAffected(); err != nil || n > 0 {
				if err != nil {
					return err
				}
				continue
			}
			if _, err := c.ExecContext(ctx, "INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", table, restoreGap); err != nil {
				return err
			}
		}
		return nil
	})
}

// setAside gives the database at path another name, if there is one and no
// process has it open.
func setAside(ctx context.Context, path string, now time.Time) (string, error) {
	aside := path + ".replaced-" + now.UTC().Format("20060102T150405Z")
	if err := vacant(aside, false); err != nil {
		return "", err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		aside = ""
	} else if err := unused(ctx, path); err != nil {
		return "", err
	} else if err := os.Rename(path, aside); err != nil {
		return "", err
	}
	for _, part := range companions { // of a file that has gone, or was damaged
		err := os.Remove(path + part)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return aside, nil
}

// unused refuses a database that a process has open: to leave write-ahead
// logging, SQLite must be alone with the file. What is no database is in no
// use.
func unused(ctx context.Context, path string) error {
	err := with(ctx, path, "busy_timeout(0)", func(c *sql.Conn) error {
		var mode string
		if err := c.QueryRowContext(ctx, "PRAGMA journal_mode = delete").Scan(&mode); err != nil {
			return err
		}
		if mode != "delete" {
			return fmt.Errorf("%s: %w", path, ErrInUse)
		}
		return nil
	})
	switch code := codeOf(err); {
	case isBusy(err):
		return fmt.Errorf("%s: %w", path, ErrInUse)
	case code == codeNotADB || code == codeCorrupt:
		return nil
	}
	return err
}
