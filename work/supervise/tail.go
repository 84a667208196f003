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

// maxRead is how much of one stream is read between two decisions: a command
// that prints faster than it can be read is still told to stop.
const maxRead = 8 << 20

// read hands new whole lines to do, and returns how many bytes were new: at
// most so many, or all that is there now where most is 0. A file that is not
// there yet has none.
func (t *tail) read(most int64, do func(stream, line string)) (int64, error) {
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
	left := info.Size() - t.offset
	if most > 0 {
		left = min(left, most)
	}
	var total int64
	buffer := make([]byte, min(left, 256<<10))
	for left > 0 {
		n, err := f.ReadAt(buffer[:min(left, int64(len(buffer)))], t.offset)
		t.offset += int64(n)
		total += int64(n)
		left -= int64(n)
		t.lines(buffer[:n], do)
		if errors.Is(err, io.EOF) || err == nil && n == 0 {
			break
		}
		if err != nil {
			return total, err
		}
	}
	return total, nil
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
