package warc

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"hash"
	"io"
	"strconv"
	"strings"
	"time"
)

// MaxHeader is the longest header of a record that is read.
const MaxHeader = 256 << 10

// Record is one record while it is read.
type Record struct {
	Version string // "1.0" or "1.1"
	Type    Type
	Fields  Fields
	Date    time.Time
	Size    int64 // of the block
	Offset  int64 // in the file
	// Length is how many bytes of the file it takes, known once it is Finished.
	Length int64
	// Block can be read until Finish or the reader's next Next.
	Block io.Reader

	reader *Reader
	check  *check
	left   *io.LimitedReader
	done   bool
	err    error
}

// TargetURI returns WARC-Target-URI without the angle brackets of wget.
func (r *Record) TargetURI() string {
	uri := r.Fields.Value("WARC-Target-URI")
	if inner, ok := strings.CutPrefix(uri, "<"); ok {
		return strings.TrimSuffix(inner, ">")
	}
	return uri
}

// ID returns WARC-Record-ID with its angle brackets.
func (r *Record) ID() string { return r.Fields.Value("WARC-Record-ID") }

// source counts what is taken from the file, to the byte.
type source struct {
	in *bufio.Reader
	n  int64
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.in.Read(p)
	s.n += int64(n)
	return n, err
}

func (s *source) ReadByte() (byte, error) {
	b, err := s.in.ReadByte()
	if err == nil {
		s.n++
	}
	return b, err
}

// text is what the lines of a header are read from.
type text interface {
	io.Reader
	io.ByteReader
}

// Reader reads a WARC file, plain or with one gzip member a record, and
// accepts nothing that is not sound: line ends, mandatory fields, lengths,
// digests, checksums, one record a member.
type Reader struct {
	src     *source
	zip     *gzip.Reader
	unzip   *bufio.Reader
	text    text // of the present record
	zipped  bool
	current *Record
	count   int
	fault   error
}

// NewReader returns a reader of the file's bytes from their beginning.
func NewReader(file io.Reader) *Reader {
	return &Reader{src: &source{in: bufio.NewReaderSize(file, 64<<10)}}
}

// Count is how many whole records were read.
func (r *Reader) Count() int { return r.count }

// Offset is where the last whole record ends.
func (r *Reader) Offset() int64 {
	if r.current != nil && !r.current.done {
		return r.current.Offset
	}
	var fault *FaultError
	if errors.As(r.fault, &fault) {
		return fault.Offset
	}
	return r.src.n
}

// Next finishes the present record and returns the next; io.EOF at the end of
// a sound file, otherwise a *FaultError or the error of the file itself.
func (r *Reader) Next() (*Record, error) {
	if r.current != nil {
		if err := r.current.Finish(); err != nil {
			return nil, err
		}
	}
	if r.fault != nil {
		return nil, r.fault
	}
	start := r.src.n
	rec, err := r.open(start)
	if err != nil {
		return nil, r.fail(start, err)
	}
	r.current = rec
	return rec, nil
}

func (r *Reader) open(start int64) (*Record, error) {
	head, err := r.src.in.Peek(2)
	switch {
	case len(head) == 0 && errors.Is(err, io.EOF):
		return nil, io.EOF
	case err != nil && !errors.Is(err, io.EOF):
		return nil, err
	}
	zipped := string(head) == "\x1f\x8b"
	if r.count > 0 && zipped != r.zipped {
		return nil, errors.New("no record begins here, and the file does not end")
	}
	r.zipped, r.text = zipped, r.src
	if zipped {
		if err := r.member(); err != nil {
			return nil, err
		}
	}
	rec := &Record{Offset: start, reader: r}
	if err := rec.readHeader(r.text); err != nil {
		return nil, err
	}
	rec.left = &io.LimitedReader{R: r.text, N: rec.Size}
	rec.check = newCheck(rec)
	rec.Block = io.TeeReader(rec.left, rec.check)
	return rec, nil
}

// member opens the next gzip member.
func (r *Reader) member() (err error) {
	if r.zip == nil {
		r.zip, err = gzip.NewReader(r.src)
		r.unzip = bufio.NewReaderSize(nil, 16<<10)
	} else {
		err = r.zip.Reset(r.src)
	}
	if err != nil {
		return fmt.Errorf("gzip: %w", err)
	}
	r.zip.Multistream(false)
	r.unzip.Reset(r.zip)
	r.text = r.unzip
	return nil
}

// fail turns an error into the fault of the record at the offset.
func (r *Reader) fail(at int64, err error) error {
	if errors.Is(err, io.EOF) && r.src.n == at {
		r.fault = io.EOF
		return io.EOF
	}
	f := &FaultError{Offset: at, Record: r.count, Why: err.Error()}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		f.Why, f.Torn = "the file ends within the record", true
	}
	r.fault = f
	return f
}

// Finish reads what is left of the record and checks its end and digests.
func (r *Record) Finish() error {
	if r.done {
		return r.err
	}
	r.done = true
	err := r.finish()
	if err != nil {
		r.err = r.reader.fail(r.Offset, err)
		return r.err
	}
	r.Length = r.reader.src.n - r.Offset
	r.reader.count++
	return nil
}

func (r *Record) finish() error {
	if _, err := io.Copy(io.Discard, r.Block); err != nil {
		return err
	}
	if r.left.N > 0 {
		return io.ErrUnexpectedEOF
	}
	var end [4]byte
	if _, err := io.ReadFull(r.reader.text, end[:]); err != nil {
		if r.reader.zipped && errors.Is(err, io.EOF) {
			return errors.New("the member ends before the two line ends that close a record")
		}
		return io.ErrUnexpectedEOF
	}
	if string(end[:]) != "\r\n\r\n" {
		return fmt.Errorf("%q follows the block, want two line ends: is Content-Length wrong?", end[:])
	}
	if r.reader.zipped {
		_, err := r.reader.text.ReadByte()
		switch {
		case err == nil:
			return errors.New("more than one record in a gzip member")
		case !errors.Is(err, io.EOF):
			return err
		}
	}
	return r.check.verdict(r.Fields)
}

// check computes the digests that a record states.
type check struct {
	block   hash.Hash
	payload hash.Hash // nil when it is not checked
	split   *splitter
}

// ofNothing is the digest that wget 1.21 states of every revisit's block.
const ofNothing = "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ"

func newCheck(r *Record) *check {
	c := &check{block: algorithm(r.Fields.Value("WARC-Block-Digest"))}
	if r.Type == Revisit { // its payload digest is that of what it refers to
		if r.Fields.Value("WARC-Block-Digest") == ofNothing {
			c.block = nil
		}
		return c
	}
	c.payload = algorithm(r.Fields.Value("WARC-Payload-Digest"))
	isHTTP := strings.HasPrefix(strings.ToLower(r.Fields.Value("Content-Type")), "application/http")
	if c.payload != nil && isHTTP {
		c.split = &splitter{body: c.payload}
	}
	return c
}

func (c *check) Write(p []byte) (int, error) {
	if c.block != nil {
		c.block.Write(p)
	}
	switch {
	case c.split != nil:
		c.split.Write(p) //nolint:errcheck // writes to memory
	case c.payload != nil:
		c.payload.Write(p)
	}
	return len(p), nil
}

func (c *check) verdict(f Fields) error {
	if want := f.Value("WARC-Block-Digest"); c.block != nil && !matches(want, c.block) {
		return fmt.Errorf("the block's digest is not the %s it states", want)
	}
	// Tools differ in whether they hash a chunked body before or after the
	// chunks are joined.
	if c.split != nil && (!c.split.done || strings.Contains(strings.ToLower(string(c.split.head)), "\r\ntransfer-encoding:")) {
		return nil
	}
	if want := f.Value("WARC-Payload-Digest"); c.payload != nil && !matches(want, c.payload) {
		return fmt.Errorf("the payload's digest is not the %s it states", want)
	}
	return nil
}

// readHeader reads the version line and the named fields.
func (r *Record) readHeader(in text) error {
	budget := MaxHeader
	line, err := readLine(in, &budget)
	if err != nil {
		return err
	}
	version, ok := strings.CutPrefix(line, "WARC/")
	if !ok || version != "1.0" && version != "1.1" {
		return fmt.Errorf("begins with %.20q, want WARC/1.0 or WARC/1.1", line)
	}
	r.Version = version
	for {
		line, err := readLine(in, &budget)
		switch {
		case err != nil:
			return err
		case line == "":
			return r.mandatory()
		case (line[0] == ' ' || line[0] == '\t') && len(r.Fields) > 0: // folded
			last := &r.Fields[len(r.Fields)-1]
			last.Value = strings.TrimSpace(last.Value + " " + strings.TrimSpace(line))
			continue
		}
		name, value, found := strings.Cut(line, ":")
		if !found || name == "" || strings.ContainsAny(name, " \t\"(),/<>@[]{}\\;?=") {
			return fmt.Errorf("%.40q is no named field", line)
		}
		r.Fields = append(r.Fields, Field{name, strings.TrimSpace(value)})
	}
}

// readLine returns a line without its CRLF. Its end inside a gzip member or
// a file is the record's, never the file's clean end.
func readLine(in text, budget *int) (string, error) {
	var line []byte
	for {
		b, err := in.ReadByte()
		if errors.Is(err, io.EOF) {
			return "", io.ErrUnexpectedEOF
		}
		if err != nil {
			return "", err
		}
		if *budget--; *budget < 0 {
			return "", fmt.Errorf("a header over %d bytes", MaxHeader)
		}
		if b != '\n' {
			line = append(line, b)
			continue
		}
		if len(line) == 0 || line[len(line)-1] != '\r' {
			return "", fmt.Errorf("%.40q ends without a carriage return", line)
		}
		return string(line[:len(line)-1]), nil
	}
}

// mandatory checks the four fields that every record must have, once.
func (r *Record) mandatory() error {
	for _, name := range []string{"WARC-Record-ID", "Content-Length", "WARC-Date", "WARC-Type"} {
		if n := r.Fields.has(name); n != 1 {
			return fmt.Errorf("%d fields named %s, want one", n, name)
		}
	}
	r.Type = Type(r.Fields.Value("WARC-Type"))
	size, err := strconv.ParseUint(r.Fields.Value("Content-Length"), 10, 63)
	if err != nil {
		return fmt.Errorf("Content-Length %q: want a number", r.Fields.Value("Content-Length"))
	}
	r.Size = int64(size)
	r.Date, err = time.Parse(time.RFC3339Nano, r.Fields.Value("WARC-Date"))
	if err != nil {
		return fmt.Errorf("WARC-Date %q: want a form like 2026-01-02T03:04:05Z", r.Fields.Value("WARC-Date"))
	}
	id := r.ID()
	if !strings.HasPrefix(id, "<") || !strings.HasSuffix(id, ">") || !strings.Contains(id, ":") {
		return fmt.Errorf("WARC-Record-ID %q: want a URI in angle brackets", id)
	}
	switch r.Type {
	case Request, Response, Resource, Revisit:
		if r.TargetURI() == "" {
			return fmt.Errorf("a %s without WARC-Target-URI", r.Type)
		}
	}
	return nil
}
