package fetch

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Line is one line of index.jsonl: a page that was kept, or still holds.
type Line struct {
	URL     string    `json:"url"`
	Fetch   string    `json:"fetch"`
	Job     int64     `json:"job"`
	At      time.Time `json:"at"`
	Attempt int       `json:"attempt"`
	Outcome Outcome   `json:"outcome"`
	Kept
}

// tailSize is how much of the index's end is read after a crash: far more
// than the pages that can be kept and not yet in the ledger.
const tailSize = 8 << 20

// openIndex opens the index for appending. A line that a full disk cut short
// is ended, so that the next one is whole.
func openIndex(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Size() > 0 {
		last := []byte{0}
		if _, err = f.ReadAt(last, info.Size()-1); err == nil && last[0] != '\n' {
			_, err = f.Write([]byte{'\n'})
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// readTail reads the last lines, by job.
func readTail(path string) (map[int64]Line, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // read only
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if _, err := f.Seek(max(0, info.Size()-tailSize), io.SeekStart); err != nil {
		return nil, err
	}
	lines := make(map[int64]Line)
	err = eachLine(f, func(l Line) error {
		lines[l.Job] = l
		return nil
	})
	return lines, err
}

// eachLine calls do for every whole line; what is none is passed over.
func eachLine(r io.Reader, do func(Line) error) error {
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		text, err := in.ReadBytes('\n')
		var l Line
		if len(bytes.TrimSpace(text)) > 0 && json.Unmarshal(text, &l) == nil {
			if err := do(l); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// note appends a line. One write, so that a kill leaves all of it or nothing.
func (d *Dir) note(s *Saved, outcome Outcome) error {
	text, err := json.Marshal(Line{
		URL: s.URL, Fetch: s.Fetch, Job: s.Seq, At: s.At, Attempt: s.Attempt, Outcome: outcome, Kept: s.Kept,
	})
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.index.Write(append(text, '\n'))
	if err != nil && n > 0 { // the next line begins on a line of its own
		_, _ = d.index.Write([]byte{'\n'})
	}
	if err == nil && d.o.Sync {
		err = d.index.Sync()
	}
	return err
}

// Manifest writes the SHA-256 of every file of the fetch, as sha256sum -c
// reads it, in one step.
func (d *Dir) Manifest(f *Fetch) (err error) {
	in, err := os.Open(filepath.Join(d.root, indexName))
	if err != nil {
		return fmt.Errorf("fetch: manifest: %w", err)
	}
	defer in.Close() //nolint:errcheck // read only
	to, err := d.Temp()
	if err != nil {
		return fmt.Errorf("fetch: manifest: %w", err)
	}
	out := bufio.NewWriter(to)
	err = eachLine(in, func(l Line) error {
		if l.Fetch != f.ID || l.Path == "" || slices.Contains(f.SameBody, l.SHA256) || !d.Has(l.Path, l.Size) {
			return nil
		}
		_, err := fmt.Fprintf(out, "%s  %s\n", l.SHA256, l.Path)
		return err
	})
	if err = errors.Join(err, out.Flush(), to.Close()); err == nil {
		err = os.Rename(to.Name(), filepath.Join(d.root, manifestName))
	}
	if err != nil {
		return fmt.Errorf("fetch: manifest: %w", err)
	}
	return nil
}
