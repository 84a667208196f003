package input

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
)

// file reads one source that has to be opened. depth counts the indexes above
// a sitemap.
func (r *Reader) file(s Source, depth int) {
	name := s.Name
	if name == "-" {
		name = "standard input"
	}
	f, err := r.opt.Open(s.Name)
	if err != nil {
		r.fail(&Error{Source: name, Err: err, Fatal: true})
		return
	}
	defer f.Close() //nolint:errcheck // it was only read
	text, err := unpack(f)
	if err != nil {
		r.fail(&Error{Source: name, Err: err, Fatal: true})
		return
	}
	switch format(s, text) {
	case CSV:
		r.csv(name, s, text)
	case Sitemap:
		r.sitemap(name, text, depth)
	default:
		r.lines(name, text)
	}
}

// unpack returns the text of a file that may be gzipped, without a byte order
// mark.
func unpack(f io.Reader) (*bufio.Reader, error) {
	text := bufio.NewReaderSize(f, 64<<10)
	head, err := text.Peek(2)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if bytes.Equal(head, []byte{0x1f, 0x8b}) {
		zip, err := gzip.NewReader(text)
		if err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
		text = bufio.NewReaderSize(zip, 64<<10)
	}
	if head, _ := text.Peek(3); string(head) == "\ufeff" {
		_, err = text.Discard(3)
		return text, err
	}
	return text, nil
}

func format(s Source, text *bufio.Reader) Format {
	if s.Format != Auto {
		return s.Format
	}
	switch path.Ext(strings.TrimSuffix(strings.ToLower(s.Name), ".gz")) {
	case ".csv", ".tsv":
		return CSV
	case ".xml":
		return Sitemap
	}
	if s.Column != "" {
		return CSV
	}
	head, _ := text.Peek(512)
	if bytes.HasPrefix(bytes.TrimLeft(head, " \t\r\n"), []byte("<")) {
		return Sitemap
	}
	return Lines
}

func (r *Reader) lines(name string, text *bufio.Reader) {
	scan := bufio.NewScanner(text)
	scan.Buffer(make([]byte, 0, 4<<10), maxLine)
	line := 0
	for !r.stopped && scan.Scan() {
		line++
		url := bytes.TrimSpace(scan.Bytes())
		if len(url) == 0 || url[0] == '#' {
			continue
		}
		if bytes.IndexByte(url, 0) >= 0 {
			r.fail(&Error{Source: name, Line: line, Err: errors.New("a zero byte: this is no list of URLs, or not in UTF-8"), Fatal: true})
			return
		}
		r.take(string(url), nil, name, line)
	}
	switch err := scan.Err(); {
	case r.stopped || err == nil:
	case errors.Is(err, bufio.ErrTooLong):
		r.fail(&Error{Source: name, Line: line + 1, Err: fmt.Errorf("a line over %d bytes: is this a list of URLs?", maxLine), Fatal: true})
	default:
		r.fail(&Error{Source: name, Line: line + 1, Err: err, Fatal: true})
	}
}
