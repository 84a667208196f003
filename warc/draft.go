package warc

import (
	"crypto/sha1" // what WARC tools expect
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

// Draft is a record to be written. Its block is Head followed by Body.
type Draft struct {
	Type        Type
	ID          string // with angle brackets; made by the writer if empty
	Date        time.Time
	TargetURI   string
	ContentType string
	Fields      Fields // further fields
	Head        []byte // of an HTTP message, up to and with its empty line; or a short block
	// Body is read twice, from its present position: once for the digests, once
	// for the file. It must not change in between.
	Body io.ReadSeeker
	// Payload says that Body is a payload: its digests are stated.
	Payload bool

	measured bool
	size     int64 // of Body
	block    string
	payload  string // sha1 in base32, with its label
	sha256   string // in hexadecimal
}

// measure computes length and digests, once.
func (d *Draft) measure() error {
	if d.measured {
		return nil
	}
	block, payload, strong := sha1.New(), sha1.New(), sha256.New()
	block.Write(d.Head)
	if d.Body != nil {
		start, err := d.Body.Seek(0, io.SeekCurrent)
		if err != nil {
			return fmt.Errorf("body: %w", err)
		}
		d.size, err = io.Copy(io.MultiWriter(block, payload, strong), d.Body)
		if err != nil {
			return fmt.Errorf("body: %w", err)
		}
		if _, err := d.Body.Seek(start, io.SeekStart); err != nil {
			return fmt.Errorf("body: %w", err)
		}
	}
	d.block, d.payload, d.sha256 = sum(block), sum(payload), hex.EncodeToString(strong.Sum(nil))
	d.measured = true
	return nil
}

// header is the record's header with its empty line.
func (d *Draft) header(info string) []byte {
	f := Fields{{"WARC-Type", string(d.Type)}, {"WARC-Record-ID", d.ID}, {"WARC-Date", date(d.Date)}}
	if d.TargetURI != "" {
		f = append(f, Field{"WARC-Target-URI", d.TargetURI})
	}
	if info != "" && d.Type != Info {
		f = append(f, Field{"WARC-Warcinfo-ID", info})
	}
	f = append(f, d.Fields...)
	f = append(f, Field{"WARC-Block-Digest", d.block})
	if d.Payload {
		f = append(f, Field{"WARC-Payload-Digest", d.payload}, Field{"Ebb-Payload-SHA256", d.sha256})
	}
	if d.ContentType != "" {
		f = append(f, Field{"Content-Type", d.ContentType})
	}
	f = append(f, Field{"Content-Length", strconv.FormatInt(int64(len(d.Head))+d.size, 10)})
	return append(append([]byte("WARC/1.1\r\n"), f.bytes()...), "\r\n"...)
}

var errChanged = errors.New("body: its length changed while it was written")

func (d *Draft) copyBlock(to io.Writer) error {
	if _, err := to.Write(d.Head); err != nil {
		return err
	}
	if d.Body == nil {
		return nil
	}
	n, err := io.Copy(to, d.Body)
	if err == nil && n != d.size {
		err = errChanged
	}
	return err
}
