package warc_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/ebbhq/ebb/warc"
)

// plain is a sound record; each fault below is one change of it.
const plain = "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: <http://a/>\r\nWARC-Date: 2026-01-02T03:04:05Z\r\n" +
	"WARC-Record-ID: <urn:uuid:1>\r\nWARC-Block-Digest: sha1:IORUMWLIBUO53GZZJS7FEOU3IDD3AFBH\r\n" +
	"WARC-Payload-Digest: sha1:VL2MMHO4YXUKFWV63YHTWSBM3GXKSQ2N\r\nContent-Type: application/http\r\nContent-Length: 24\r\n\r\n" +
	"HTTP/1.1 200 OK\r\n\r\nhello\r\n\r\n"

func zipped(parts ...string) string {
	var b bytes.Buffer
	for _, p := range parts {
		w := gzip.NewWriter(&b)
		io.WriteString(w, p)
		w.Close()
	}
	return b.String()
}

func TestReader(t *testing.T) {
	swap := func(old, with string) string {
		if !strings.Contains(plain, old) {
			t.Fatalf("the sound record has no %q", old)
		}
		return strings.Replace(plain, old, with, 1)
	}
	member := zipped(plain)
	for _, c := range []struct {
		name, file string
		records    int
		offset     int64 // of the fault
		why        string
		torn       bool
	}{
		{name: "nothing", file: ""},
		{name: "one", file: plain, records: 1},
		{name: "two", file: plain + plain, records: 2},
		{name: "zipped", file: zipped(plain, plain, plain), records: 3},
		{name: "version 1.1", file: swap("WARC/1.0", "WARC/1.1"), records: 1},
		{name: "folded field", file: swap("Content-Type: application/http", "Content-Type:\r\n application/http"), records: 1},
		{name: "fraction", file: swap("05Z", "05.123Z"), records: 1},
		{name: "digest in hexadecimal", file: swap("VL2MMHO4YXUKFWV63YHTWSBM3GXKSQ2N", "aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d"), records: 1},
		{name: "digest unknown", file: swap("sha1:VL2MMHO4YXUKFWV63YHTWSBM3GXKSQ2N", "blake3:xyz"), records: 1},

		{name: "version 2", file: plain + swap("WARC/1.0", "WARC/2.0"), records: 1, offset: int64(len(plain)), why: `begins with "WARC/2.0"`},
		{name: "bare line feed", file: swap("WARC-Type: response\r\n", "WARC-Type: response\n"), why: "without a carriage return"},
		{name: "no field", file: swap("WARC-Type: response", "WARC-Type response"), why: "no named field"},
		{name: "no type", file: swap("WARC-Type: response\r\n", ""), why: "0 fields named WARC-Type"},
		{name: "no date", file: swap("WARC-Date", "X-Date"), why: "0 fields named WARC-Date"},
		{name: "bad date", file: swap("2026-01-02T03:04:05Z", "yesterday"), why: "WARC-Date"},
		{name: "two lengths", file: swap("Content-Length: 24\r\n", "Content-Length: 24\r\ncontent-length: 24\r\n"), why: "2 fields named Content-Length"},
		{name: "bad length", file: swap("Content-Length: 24", "Content-Length: -1"), why: "want a number"},
		{name: "short length", file: swap("Content-Length: 24", "Content-Length: 23"), why: "is Content-Length wrong?"},
		{name: "long length", file: plain + swap("Content-Length: 24", "Content-Length: 240"), records: 1, offset: int64(len(plain)), torn: true},
		{name: "bad id", file: swap("<urn:uuid:1>", "urn:uuid:1"), why: "angle brackets"},
		{name: "no target", file: swap("WARC-Target-URI: <http://a/>\r\n", ""), why: "without WARC-Target-URI"},
		{name: "block changed", file: swap("hello", "hallo"), why: "block's digest"},
		{name: "payload digest", file: swap("VL2M", "VL3M"), why: "payload's digest"},
		{name: "long header", file: swap("WARC-Type: response", "X: "+strings.Repeat("x", 300<<10)), why: "a header over 262144 bytes"},
		{name: "end within header", file: plain[:60], torn: true},
		{name: "end within block", file: plain[:len(plain)-6], torn: true},
		{name: "end within the line ends", file: plain[:len(plain)-1], torn: true},
		{name: "zeros after", file: plain + "\x00\x00\x00", records: 1, offset: int64(len(plain)), torn: true},
		{name: "two records in a member", file: zipped(plain + plain), why: "more than one record"},
		{name: "member without the line ends", file: zipped(plain[:len(plain)-4]), why: "two line ends"},
		{name: "member cut", file: member + member[:len(member)-1], records: 1, offset: int64(len(member)), torn: true},
		{name: "member's checksum", file: member[:len(member)-8] + "\x00\x00\x00\x00" + member[len(member)-4:], why: "gzip: invalid checksum"},
		{name: "plain after zipped", file: member + plain, records: 1, offset: int64(len(member)), why: "no record begins here"},
		{name: "zeros after zipped", file: member + "\x00\x00\x00", records: 1, offset: int64(len(member)), why: "no record begins here"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := warc.Walk(strings.NewReader(c.file), nil)
			if s.Records != c.records {
				t.Errorf("%d records, want %d", s.Records, c.records)
			}
			if c.why == "" && !c.torn {
				if err != nil || s.End != int64(len(c.file)) {
					t.Errorf("ends at %d with %v, want sound to the end at %d", s.End, err, len(c.file))
				}
				return
			}
			var fault *warc.FaultError
			if !errors.As(err, &fault) {
				t.Fatalf("got %v, want a fault", err)
			}
			if fault.Offset != c.offset || s.End != c.offset || fault.Record != c.records || fault.Torn != c.torn || !strings.Contains(fault.Why, c.why) {
				t.Errorf("got %+v, end %d, want %q at %d, torn %v", fault, s.End, c.why, c.offset, c.torn)
			}
		})
	}
}

func TestReaderNextAfterPartOfABlock(t *testing.T) {
	r := warc.NewReader(strings.NewReader(zipped(plain, plain)))
	first, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	if first.TargetURI() != "http://a/" || first.ID() != "<urn:uuid:1>" || first.Size != 24 || first.Date.Year() != 2026 {
		t.Errorf("read %+v", first)
	}
	if _, err := io.ReadFull(first.Block, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	second, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	if second.Offset != first.Length || r.Count() != 1 || r.Offset() != second.Offset {
		t.Errorf("the second begins at %d, the first is %d long; %d whole, up to %d", second.Offset, first.Length, r.Count(), r.Offset())
	}
	for range 2 {
		if _, err := r.Next(); !errors.Is(err, io.EOF) {
			t.Errorf("at the end: %v", err)
		}
	}
	if r.Count() != 2 {
		t.Errorf("%d records, want 2", r.Count())
	}
}

// FuzzReader: whatever the bytes, the walk ends, and what it calls sound up to
// End is sound when it is read alone.
func FuzzReader(f *testing.F) {
	f.Add([]byte(plain))
	f.Add([]byte(zipped(plain, plain)))
	f.Add([]byte(zipped(plain) + "\x1f\x8b"))
	f.Add([]byte(plain[:100]))
	f.Fuzz(func(t *testing.T, file []byte) {
		s, err := warc.Walk(bytes.NewReader(file), nil)
		if err == nil && s.End != int64(len(file)) {
			t.Fatalf("sound, but ends at %d of %d", s.End, len(file))
		}
		var fault *warc.FaultError
		if err != nil && (!errors.As(err, &fault) || fault.Offset != s.End) {
			t.Fatalf("%v, but whole up to %d", err, s.End)
		}
		again, err := warc.Walk(bytes.NewReader(file[:s.End]), nil)
		if err != nil || again.Records != s.Records {
			t.Fatalf("the whole part alone: %d records, %v, want %d", again.Records, err, s.Records)
		}
	})
}
