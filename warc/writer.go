package warc

import (
	"bufio"
	"compress/gzip"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Open is the suffix of a file that is still written.
const Open = ".open"

// Options says where and how a Writer writes.
type Options struct {
	Dir    string // must exist
	Prefix string // of the files' names; "ebb" if empty
	// MaxBytes is the size from which on a file is followed by the next. A
	// group of records is never split. 0 = 1 GiB, as archives are used to.
	MaxBytes int64
	// Info is put into each file's warcinfo record, after "format": software,
	// operator, robots and so on.
	Info Fields
	// Now is the time of names and of warcinfo records; nil = time.Now.
	Now func() time.Time
	// Random makes record ids and names unique; nil = crypto/rand.
	Random io.Reader
	// Closed is called with the path of each file once it has its final name.
	Closed func(path string) error
}

// Writer appends records to files of one series. Its methods may be called
// from several goroutines. A file is named NAME.warc.gz.open until it is
// closed; whatever fails in between, it holds whole groups of records, or can
// be repaired to its last whole record.
type Writer struct {
	opt Options

	mu     sync.Mutex
	file   *os.File
	name   string // final, without a directory
	info   string // id of its warcinfo record
	size   int64
	first  int64 // size after warcinfo
	serial int
	out    *bufio.Writer
	zip    *gzip.Writer
	broken error // a failed write that could not be taken back
}

// Create returns a writer. Its first file is made with the first record.
func Create(opt Options) (*Writer, error) {
	if opt.Prefix == "" {
		opt.Prefix = "ebb"
	}
	if opt.Prefix != filepath.Base(opt.Prefix) || opt.Prefix == "." || opt.Prefix == ".." {
		return nil, fmt.Errorf("warc: prefix %q: want the beginning of a file's name, without a directory", opt.Prefix)
	}
	if opt.MaxBytes <= 0 {
		opt.MaxBytes = 1 << 30
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Random == nil {
		opt.Random = rand.Reader
	}
	if stat, err := os.Stat(opt.Dir); err != nil {
		return nil, fmt.Errorf("warc: directory: %w", err)
	} else if !stat.IsDir() {
		return nil, fmt.Errorf("warc: %s: not a directory", opt.Dir)
	}
	return &Writer{opt: opt, out: bufio.NewWriterSize(nil, 64<<10), zip: gzip.NewWriter(nil)}, nil
}

// Place is where a record was written.
type Place struct {
	File   string // its final name, without a directory
	Offset int64
	Length int64 // of its gzip member
	ID     string
}

// Write appends the records as one group: they stand together in one file, or
// none of them does. Records without an id get one.
func (w *Writer) Write(records ...*Draft) ([]Place, error) {
	if len(records) == 0 {
		return nil, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken != nil {
		return nil, w.broken
	}
	if w.file != nil && w.size >= w.opt.MaxBytes && w.size > w.first {
		if err := w.closeFile(); err != nil {
			return nil, err
		}
	}
	if w.file == nil {
		if err := w.openFile(); err != nil {
			return nil, err
		}
	}
	return w.group(records)
}

// group writes the records and takes all of them back if one fails.
func (w *Writer) group(records []*Draft) ([]Place, error) {
	start := w.size
	places := make([]Place, 0, len(records))
	var err error
	for _, r := range records {
		var p Place
		p, err = w.record(r)
		if err != nil {
			break
		}
		places = append(places, p)
	}
	if err == nil {
		err = w.out.Flush()
	}
	if err == nil {
		return places, nil
	}
	err = fmt.Errorf("warc: write: %s: %w", w.file.Name(), err)
	if back := w.takeBack(start); back != nil {
		w.broken = errors.Join(err, back)
		return nil, w.broken
	}
	return nil, err
}

func (w *Writer) takeBack(start int64) error {
	w.out.Reset(w.file)
	w.size = start
	if err := w.file.Truncate(start); err != nil {
		return err
	}
	_, err := w.file.Seek(start, io.SeekStart)
	return err
}

// counter adds what passes to the writer's size.
type counter struct{ w *Writer }

func (c counter) Write(p []byte) (int, error) {
	n, err := c.w.out.Write(p)
	c.w.size += int64(n)
	return n, err
}

// record writes one gzip member.
func (w *Writer) record(d *Draft) (Place, error) {
	if d.ID == "" {
		id, err := newID(w.opt.Random)
		if err != nil {
			return Place{}, err
		}
		d.ID = id
	}
	if err := d.measure(); err != nil {
		return Place{}, err
	}
	p := Place{File: w.name, Offset: w.size, ID: d.ID}
	w.zip.Reset(counter{w})
	if _, err := w.zip.Write(d.header(w.info)); err != nil {
		return Place{}, err
	}
	if err := d.copyBlock(w.zip); err != nil {
		return Place{}, err
	}
	if _, err := io.WriteString(w.zip, "\r\n\r\n"); err != nil {
		return Place{}, err
	}
	if err := w.zip.Close(); err != nil {
		return Place{}, err
	}
	p.Length = w.size - p.Offset
	return p, nil
}

// openFile makes the next file, with its warcinfo record.
func (w *Writer) openFile() error {
	now := w.opt.Now().UTC()
	file, err := w.newFile(now)
	for i := 0; errors.Is(err, errTaken) && i < 5; i++ {
		file, err = w.newFile(now)
	}
	if err != nil {
		return fmt.Errorf("warc: %w", err)
	}
	w.file, w.size, w.info = file, 0, ""
	w.out.Reset(file)
	w.serial++
	info := &Draft{
		Type: Info, Date: now, ContentType: "application/warc-fields",
		Fields: Fields{{"WARC-Filename", w.name}},
		Head:   append(Fields{{"format", "WARC File Format 1.1"}}, w.opt.Info...).bytes(),
	}
	places, err := w.group([]*Draft{info})
	if err != nil {
		w.file, w.broken = nil, nil
		return errors.Join(err, file.Close(), os.Remove(file.Name()))
	}
	w.info, w.first = places[0].ID, w.size
	return nil
}

var errTaken = errors.New("another process takes new files of this series for abandoned ones")

// newFile makes and locks a file of a new name. A process that recovers the
// directory may see it before it is locked, and remove it: then errTaken.
func (w *Writer) newFile(now time.Time) (*os.File, error) {
	var unique [4]byte
	if _, err := io.ReadFull(w.opt.Random, unique[:]); err != nil {
		return nil, fmt.Errorf("random: %w", err)
	}
	w.name = fmt.Sprintf("%s-%s-%05d-%s.warc.gz", w.opt.Prefix, now.Format("20060102150405"), w.serial, hex.EncodeToString(unique[:]))
	path := filepath.Join(w.opt.Dir, w.name)
	if _, err := os.Lstat(path); err == nil {
		return nil, fmt.Errorf("%s: %w", path, os.ErrExist)
	}
	file, err := os.OpenFile(path+Open, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, err
	}
	if lock(file) != nil || !stillAt(file, path+Open) {
		return nil, errors.Join(errTaken, file.Close())
	}
	return file, nil
}

// stillAt reports whether the path leads to the open file.
func stillAt(file *os.File, path string) bool {
	a, err1 := file.Stat()
	b, err2 := os.Stat(path)
	return err1 == nil && err2 == nil && os.SameFile(a, b)
}

// Sync makes all that was written durable.
func (w *Writer) Sync() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file == nil {
		return nil
	}
	if err := w.file.Sync(); err != nil {
		return fmt.Errorf("warc: sync: %w", err)
	}
	return nil
}

// Close ends the present file and gives it its final name. The writer may be
// used again: it begins the next file.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file == nil {
		return nil
	}
	return w.closeFile()
}

// closeFile leaves a broken file as it is, for Recover.
func (w *Writer) closeFile() error {
	file, path := w.file, filepath.Join(w.opt.Dir, w.name)
	w.file = nil
	if w.broken != nil {
		return errors.Join(w.broken, file.Close())
	}
	if err := errors.Join(file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("warc: close: %w", err)
	}
	return finish(path, w.opt.Closed)
}

// finish gives a whole file its final name, durably.
func finish(path string, closed func(string) error) error {
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("warc: close: %s: %w", path, os.ErrExist)
	}
	if err := os.Rename(path+Open, path); err != nil {
		return fmt.Errorf("warc: close: %w", err)
	}
	if err := syncDir(filepath.Dir(path)); err != nil {
		return fmt.Errorf("warc: close: %w", err)
	}
	if closed != nil {
		return closed(path)
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// newID makes a random UUID, version 4.
func newID(random io.Reader) (string, error) {
	var b [16]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", fmt.Errorf("random: %w", err)
	}
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("<urn:uuid:%x-%x-%x-%x-%x>", b[:4], b[4:6], b[6:8], b[8:10], b[10:]), nil
}
