package warc

import (
	"bytes"
	"crypto/md5"  // old archives name it
	"crypto/sha1" // what WARC tools expect; SHA-256 stands beside it
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"hash"
	"strings"
)

// sum formats a digest as WARC tools expect it.
func sum(h hash.Hash) string { return "sha1:" + base32.StdEncoding.EncodeToString(h.Sum(nil)) }

// algorithm returns the hash that a digest field names, nil when it is one we
// do not know.
func algorithm(field string) hash.Hash {
	label, _, _ := strings.Cut(field, ":")
	switch strings.ToLower(strings.TrimSpace(label)) {
	case "sha1", "sha-1":
		return sha1.New()
	case "sha256", "sha-256":
		return sha256.New()
	case "md5":
		return md5.New()
	}
	return nil
}

// matches compares a digest field, in base32 or hexadecimal, with a hash.
func matches(field string, h hash.Hash) bool {
	_, text, _ := strings.Cut(field, ":")
	text = strings.TrimRight(strings.TrimSpace(text), "=")
	got := h.Sum(nil)
	return strings.EqualFold(text, hex.EncodeToString(got)) ||
		strings.EqualFold(text, base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(got))
}

var headEnd = []byte("\r\n\r\n")

// splitter feeds what follows the head of an HTTP message to body. It keeps
// the head up to a limit.
type splitter struct {
	body hash.Hash
	head []byte
	done bool
	over bool // the head is longer than maxHead: there is no telling where it ends
}

const maxHead = 1 << 20

func (s *splitter) Write(p []byte) (int, error) {
	n := len(p)
	if !s.done && !s.over {
		from := max(len(s.head)-3, 0)
		s.head = append(s.head, p...)
		i := bytes.Index(s.head[from:], headEnd)
		switch {
		case i >= 0:
			end := from + i + len(headEnd)
			p = p[len(p)-(len(s.head)-end):]
			s.head, s.done = s.head[:end], true
		case len(s.head) > maxHead:
			s.head, s.over = nil, true
		}
	}
	if s.done && s.body != nil {
		s.body.Write(p)
	}
	return n, nil
}
