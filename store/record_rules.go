package store

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// MaxRecordName bounds a record's kind, id and ref, in bytes: together they
// are an entry of an index, which every database bounds.
const MaxRecordName = 768

// Change is one record of a write, to be put or dropped.
type Change struct {
	Record
	Drop bool
	// Receipt: the body is what the write's Receipt makes.
	Receipt bool
}

// Changes checks a write, jobs excepted, before anything is done. It returns
// the records by kind and id: the order in which every store locks and
// compares them, so that no two writes wait for each other.
func (w *Write) Changes() ([]Change, error) {
	changes := make([]Change, 0, len(w.Puts)+len(w.Drops))
	if w.Receipt != nil && len(w.Puts) == 0 {
		return nil, errors.New("store: write: a receipt without a record: it is the body of the first put")
	}
	for i, r := range w.Puts {
		changes = append(changes, Change{Record: r, Receipt: i == 0 && w.Receipt != nil})
	}
	for _, r := range w.Drops {
		changes = append(changes, Change{Record: r, Drop: true})
	}
	for i := range changes {
		if err := changes[i].check(); err != nil {
			return nil, err
		}
		changes[i].ExpiresAt = Instant(changes[i].ExpiresAt)
	}
	slices.SortStableFunc(changes, func(a, b Change) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID)) })
	for i := 1; i < len(changes); i++ {
		if a, b := &changes[i-1], &changes[i]; a.Kind == b.Kind && a.ID == b.ID {
			return nil, fmt.Errorf("store: write: %s: is there twice; a write changes a record once", b.name())
		}
	}
	for i := range w.Audit {
		if err := w.Audit[i].check(); err != nil {
			return nil, err
		}
	}
	return changes, nil
}

func (c *Change) check() error {
	if err := checkName("store: write", c.Kind, c.ID, c.Ref); err != nil {
		return err
	}
	switch {
	case c.Version < AnyVersion:
		return fmt.Errorf("store: write: %s: version %d: want the one that was read, or AnyVersion", c.name(), c.Version)
	case c.Drop && c.Version == 0:
		return fmt.Errorf("store: write: %s: dropped without a version: want the one that was read, or AnyVersion", c.name())
	}
	return nil
}

func (a *AuditRow) check() error {
	for _, f := range []struct{ name, text string }{{"actor", a.Actor}, {"act", a.Act}, {"what", a.What}, {"detail", a.Detail}} {
		if !storable(f.text) {
			return fmt.Errorf("store: write: audit %s %q: must be UTF-8 without zero bytes", f.name, f.text)
		}
	}
	return nil
}

func checkName(what, kind, id, ref string) error {
	if kind == "" {
		return fmt.Errorf("%s: the kind is empty; name what the record is", what)
	}
	if id == "" {
		return fmt.Errorf("%s: a record of kind %q has no id", what, kind)
	}
	for _, f := range []struct{ name, text string }{{"kind", kind}, {"id", id}, {"ref", ref}} {
		if !storable(f.text) {
			return fmt.Errorf("%s: %s %q: must be UTF-8 without zero bytes; only a body is opaque", what, f.name, f.text)
		}
		if len(f.text) > MaxRecordName {
			return fmt.Errorf("%s: %s %.20q…: has %d bytes; at most %d", what, f.name, f.text, len(f.text), MaxRecordName)
		}
	}
	return nil
}

func storable(text string) bool { return utf8.ValidString(text) && !strings.ContainsRune(text, 0) }

// Check compares a change with the version that is there, 0 = none; the
// record is locked.
func (c *Change) Check(found int64) error {
	if c.Version == AnyVersion || c.Version == found {
		return nil
	}
	return c.Conflict(found)
}

// Conflict is ErrConflict of a change that met another version, 0 = none.
func (c *Change) Conflict(found int64) error {
	want, is := fmt.Sprintf("version %d was read", c.Version), fmt.Sprintf("%d is there", found)
	if c.Version == 0 {
		want = "none was there"
	}
	if found == 0 {
		is = "none is there"
	}
	return fmt.Errorf("store: write: %s: %s, now %s: %w", c.name(), want, is, ErrConflict)
}

// Expired reports whether the record has ended.
func (r *Record) Expired(now time.Time) bool {
	return !r.ExpiresAt.IsZero() && !now.Before(r.ExpiresAt)
}

func (r *Record) name() string { return recordName(r.Kind, r.ID) }

// recordName is what errors call a record: "endpoint ep_1". An id that would
// not read well is quoted.
func recordName(kind, id string) string {
	if quoted := strconv.Quote(id); quoted != `"`+id+`"` || strings.Contains(id, " ") {
		id = quoted
	}
	return kind + " " + id
}

// CheckRecord answers ErrNotFound for names that no record can have.
func CheckRecord(kind, id string) error {
	if checkName("", kind, id, "") != nil {
		return NoRecord(kind, id)
	}
	return nil
}

// NoRecord is ErrNotFound of a record.
func NoRecord(kind, id string) error { return &absentError{kind, id} }

type absentError struct{ kind, id string }

func (e *absentError) Error() string {
	return fmt.Sprintf("store: record: %s: there is none", recordName(e.kind, e.id))
}

func (e *absentError) Unwrap() error { return ErrNotFound }

// Check refuses a filter that no store could answer.
func (f *RecordFilter) Check() error {
	if f.Kind == "" {
		return errors.New("store: records: the kind is empty; a list is of one kind")
	}
	for _, part := range []struct{ name, text string }{{"kind", f.Kind}, {"ref", f.Ref}, {"after", f.After}} {
		if !storable(part.text) {
			return fmt.Errorf("store: records: %s %q: must be UTF-8 without zero bytes", part.name, part.text)
		}
	}
	return nil
}
