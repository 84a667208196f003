package warc

import (
	"bufio"
	"container/heap"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// runBytes is how much of an index is sorted in memory at once.
const runBytes = 4 << 20

// IndexWriter writes an index file. Sorted forms are sorted on disk: memory
// does not grow with the number of entries.
type IndexWriter struct {
	format Format
	path   string
	max    int
	lines  []string
	size   int
	runs   []*os.File
	out    *bufio.Writer
	file   *os.File
}

// CreateIndex begins an index. It is written beside path and takes its place
// when the index is closed, so that a reader never sees half of one.
func CreateIndex(path string, format Format) (*IndexWriter, error) {
	file, err := os.Create(path + Open)
	if err != nil {
		return nil, fmt.Errorf("warc: index: %w", err)
	}
	w := &IndexWriter{format: format, path: path, max: runBytes, file: file, out: bufio.NewWriter(file)}
	_, err = w.out.WriteString(format.Header)
	return w, err
}

// Add puts one entry in.
func (w *IndexWriter) Add(e Entry) error {
	line := w.format.Line(e)
	if !w.format.Sorted {
		_, err := w.out.WriteString(line)
		return err
	}
	w.lines = append(w.lines, line)
	if w.size += len(line) + 16; w.size < w.max {
		return nil
	}
	return w.spill()
}

// spill writes the lines in memory to a temporary file, sorted.
func (w *IndexWriter) spill() error {
	f, err := os.CreateTemp(filepath.Dir(w.path), ".ebb-index-")
	if err != nil {
		return fmt.Errorf("warc: index: %w", err)
	}
	w.runs = append(w.runs, f)
	if err := os.Remove(f.Name()); err != nil { // open, but gone with us
		return fmt.Errorf("warc: index: %w", err)
	}
	slices.Sort(w.lines)
	out := bufio.NewWriter(f)
	for _, line := range w.lines {
		if _, err := out.WriteString(line); err != nil {
			return fmt.Errorf("warc: index: %w", err)
		}
	}
	w.lines, w.size = w.lines[:0], 0
	clear(w.lines[:cap(w.lines)])
	return out.Flush()
}

// Close writes what is left and gives the index its name.
func (w *IndexWriter) Close() error {
	err := w.merge()
	for _, run := range w.runs {
		err = errors.Join(err, run.Close())
	}
	if err == nil {
		err = w.out.Flush()
	}
	if err == nil {
		err = w.file.Sync()
	}
	err = errors.Join(err, w.file.Close())
	if err == nil {
		err = os.Rename(w.path+Open, w.path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("warc: index: %w", err), os.Remove(w.path+Open))
	}
	return nil
}

// merge writes the lines of memory and of all runs in order, each once.
func (w *IndexWriter) merge() error {
	slices.Sort(w.lines)
	var front runHeap
	for _, f := range w.runs {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
		r := &run{in: bufio.NewReader(f)}
		if err := r.next(); err != nil {
			return err
		}
		front = append(front, r)
	}
	if len(w.lines) > 0 {
		front = append(front, &run{line: w.lines[0], rest: w.lines[1:]})
	}
	heap.Init(&front)
	last := ""
	for front.Len() > 0 {
		r := front[0]
		if r.line != last {
			last = r.line
			if _, err := w.out.WriteString(r.line); err != nil {
				return err
			}
		}
		switch err := r.next(); {
		case errors.Is(err, io.EOF):
			heap.Pop(&front)
		case err != nil:
			return err
		default:
			heap.Fix(&front, 0)
		}
	}
	return nil
}

// run is one sorted sequence of lines, on disk or in memory.
type run struct {
	line string
	in   *bufio.Reader // nil: rest
	rest []string
}

func (r *run) next() (err error) {
	switch {
	case r.in != nil:
		r.line, err = r.in.ReadString('\n')
	case len(r.rest) == 0:
		return io.EOF
	default:
		r.line, r.rest = r.rest[0], r.rest[1:]
	}
	return err
}

type runHeap []*run

func (h runHeap) Len() int           { return len(h) }
func (h runHeap) Less(i, j int) bool { return h[i].line < h[j].line }
func (h runHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *runHeap) Push(x any)        { *h = append(*h, x.(*run)) }

func (h *runHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
