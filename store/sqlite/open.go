package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	driver "modernc.org/sqlite"
)

// filePath makes the path absolute, so that a later chdir changes nothing.
func filePath(path string) (string, error) {
	if path == "" || path == ":memory:" || strings.HasPrefix(path, "file:") {
		return "", fmt.Errorf("sqlite: open: %q: name a file; for jobs in memory there is store/memory", path)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("sqlite: open: %w", err)
	}
	return path, nil
}

// creating lets one file be created at a time: closing a file drops every
// lock that the process holds on it, so nobody else may have opened it yet.
var creating sync.Mutex

// create makes sure that there is a file that only its owner reads.
func (s *Store) create() error {
	creating.Lock()
	defer creating.Unlock()
	info, err := os.Stat(s.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s.createFile()
	case err != nil:
		return fmt.Errorf("sqlite: open: %w", err)
	case info.IsDir():
		return fmt.Errorf("sqlite: open: %s is a directory; name a file in it", s.path)
	case info.Mode().Perm()&0o222 == 0:
		return &Error{What: "open", Path: s.path, code: codeReadOnly, Err: fmt.Errorf("its mode is %s: %w", info.Mode(), fs.ErrPermission)}
	}
	return nil
}

func (s *Store) createFile() error {
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return fmt.Errorf("sqlite: open: %s: its directory cannot be created: %w", s.path, err)
	}
	file, err := os.OpenFile(s.path, os.O_CREATE|os.O_RDWR|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil // another process was faster
	}
	if err != nil {
		return fmt.Errorf("sqlite: open: %s: it cannot be created: %w", s.path, err)
	}
	return file.Close()
}

// role is what a connection is for.
type role int

const (
	roleWriter role = iota
	roleReader
	roleUser
)

// dsn says how a connection of the role is opened.
func (s *Store) dsn(r role) string {
	synchronous := "full"
	if s.options.Relaxed {
		synchronous = "normal"
	}
	// The writer polls for its lock by itself; see acquire.
	busy := s.options.Patience
	if r == roleWriter {
		busy = 0
	}
	pragmas := []string{
		fmt.Sprintf("busy_timeout(%d)", busy.Milliseconds()),
		"journal_mode(wal)", "synchronous(" + synchronous + ")", "temp_store(memory)", "wal_autocheckpoint(4000)",
	}
	switch r {
	case roleWriter:
		pragmas = append(pragmas, "cache_size(-16384)")
	case roleReader:
		pragmas = append(pragmas, "query_only(1)")
	case roleUser:
		pragmas = append(pragmas, "foreign_keys(1)")
	}
	query := url.Values{"_pragma": pragmas, "_error_rc": {"1"}}
	if r != roleReader {
		query.Set("_txlock", "immediate")
	}
	return (&url.URL{Scheme: "file", OmitHost: true, Path: s.path, RawQuery: query.Encode()}).String()
}

// connect opens one connection, waiting for others to let go of the file.
func (s *Store) connect(ctx context.Context, r role) (*conn, error) {
	connector, err := driver.NewConnector(s.dsn(r))
	if err != nil {
		return nil, fmt.Errorf("sqlite: open: %s: %w", s.path, err)
	}
	var opened *conn
	err = s.patiently(ctx, func() error {
		raw, err := connector.Connect(ctx)
		if err != nil {
			return err
		}
		full, ok := raw.(rawConn)
		if !ok {
			return errors.Join(fmt.Errorf("sqlite: the driver's %T lacks contexts", raw), raw.Close())
		}
		opened = &conn{rawConn: full, store: s, prepared: map[string]rawStmt{}}
		return nil
	})
	return opened, s.explain("open", err)
}

// Waits between two looks at a lock that another process holds.
const (
	firstWait = 100 * time.Microsecond
	maxWait   = time.Millisecond
)

// patiently repeats f while others are in the way: until it works, the
// context ends or the patience does.
func (s *Store) patiently(ctx context.Context, f func() error) error {
	began, wait := time.Now(), firstWait
	for {
		err := f()
		if err == nil || !isBusy(err) || time.Since(began) > s.options.Patience {
			return err
		}
		if err := pause(ctx, wait); err != nil {
			return err
		}
		wait = min(2*wait, maxWait)
	}
}

// pause waits, unless the context ends first.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
