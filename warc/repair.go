package warc

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Repaired tells what Repair or Recover did to a file.
type Repaired struct {
	Path    string // its final name; "" when nothing was left and the file was removed
	Records int
	Cut     int64 // bytes of a torn tail that were removed
	Why     string
}

// Repair cuts a torn tail: the file then ends with its last whole record. A
// fault that whole records follow is no torn tail; such a file is left as it
// is, and the error says where they begin.
func Repair(name string) (Repaired, error) {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return Repaired{}, fmt.Errorf("warc: repair: %w", err)
	}
	r, err := repair(f)
	return r, errors.Join(err, f.Close())
}

func repair(f *os.File) (Repaired, error) {
	done := Repaired{Path: f.Name()}
	summary, err := Walk(f, nil)
	done.Records = summary.Records
	var fault *FaultError
	switch {
	case err == nil:
		return done, nil
	case !errors.As(err, &fault):
		return done, fmt.Errorf("warc: repair: %s: %w", f.Name(), err)
	}
	if at, err := soundAfter(f, fault.Offset+1); err != nil {
		return done, fmt.Errorf("warc: repair: %s: %w", f.Name(), err)
	} else if at >= 0 {
		return done, fmt.Errorf("warc: repair: %s: damaged, not torn: %w; a whole record follows at offset %d: nothing was cut", f.Name(), fault, at)
	}
	stat, err := f.Stat()
	if err == nil {
		done.Cut, done.Why = stat.Size()-summary.End, fault.Why
		err = errors.Join(f.Truncate(summary.End), f.Sync())
	}
	if err != nil {
		return done, fmt.Errorf("warc: repair: %s: %w", f.Name(), err)
	}
	return done, nil
}

// soundAfter returns the offset of the first whole record that begins at or
// after from, -1 for none.
func soundAfter(f *os.File, from int64) (int64, error) {
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return -1, err
	}
	in := bufio.NewReaderSize(f, 64<<10)
	for at := from; ; {
		window, err := in.Peek(64 << 10)
		if len(window) < 3 {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return -1, err
		}
		step := len(window) - 7 // a mark may lie across the end
		for i := range window {
			if !bytes.HasPrefix(window[i:], []byte("\x1f\x8b\x08")) && !bytes.HasPrefix(window[i:], []byte("WARC/1.")) {
				continue
			}
			r := NewReader(io.NewSectionReader(f, at+int64(i), 1<<62))
			if rec, err := r.Next(); err == nil && rec.Finish() == nil {
				return at + int64(i), nil
			}
		}
		if errors.Is(err, io.EOF) {
			return -1, nil
		}
		if _, err := in.Discard(step); err != nil {
			return -1, err
		}
		at += int64(step)
	}
}

// Recover repairs the files of the series that a process left open when it
// died, and gives them their final names. Files that a living process writes
// are passed over; one that holds no record but its warcinfo is removed. A
// file that cannot be repaired keeps its name, and the error names it; the
// others are recovered all the same.
func Recover(dir, prefix string, closed func(path string) error) ([]Repaired, error) {
	names, err := filepath.Glob(filepath.Join(escapeGlob(dir), "*.warc.gz"+Open))
	if err != nil {
		return nil, fmt.Errorf("warc: recover: %w", err)
	}
	var all []Repaired
	var errs []error
	for _, name := range names {
		if !strings.HasPrefix(filepath.Base(name), prefix+"-") {
			continue
		}
		r, ours, err := recoverFile(name, closed)
		if err != nil {
			errs = append(errs, err)
		} else if ours {
			all = append(all, r)
		}
	}
	return all, errors.Join(errs...)
}

func recoverFile(name string, closed func(string) error) (r Repaired, ours bool, err error) {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return r, false, nil // closed meanwhile
	}
	if err != nil {
		return r, false, fmt.Errorf("warc: recover: %w", err)
	}
	defer f.Close() //nolint:errcheck // synced where it matters
	if lock(f) != nil || !stillAt(f, name) {
		return r, false, nil // its writer lives, or another recovered it
	}
	r, err = repair(f)
	if err != nil {
		return r, true, err
	}
	r.Path = strings.TrimSuffix(name, Open)
	if r.Records <= 1 {
		r.Path = ""
		return r, true, os.Remove(name)
	}
	return r, true, finish(r.Path, closed)
}

// escapeGlob makes a directory stand for itself in a pattern.
func escapeGlob(dir string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(dir)
}
