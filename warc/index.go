package warc

import (
	"fmt"
	"io"
	"net/textproto"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Entry is one line of an index: a record that can be replayed.
type Entry struct {
	URL      string
	Date     time.Time
	MIME     string // "warc/revisit" for revisit records
	Status   int    // 0 = none
	Digest   string // of the payload, base32, without its label
	Redirect string // where the answer leads
	Length   int64  // of the record in the file
	Offset   int64
	File     string
	ID       string // of the record, with angle brackets
}

// entryOf is the entry of a record as it was written.
func entryOf(d *Draft, p Place) Entry {
	e := Entry{URL: d.TargetURI, Date: d.Date, Offset: p.Offset, Length: p.Length, File: p.File, ID: d.ID}
	digest := d.Fields.Value("WARC-Payload-Digest")
	if d.Payload {
		digest = d.payload
	}
	e.fill(d.Type, d.ContentType, digest, d.Head)
	return e
}

func (e *Entry) fill(kind Type, contentType, digest string, head []byte) {
	_, e.Digest, _ = strings.Cut(digest, ":")
	if kind == Resource {
		e.MIME = bareType(contentType)
		return
	}
	status, header := parseHead(head)
	e.Status, e.MIME, e.Redirect = status, bareType(header("Content-Type")), ""
	if status >= 300 && status < 400 {
		e.Redirect = header("Location")
	}
	if kind == Revisit {
		e.MIME = "warc/revisit"
	}
}

func bareType(contentType string) string {
	bare, _, _ := strings.Cut(contentType, ";")
	return strings.TrimSpace(bare)
}

// parseHead returns the status of an HTTP response's head and its header
// fields. It takes what servers send: a torn line is passed over.
func parseHead(head []byte) (status int, header func(string) string) {
	lines := strings.Split(string(head), "\n")
	if parts := strings.Fields(lines[0]); len(parts) > 1 {
		status, _ = strconv.Atoi(parts[1])
	}
	fields := make(textproto.MIMEHeader)
	for _, line := range lines[1:] {
		if name, value, found := strings.Cut(line, ":"); found {
			fields.Add(strings.TrimSpace(name), strings.TrimSpace(value))
		}
	}
	return status, fields.Get
}

// Index reads a WARC file and calls add for each response, revisit and
// resource record, in the file's order.
func Index(path string, add func(Entry) error) (Summary, error) {
	f, err := os.Open(path)
	if err != nil {
		return Summary{}, fmt.Errorf("warc: index: %w", err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	name := strings.TrimSuffix(filepath.Base(path), Open)
	return Walk(f, func(r *Record) error {
		switch r.Type {
		case Response, Revisit, Resource:
		default:
			return nil
		}
		head := &splitter{}
		if r.Type != Resource {
			if _, err := io.Copy(head, io.LimitReader(r.Block, maxHead)); err != nil {
				return nil //nolint:nilerr // Finish names the fault
			}
		}
		if err := r.Finish(); err != nil {
			return err
		}
		e := Entry{URL: r.TargetURI(), Date: r.Date, Offset: r.Offset, Length: r.Length, File: name, ID: r.ID()}
		e.fill(r.Type, r.Fields.Value("Content-Type"), r.Fields.Value("WARC-Payload-Digest"), head.head)
		return add(e)
	})
}
