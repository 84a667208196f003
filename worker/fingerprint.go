package worker

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/ebbhq/ebb/failure"
)

// fingerprintText is how much of an error counts: what tells failures apart
// stands at the front, and targets can send megabytes.
const fingerprintText = 512

// Fingerprint groups dead letters: equal for failures of the same class and
// reason whose texts differ only in their variable parts. 16 hex digits.
func Fingerprint(f failure.Failure) string {
	text := ""
	if f.Err != nil {
		text = f.Err.Error()
	}
	sum := sha256.Sum256([]byte(f.Class.String() + "\x00" + f.Reason + "\x00" + Shape(text)))
	return hex.EncodeToString(sum[:8])
}

// Shape returns an error's text without its variable parts: quoted strings
// become "…", words with a digit in them (numbers, ids, addresses, times,
// hexadecimal) become #, runs of white space one space. Longer texts are cut.
func Shape(text string) string {
	if len(text) > fingerprintText {
		text = strings.ToValidUTF8(text[:fingerprintText], "")
	}
	var b strings.Builder
	b.Grow(len(text))
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case isSpace(c):
			for i < len(text) && isSpace(text[i]) {
				i++
			}
			b.WriteByte(' ')
		case isQuote(c) && quoteEnd(text, i) > 0:
			i = quoteEnd(text, i)
			b.WriteString(`"…"`)
		case isWord(c):
			end := wordEnd(text, i)
			b.WriteString(shapeWord(text[i:end]))
			i = end
		default:
			b.WriteByte(c)
			i++
		}
	}
	return strings.TrimSpace(b.String())
}

// shapeWord replaces a word that varies. Words glued by colons, dots and
// dashes are one: 10.0.0.1:5432, 2026-01-02T03:04:05Z, fe80::1, a UUID.
func shapeWord(word string) string {
	tail := strings.TrimRight(word, ".:-@_")
	if strings.ContainsAny(tail, "0123456789") || longHex(tail) {
		return "#" + word[len(tail):]
	}
	return word
}

// longHex reports whether the word can only be an identifier: eight or more
// hexadecimal letters, such as "deadbeef". Shorter ones may be words.
func longHex(word string) bool {
	if len(word) < 8 {
		return false
	}
	for i := range len(word) {
		if c := word[i] | 0x20; (c < 'a' || c > 'f') && c != '-'|0x20 {
			return false
		}
	}
	return true
}

func wordEnd(text string, i int) int {
	for i < len(text) && (isWord(text[i]) || strings.IndexByte(".:-@_", text[i]) >= 0) {
		i++
	}
	return i
}

// quoteEnd returns the index behind the quotation that begins at i, 0 if it
// does not end. An apostrophe inside a word begins none.
func quoteEnd(text string, i int) int {
	quote := text[i]
	if quote == '\'' && i > 0 && isWord(text[i-1]) {
		return 0
	}
	for k := i + 1; k < len(text); k++ {
		switch {
		case text[k] == '\\' && quote == '"':
			k++
		case text[k] == quote:
			return k + 1
		}
	}
	return 0
}

func isQuote(c byte) bool { return c == '"' || c == '\'' || c == '`' }
func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// isWord counts bytes of other alphabets in: they are letters too.
func isWord(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}
