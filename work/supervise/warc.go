package supervise

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// CountWARC walks a WARC file, gzipped or not, record by record. It returns
// how many are whole, and an error for what follows them: a torn tail.
func CountWARC(path string) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer closeFile(f)
	in := bufio.NewReaderSize(f, 64<<10)
	head, err := in.Peek(2)
	if errors.Is(err, io.EOF) {
		return 0, errors.New("is empty")
	} else if err != nil {
		return 0, err
	}
	var body io.Reader = in
	if head[0] == 0x1f && head[1] == 0x8b {
		if body, err = gzip.NewReader(in); err != nil {
			return 0, fmt.Errorf("is not gzip: %w", err)
		}
	}
	r := bufio.NewReaderSize(body, 64<<10)
	for n := int64(0); ; n++ {
		done, err := skipRecord(r)
		if err != nil {
			return n, fmt.Errorf("is torn after %d records: %w", n, err)
		}
		if done {
			return n, nil
		}
	}
}

// skipRecord passes one record; done at the end of the file.
func skipRecord(r *bufio.Reader) (done bool, err error) {
	line, err := r.ReadString('\n')
	if errors.Is(err, io.EOF) && line == "" {
		return true, nil
	}
	if err != nil {
		return false, unexpected(err)
	}
	if !strings.HasPrefix(line, "WARC/1.") {
		return false, fmt.Errorf("%.20q is no record", line)
	}
	length := int64(-1)
	for {
		if line, err = r.ReadString('\n'); err != nil {
			return false, unexpected(err)
		}
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			break
		}
		if name, value, ok := strings.Cut(line, ":"); ok && strings.EqualFold(name, "Content-Length") {
			if length, err = strconv.ParseInt(strings.TrimSpace(value), 10, 64); err != nil {
				return false, err
			}
		}
	}
	if length < 0 {
		return false, errors.New("a record without a length")
	}
	if _, err := io.CopyN(io.Discard, r, length); err != nil {
		return false, unexpected(err)
	}
	var end [4]byte
	if _, err := io.ReadFull(r, end[:]); err != nil {
		return false, unexpected(err)
	}
	if string(end[:]) != "\r\n\r\n" {
		return false, errors.New("a record without an end")
	}
	return false, nil
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
