// Package text answers "what does this document say?": plain text out of
// .txt, .md, .html, .json, .csv and .pdf, within limits. What it cannot read is
// the document's own fault, and its errors say what would be right.
package text

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Limits bound what is read. Zero parts take the defaults named here.
type Limits struct {
	MaxBytes int64 // of the document as it is stored; default 20 MiB
	MaxText  int   // bytes of the text that came out of it; default 1 MiB
	MaxPages int   // of a PDF; default 500
}

const (
	DefaultMaxBytes = 20 << 20
	DefaultMaxText  = 1 << 20
	DefaultMaxPages = 500
)

// Fill returns the limits with the defaults in place of zeros.
func (l Limits) Fill() Limits {
	if l.MaxBytes <= 0 {
		l.MaxBytes = DefaultMaxBytes
	}
	if l.MaxText <= 0 {
		l.MaxText = DefaultMaxText
	}
	if l.MaxPages <= 0 {
		l.MaxPages = DefaultMaxPages
	}
	return l
}

var (
	// ErrUnsupported is of an extension that nothing here reads.
	ErrUnsupported = errors.New("unsupported extension")
	// ErrTooLarge is of a document, or its text, beyond a limit.
	ErrTooLarge = errors.New("too large")
	// ErrCorrupt is of a document that is not what its extension says.
	ErrCorrupt = errors.New("corrupt")
	// ErrEmpty is of a document in which there is no text at all.
	ErrEmpty = errors.New("no text")
)

type reader func(ctx context.Context, body []byte, l Limits) (string, error)

var readers = map[string]reader{
	".txt": plain, ".md": plain, ".markdown": plain,
	".html": fromHTML, ".htm": fromHTML,
	".json": fromJSON, ".csv": fromCSV, ".pdf": fromPDF,
}

// Extensions lists what can be read.
func Extensions() []string {
	all := make([]string, 0, len(readers))
	for e := range readers {
		all = append(all, e)
	}
	slices.Sort(all)
	return all
}

// Supported reports whether a name's extension can be read.
func Supported(name string) bool { return readers[extension(name)] != nil }

func extension(name string) string { return strings.ToLower(path.Ext(name)) }

// Extract returns the text of a document by its name's extension. Errors wrap
// ErrUnsupported, ErrTooLarge, ErrCorrupt, ErrEmpty or the context's.
func Extract(ctx context.Context, name string, body []byte, l Limits) (string, error) {
	l = l.Fill()
	read := readers[extension(name)]
	switch {
	case read == nil:
		return "", fmt.Errorf("%w: %q: one of %s", ErrUnsupported, path.Base(name), strings.Join(Extensions(), ", "))
	case int64(len(body)) > l.MaxBytes:
		return "", fmt.Errorf("%w: %d bytes; the limit is %d", ErrTooLarge, len(body), l.MaxBytes)
	}
	text, err := read(ctx, body, l)
	if err != nil {
		return "", err
	}
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return "", fmt.Errorf("%w in %q; a scanned page needs character recognition first", ErrEmpty, path.Base(name))
	case len(text) > l.MaxText:
		return "", fmt.Errorf("%w: %d bytes of text; the limit is %d", ErrTooLarge, len(text), l.MaxText)
	}
	return text, nil
}

// plain reads UTF-8, or UTF-16 that says so by its first bytes.
func plain(_ context.Context, body []byte, _ Limits) (string, error) {
	body = bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))
	if text, ok := fromUTF16(body); ok {
		return text, nil
	}
	if !utf8.Valid(body) || bytes.IndexByte(body, 0) >= 0 {
		return "", fmt.Errorf("%w: not UTF-8 text; convert it first", ErrCorrupt)
	}
	return string(body), nil
}

func fromUTF16(body []byte) (string, bool) {
	if len(body) < 2 || len(body)%2 != 0 {
		return "", false
	}
	little := body[0] == 0xff && body[1] == 0xfe
	if !little && (body[0] != 0xfe || body[1] != 0xff) {
		return "", false
	}
	units := make([]uint16, 0, len(body)/2-1)
	for i := 2; i < len(body); i += 2 {
		if little {
			units = append(units, uint16(body[i])|uint16(body[i+1])<<8)
		} else {
			units = append(units, uint16(body[i])<<8|uint16(body[i+1]))
		}
	}
	return string(utf16.Decode(units)), true
}

// fromJSON checks it and gives it as it is: models read JSON.
func fromJSON(ctx context.Context, body []byte, l Limits) (string, error) {
	text, err := plain(ctx, body, l)
	if err != nil {
		return "", err
	}
	if !json.Valid([]byte(text)) {
		return "", fmt.Errorf("%w: not JSON", ErrCorrupt)
	}
	return text, nil
}

// fromCSV checks that every row can be read and gives it as it is.
func fromCSV(ctx context.Context, body []byte, l Limits) (string, error) {
	text, err := plain(ctx, body, l)
	if err != nil {
		return "", err
	}
	r := csv.NewReader(strings.NewReader(text))
	r.FieldsPerRecord, r.ReuseRecord, r.LazyQuotes = -1, true, true
	for {
		switch _, err := r.Read(); {
		case errors.Is(err, io.EOF):
			return text, nil
		case err != nil:
			return "", fmt.Errorf("%w: not CSV: %w", ErrCorrupt, err)
		}
	}
}
