package fetch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// The parts of a directory.
const (
	stateDir      = ".ebb"       // ledger, lock, temporary files
	pagesDir      = "pages"      // pages by URL
	quarantineDir = "quarantine" // pages that are not what they say
	indexName     = "index.jsonl"
	manifestName  = "manifest-sha256.txt"
	lockName      = "lock"
	ledgerName    = "fetch.db"
)

// Archive writes WARC records of what was exchanged.
type Archive interface {
	Write(s *Saved) error
	Flush() error
	Close() error
}

// DirOptions says what a directory keeps.
type DirOptions struct {
	// NoFiles keeps no files by URL: the archive has them.
	NoFiles bool
	// Sync makes each page durable against a power cut before the ledger
	// knows of it. Without it a crash of the process loses nothing, a cut may
	// lose the last seconds.
	Sync bool
	// Archive, if not nil, makes what keeps all exchanges, once the directory
	// is taken.
	Archive func() (Archive, error)
}

// Dir is a directory of pages: files by URL, an index of all that was kept,
// and the ledger beside them. One process at a time has it.
type Dir struct {
	root string
	o    DirOptions
	lock *os.File
	arch Archive // or nil

	mu    sync.Mutex
	index *os.File
	made  map[string]bool // directories known to exist
	kept  map[int64]Line  // what the index's end says, for a start after a crash
}

// ErrBusy is the error of a directory that another process works on.
var ErrBusy = errors.New("another process works on it")

// OpenDir takes the directory, and makes it if need be.
func OpenDir(root string, o DirOptions) (*Dir, error) {
	state := filepath.Join(root, stateDir)
	if err := os.MkdirAll(filepath.Join(state, "tmp"), 0o755); err != nil {
		return nil, fmt.Errorf("fetch: %w", err)
	}
	lock, err := lockFile(filepath.Join(state, lockName))
	if err != nil {
		return nil, fmt.Errorf("fetch: %s: %w", root, err)
	}
	d := &Dir{root: root, o: o, lock: lock, made: map[string]bool{}}
	if err := d.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("fetch: %s: %w", root, err), lock.Close())
	}
	return d, nil
}

func (d *Dir) open() (err error) {
	temps, err := filepath.Glob(filepath.Join(d.root, stateDir, "tmp", "*"))
	if err != nil {
		return err
	}
	for _, name := range temps { // of a process that was killed
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	path := filepath.Join(d.root, indexName)
	if d.kept, err = readTail(path); err != nil {
		return err
	}
	if d.index, err = openIndex(path); err != nil || d.o.Archive == nil {
		return err
	}
	if d.arch, err = d.o.Archive(); err != nil {
		return errors.Join(err, d.index.Close())
	}
	return nil
}

// Ledger is the path of a directory's own ledger.
func Ledger(root string) string { return filepath.Join(root, stateDir, ledgerName) }

// Close lets go of the directory.
func (d *Dir) Close() error {
	var err error
	if d.arch != nil {
		err = d.arch.Close()
	}
	return errors.Join(err, d.index.Close(), d.lock.Close())
}

// Keep writes the page, then its line of the index: whoever finds the line
// finds the page.
func (d *Dir) Keep(s *Saved) error {
	if d.arch != nil {
		if err := d.arch.Write(s); err != nil {
			return ours("archive", err)
		}
	}
	if !d.o.NoFiles {
		path, err := d.place(pagesDir, pathOf(s.URL), s)
		if err != nil {
			return ours("page", err)
		}
		s.Kept.Path = path
	}
	return ours("index", d.note(s, OK))
}

// place puts the content at root/area/path in one step. Where a file stands in
// the way of a directory, or the reverse, the page gets a name of its own.
func (d *Dir) place(area, path string, s *Saved) (string, error) {
	rel := filepath.Join(area, filepath.FromSlash(path))
	err := d.write(rel, s)
	if errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EISDIR) || errors.Is(err, syscall.EEXIST) || errors.Is(err, syscall.ENAMETOOLONG) {
		host, _, _ := strings.Cut(path, "/")
		rel = filepath.Join(area, host, "%", nameOf(s.URL)+filepath.Ext(filepath.Base(path))[:min(8, len(filepath.Ext(filepath.Base(path))))])
		err = d.write(rel, s)
	}
	return filepath.ToSlash(rel), err
}

// write makes the file. A new one is written where it belongs: until the index
// names it, it is nothing, and a torn one is replaced. One that stands there
// already is replaced in one step.
func (d *Dir) write(rel string, s *Saved) error {
	path := filepath.Join(d.root, rel)
	if err := d.mkdir(filepath.Dir(path)); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if !errors.Is(err, fs.ErrExist) {
		if err != nil {
			return err
		}
		return d.fill(f, s)
	}
	if info, err := os.Lstat(path); err == nil && info.IsDir() {
		return syscall.EISDIR
	}
	if f, err = d.Temp(); err != nil {
		return err
	}
	if err := d.fill(f, s); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// fill writes the content and closes the file, or removes it.
func (d *Dir) fill(f *os.File, s *Saved) error {
	err := copyOut(f, s.Content)
	if err == nil && d.o.Sync {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err != nil {
		_ = os.Remove(f.Name()) // the first error counts
	}
	return err
}

// mkdir makes a directory once.
func (d *Dir) mkdir(dir string) error {
	d.mu.Lock()
	known := d.made[dir]
	d.mu.Unlock()
	if known {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.made) > maxHosts {
		clear(d.made)
	}
	d.made[dir] = true
	return nil
}

// Unchanged notes it in the index.
func (d *Dir) Unchanged(s *Saved) error {
	if d.arch != nil {
		if err := d.arch.Write(s); err != nil {
			return ours("archive", err)
		}
	}
	return ours("index", d.note(s, Unchanged))
}

// Quarantine keeps the page under quarantine/, beside it why.
func (d *Dir) Quarantine(s *Saved, why error) error {
	path, err := d.place(quarantineDir, pathOf(s.URL), s)
	if err != nil {
		return ours("quarantine", err)
	}
	text, err := json.MarshalIndent(map[string]any{"url": s.URL, "why": why.Error(), "status": s.Body.Status, "wave": s.Wave, "attempt": s.Attempt}, "", "  ")
	if err != nil {
		return err
	}
	return ours("quarantine", os.WriteFile(filepath.Join(d.root, filepath.FromSlash(path))+".why.json", append(text, '\n'), 0o644))
}

// Recall moves a page into quarantine, unless it was done before and another
// one has come since.
func (d *Dir) Recall(path, sha256 string) (bool, error) {
	rel, ok := strings.CutPrefix(path, pagesDir+"/")
	if !ok {
		return true, nil // only the archive has it
	}
	from := filepath.Join(d.root, filepath.FromSlash(path))
	f, err := os.Open(from)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, ours("quarantine", err)
	}
	sum, err := sumOf(f)
	if err = errors.Join(err, f.Close()); err != nil || sum != sha256 {
		return false, ours("quarantine", err)
	}
	to := filepath.Join(d.root, quarantineDir, filepath.FromSlash(rel))
	if err := d.mkdir(filepath.Dir(to)); err != nil {
		return false, ours("quarantine", err)
	}
	return true, ours("quarantine", os.Rename(from, to))
}

// Failed gives the exchanges to the archive.
func (d *Dir) Failed(s *Saved) error {
	if d.arch == nil {
		return nil
	}
	return ours("archive", d.arch.Write(s))
}

// Has reports whether the file is there in the size that it had.
func (d *Dir) Has(path string, size int64) bool {
	if path == "" {
		return d.o.NoFiles // the archive has it, or nobody has
	}
	info, err := os.Stat(filepath.Join(d.root, filepath.FromSlash(path)))
	return err == nil && info.Mode().IsRegular() && info.Size() == size
}

// Kept looks at the end of the index as it was when the directory was opened.
func (d *Dir) Kept(seq int64) (Kept, bool) {
	line, ok := d.kept[seq]
	if !ok || !d.o.NoFiles && !d.Has(line.Path, line.Size) {
		return Kept{}, false
	}
	return line.Kept, true
}

// Temp makes a file that vanishes unless it is renamed.
func (d *Dir) Temp() (*os.File, error) {
	return os.CreateTemp(filepath.Join(d.root, stateDir, "tmp"), "page-")
}

// Parts keeps beginnings of pages, unless there is an archive.
func (d *Dir) Parts() string {
	if d.arch != nil {
		return ""
	}
	return filepath.Join(d.root, stateDir, "part")
}

// Flush makes index and archive durable.
func (d *Dir) Flush() error {
	var err error
	if d.arch != nil {
		err = d.arch.Flush()
	}
	return errors.Join(err, d.index.Sync())
}
