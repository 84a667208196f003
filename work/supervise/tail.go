package supervise

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
)

// maxLine cuts lines that no pattern is meant for.
const maxLine = 64 << 10

// tailSize is how much of the end of the output exit rules look at.
const tailSize = 64 << 10

// tail follows a file that grows.
type tail struct {
	name   string // stream: stdout, stderr, log or the path of a source
	path   string
	offset int64
	rest   []byte // of a line whose end has not come yet
}

// read hands every new whole line to do, and returns how many bytes were new.
// A file that is not there yet has none.
func (t *tail) read(do func(stream, line string)) (int64, error) {
	f, err := os.Open(t.path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer closeFile(f)
	info, err := f.Stat()
	if err != nil || info.Size() == t.offset {
		return 0, err
	}
	if info.Size() < t.offset { // cut by its writer: what is there is new
		t.offset, t.rest = 0, nil
	}
	var total int64
	buffer := make([]byte, 256<<10)
	for {
		n, err := f.ReadAt(buffer, t.offset)
		t.offset += int64(n)
		total += int64(n)
		t.lines(buffer[:n], do)
		if errors.Is(err, io.EOF) || n == 0 {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

// lines cuts what was read. A progress bar's carriage returns end lines too.
func (t *tail) lines(chunk []byte, do func(stream, line string)) {
	for len(chunk) > 0 {
		i := bytes.IndexAny(chunk, "\n\r")
		if i < 0 {
			t.rest = append(t.rest, chunk...)
			if len(t.rest) > maxLine {
				t.rest = t.rest[:maxLine]
			}
			return
		}
		line := chunk[:i]
		if len(t.rest) > 0 {
			line = append(t.rest, line...)
			t.rest = nil
		}
		if len(line) > maxLine {
			line = line[:maxLine]
		}
		if len(line) > 0 {
			do(t.name, string(line))
		}
		chunk = chunk[i+1:]
	}
}

// flush hands over a last line without an end.
func (t *tail) flush(do func(stream, line string)) {
	if len(t.rest) > 0 {
		do(t.name, string(t.rest))
		t.rest = nil
	}
}

// lastOf returns the end of a file, at most n bytes.
func lastOf(path string, n int64) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer closeFile(f)
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	at := max(0, info.Size()-n)
	text, err := io.ReadAll(io.NewSectionReader(f, at, n))
	if err != nil {
		return ""
	}
	return strings.ToValidUTF8(string(text), "")
}
