package sqlite

import (
	"errors"
	"fmt"

	driver "modernc.org/sqlite"
)

// Primary result codes of SQLite that something follows from.
const (
	codePerm       = 3
	codeBusy       = 5
	codeLocked     = 6
	codeReadOnly   = 8
	codeIO         = 10
	codeCorrupt    = 11
	codeFull       = 13
	codeCantOpen   = 14
	codeProtocol   = 15
	codeConstraint = 19
	codeNotADB     = 26
)

// codes says what a code means to whoever reads the error.
var codes = map[int]struct{ name, words string }{
	codePerm:       {"SQLITE_PERM", "the file's permissions forbid it"},
	codeBusy:       {"SQLITE_BUSY", "another transaction held the write lock for too long; keep transactions short"},
	codeLocked:     {"SQLITE_LOCKED", "another transaction held a table for too long; keep transactions short"},
	codeReadOnly:   {"SQLITE_READONLY", "the file or its directory cannot be written; Ebb needs both"},
	codeIO:         {"SQLITE_IOERR", "the file system failed"},
	codeCorrupt:    {"SQLITE_CORRUPT", "the file is damaged; restore a backup"},
	codeFull:       {"SQLITE_FULL", "the disk is full; nothing was changed, free some space"},
	codeCantOpen:   {"SQLITE_CANTOPEN", "the file cannot be opened"},
	codeProtocol:   {"SQLITE_PROTOCOL", "the file's locks do not work; is it on a network file system?"},
	codeConstraint: {"SQLITE_CONSTRAINT", "a rule of the schema was broken; this is a bug, please report it"},
	codeNotADB:     {"SQLITE_NOTADB", "the file is not an SQLite database; name another"},
}

// Error is a failure of SQLite itself. failure.Classify knows its code: a
// full disk is failure.DiskFull.
type Error struct {
	What string // such as "enqueue"
	Path string
	code int // primary
	Err  error
}

func (e *Error) Error() string {
	if c, ok := codes[e.code]; ok {
		return fmt.Sprintf("sqlite: %s: %s: %s (%s): %v", e.What, e.Path, c.words, c.name, e.Err)
	}
	return fmt.Sprintf("sqlite: %s: %s: %v (SQLITE_%d)", e.What, e.Path, e.Err, e.code)
}

// Code returns SQLite's primary result code.
func (e *Error) Code() int { return e.code }

func (e *Error) Unwrap() error { return e.Err }

// codeOf returns the primary code of a failure of SQLite, 0 for others.
func codeOf(err error) int {
	var e *driver.Error
	if errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}

// isBusy reports whether waiting helps.
func isBusy(err error) bool {
	code := codeOf(err)
	return code == codeBusy || code == codeLocked || code == codeProtocol
}

// explain gives a failure of SQLite its place and its words; other errors
// pass as they are.
func (s *Store) explain(what string, err error) error {
	var known *Error
	if code := codeOf(err); code != 0 && !errors.As(err, &known) {
		return &Error{What: what, Path: s.path, code: code, Err: err}
	}
	return err
}
