package warc

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Exchange is one attempt to get a URL: what was sent, what came back, and
// the attempt's circumstances.
type Exchange struct {
	URL  string
	Date time.Time // when the request was sent
	IP   string    // of the server; may be empty
	// Request is the message that was sent, nil if none was.
	Request []byte
	// ResponseHead is status line and header fields with the empty line, nil if
	// no answer came. Body follows it.
	ResponseHead []byte
	Body         io.ReadSeeker
	// Truncated says why Body is not whole: length, time, disconnect or
	// unspecified.
	Truncated string
	Attempt   int // from 1
	Wave      int // 0 = the first pass
	// Metadata is put down beside attempt and wave, such as the time taken or
	// the class of a failure.
	Metadata Fields
	// NotModified is the record that a 304 answer confirms.
	NotModified *Original
	// Known returns the record that holds the same payload already, and then a
	// revisit record is written in place of a response. Nil: none does.
	Known func(digest string) (Original, bool)
}

// Original is what a revisit record refers to.
type Original struct {
	ID     string // with angle brackets
	URL    string
	Date   time.Time
	Digest string // of its payload, with its label
}

// Exchanged is what became of an Exchange.
type Exchanged struct {
	// Entry is the response's or revisit's line in an index; zero if there was
	// no answer.
	Entry  Entry
	SHA256 string // of the payload, in hexadecimal
	Size   int64  // of the payload
	ID     string // of the response, for Original
}

// Exchange writes request, response or revisit, and metadata as one group.
func (w *Writer) Exchange(x Exchange) (Exchanged, error) {
	response, payload, err := x.response()
	if err != nil {
		return Exchanged{}, fmt.Errorf("warc: write: %s: %w", x.URL, err)
	}
	var records []*Draft
	var request *Draft
	if x.Request != nil {
		request = &Draft{Type: Request, ContentType: "application/http;msgtype=request", Head: x.Request}
		records = append(records, request)
	}
	if response != nil {
		records = append(records, response)
	}
	records = append(records, &Draft{Type: Metadata, ContentType: "application/warc-fields", Head: x.metadata()})
	ids, err := w.newIDs(len(records))
	if err != nil {
		return Exchanged{}, fmt.Errorf("warc: write: %s: %w", x.URL, err)
	}
	main := 0 // the record that the others stand beside
	if request != nil && response != nil {
		main = 1
	}
	for i, r := range records {
		r.ID, r.Date, r.TargetURI = ids[i], x.Date, x.URL
		if i != main {
			r.Fields = append(r.Fields, Field{"WARC-Concurrent-To", ids[main]})
		}
		if x.IP != "" && r.Type != Metadata {
			r.Fields = append(r.Fields, Field{"WARC-IP-Address", x.IP})
		}
	}
	places, err := w.Write(records...)
	if err != nil || response == nil {
		return Exchanged{}, err
	}
	return Exchanged{Entry: entryOf(response, places[main]), SHA256: payload.sha256, Size: payload.size, ID: response.ID}, nil
}

func (w *Writer) newIDs(n int) ([]string, error) {
	w.mu.Lock() // Random need not be safe for many goroutines
	defer w.mu.Unlock()
	ids := make([]string, n)
	for i := range ids {
		id, err := newID(w.opt.Random)
		if err != nil {
			return nil, err
		}
		ids[i] = id
	}
	return ids, nil
}

// response is the response record, or the revisit that replaces it, and the
// draft that measured the payload.
func (x *Exchange) response() (record, payload *Draft, err error) {
	if x.ResponseHead == nil {
		return nil, nil, nil
	}
	d := &Draft{Type: Response, ContentType: "application/http;msgtype=response", Head: x.ResponseHead, Body: x.Body, Payload: true}
	if x.Truncated != "" {
		d.Fields = append(d.Fields, Field{"WARC-Truncated", x.Truncated})
	}
	if err := d.measure(); err != nil { // before the writer's turn: others write meanwhile
		return nil, nil, err
	}
	switch {
	case x.NotModified != nil:
		record = d.revisit(NotModified, *x.NotModified)
		return record, d, nil
	case x.Known == nil || x.Truncated != "" || d.size == 0: // nothing is saved by referring to nothing
		return d, d, nil
	}
	original, found := x.Known(d.payload)
	if !found {
		return d, d, nil
	}
	original.Digest = d.payload
	record = d.revisit(IdenticalPayload, original)
	return record, d, nil
}

// revisit returns the record that refers to another in place of the payload.
func (d *Draft) revisit(profile string, of Original) *Draft {
	r := &Draft{Type: Revisit, ContentType: d.ContentType, Head: d.Head, Fields: d.Fields}
	r.Fields = append(r.Fields, Field{"WARC-Profile", profile})
	if of.ID != "" {
		r.Fields = append(r.Fields, Field{"WARC-Refers-To", of.ID})
	}
	if of.URL != "" {
		r.Fields = append(r.Fields, Field{"WARC-Refers-To-Target-URI", of.URL}, Field{"WARC-Refers-To-Date", date(of.Date)})
	}
	if of.Digest != "" {
		r.Fields = append(r.Fields, Field{"WARC-Payload-Digest", of.Digest})
	}
	return r
}

func (x *Exchange) metadata() []byte {
	f := Fields{{"attempt", strconv.Itoa(x.Attempt)}, {"wave", strconv.Itoa(x.Wave)}}
	return append(f, x.Metadata...).bytes()
}

// RequestHead returns the message head of a client's request, as HTTP/1.1
// has it.
func RequestHead(r *http.Request) []byte {
	host := r.Host
	if host == "" {
		host = r.URL.Host
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", r.Method, r.URL.RequestURI(), oneLine(host))
	writeHeader(&b, r.Header, "Host")
	return b.Bytes()
}

// ResponseHead returns the message head of a response. What net/http undoes
// before the body is read (chunks, its own decompression) is not in its
// header fields, and so head and body agree. HTTP/2 is put down as 1.1, the
// latest version that archives have a form for.
func ResponseHead(r *http.Response) []byte {
	var b bytes.Buffer
	status := r.Status
	if status == "" {
		status = strconv.Itoa(r.StatusCode) + " " + http.StatusText(r.StatusCode)
	}
	version := "1.1"
	if r.ProtoMajor == 1 && r.ProtoMinor == 0 {
		version = "1.0"
	}
	fmt.Fprintf(&b, "HTTP/%s %s\r\n", version, oneLine(status))
	writeHeader(&b, r.Header, "Transfer-Encoding")
	return b.Bytes()
}

// writeHeader writes the fields in the order of their names, and the empty
// line.
func writeHeader(b *bytes.Buffer, h http.Header, without string) {
	names := make([]string, 0, len(h))
	for name := range h {
		if !strings.EqualFold(name, without) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		for _, value := range h[name] {
			fmt.Fprintf(b, "%s: %s\r\n", name, oneLine(value))
		}
	}
	b.WriteString("\r\n")
}
