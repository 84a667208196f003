// Package warc keeps what was sent and received, in WARC 1.1: a writer whose
// files hold whole records whatever happens, a strict reader that names the
// first fault and where it is, repair of a torn tail, and the indexes that
// replay tools and `wget --warc-dedup` read.
package warc

import (
	"fmt"
	"strings"
	"time"
)

// Type is the kind of a record, as WARC-Type has it.
type Type string

const (
	Info     Type = "warcinfo"
	Request  Type = "request"
	Response Type = "response"
	Metadata Type = "metadata"
	Resource Type = "resource"
	Revisit  Type = "revisit"
)

// Profiles of revisit records.
const (
	IdenticalPayload = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
	NotModified      = "http://netpreserve.org/warc/1.1/revisit/server-not-modified"
)

// Field is one named field of a record's header or of an
// application/warc-fields block.
type Field struct{ Name, Value string }

// Fields are named fields in their order. Names are compared without case.
type Fields []Field

// Value returns the first value of the name, or "".
func (f Fields) Value(name string) string {
	for _, field := range f {
		if strings.EqualFold(field.Name, name) {
			return field.Value
		}
	}
	return ""
}

// has reports how often the name occurs.
func (f Fields) has(name string) int {
	n := 0
	for _, field := range f {
		if strings.EqualFold(field.Name, name) {
			n++
		}
	}
	return n
}

// bytes is the fields as lines, each ended by CRLF. Line breaks in values,
// which would forge a field, become spaces.
func (f Fields) bytes() []byte {
	var b []byte
	for _, field := range f {
		b = append(b, field.Name...)
		b = append(b, ": "...)
		b = append(b, oneLine(field.Value)...)
		b = append(b, '\r', '\n')
	}
	return b
}

func oneLine(s string) string {
	if !strings.ContainsAny(s, "\r\n\x00") {
		return s
	}
	return strings.Map(func(r rune) rune {
		if r == '\r' || r == '\n' || r == 0 {
			return ' '
		}
		return r
	}, s)
}

// date is an instant as this writer puts it down: to the second, which every
// reader takes.
func date(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

// FaultError is the first place where a file is not a sequence of whole, sound
// records.
type FaultError struct {
	Offset int64 // where the faulty record begins
	Record int   // its number, from 0
	Why    string
	// Torn says that the file ends within the record.
	Torn bool
}

func (f *FaultError) Error() string {
	return fmt.Sprintf("warc: record %d at offset %d: %s", f.Record, f.Offset, f.Why)
}
