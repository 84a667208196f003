// Package path answers "under which name is a page kept?": a file name for
// every URL, which no other URL has, on any file system: none differs from
// another in case alone, none is a directory of another, none is long, special
// to Windows, hidden, or leads out of its directory.
//
// Names stay as readable as that allows. What URLs in normal form never hold,
// a percent sign without two hexadecimal digits, marks what was changed:
//
//	https://a/docs/          a/docs/index.html
//	https://a/docs/x.pdf     a/docs/x.pdf
//	https://a/docs           a/docs%.html         a page beside a directory
//	https://a/v1.0/x.pdf     a/v1.0%/x.pdf        a directory beside a page
//	https://a/x.php?id=1     a/x.php%@id=1        a query
//	https://a/README.txt     a/README%~fc.txt     capitals: which letters are
//	https://a/b:c.txt        a/b%x3ac.txt         a character that some system refuses
//	https://a/index.html     a/%index.html        what a directory's page is named
//	http://a:8080/x.pdf      a+http+8080/x.pdf    another server than https://a
package path

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const (
	maxName = 200 // bytes of one name; file systems allow 255
	maxPath = 900 // of all, so that a directory of the user's fits before it
)

// Of returns the name, with slashes, for a URL in normal form. contentType
// gives pages without an ending one; it may be empty.
func Of(url, contentType string) string {
	scheme, rest, _ := strings.Cut(url, "://")
	rest, query, hasQuery := strings.Cut(rest, "?")
	host, page, _ := strings.Cut(rest, "/")
	names := []string{hostName(scheme, host)}
	segments := strings.Split(page, "/")
	last := segments[len(segments)-1]
	prefix := scheme + "://" + host
	for _, s := range segments[:len(segments)-1] {
		prefix += "/" + s
		names = append(names, directory(s, prefix))
	}
	file := fileName(last, ending(contentType))
	if hasQuery {
		file += "%@" + safe(query, false)
	}
	names = append(names, limit(withCapitals(file, last+query), "file "+url, extension(file)))
	path := strings.Join(names, "/")
	if len(path) > maxPath {
		return names[0] + "/%long/" + hash(url) + extension(file)
	}
	return path
}

func hostName(scheme, host string) string {
	name := host
	port := ""
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		name, port = host[:i], "+"+host[i+1:]
	}
	if scheme != "https" {
		port = "+" + scheme + port
	}
	return limit(strings.ReplaceAll(safe(name, true), "+", "%x2b"), "host "+scheme+host, "") + port
}

// directory names a directory; prefix is the URL up to and with it. One with a
// dot gets a mark: names without one are those of directories.
func directory(segment, prefix string) string {
	if segment == "" {
		return "%"
	}
	name := safe(segment, true)
	if strings.Contains(name, ".") {
		name += "%"
	}
	return limit(withCapitals(name, segment), "directory "+prefix, "")
}

// fileName names a page's file. One without a dot gets a mark.
func fileName(segment, ending string) string {
	switch segment {
	case "":
		return "index.html"
	case "index.html":
		return "%index.html"
	}
	name := safe(segment, true)
	if !strings.Contains(name, ".") {
		name += "%" + ending
	}
	return name
}

// safe replaces characters that some file system refuses, and in whole names
// (not in queries, which follow one) dots at the ends and the names of
// Windows' devices.
func safe(s string, whole bool) string {
	const hexDigits = "0123456789abcdef"
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		end := i == len(s)-1
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`:*?"<>|\/`, c) >= 0 || c == '.' && (end || whole && i == 0) {
			b.WriteString("%x")
			b.WriteByte(hexDigits[c>>4])
			b.WriteByte(hexDigits[c&15])
		} else {
			b.WriteByte(c)
		}
	}
	name := b.String()
	stem, _, _ := strings.Cut(strings.ToLower(name), ".")
	if whole && device(stem) {
		return "%_" + name
	}
	return name
}

func device(stem string) bool {
	switch stem {
	case "con", "prn", "aux", "nul", "conin$", "conout$", "clock$":
		return true
	}
	return len(stem) == 4 && (strings.HasPrefix(stem, "com") || strings.HasPrefix(stem, "lpt")) && stem[3] >= '0' && stem[3] <= '9'
}

// withCapitals notes in the name which letters of the text are capitals, so
// that names differ in more than case. The digits of percent-encoding always
// are and do not count.
func withCapitals(name, text string) string {
	const hexDigits = "0123456789abcdef"
	var digits []byte
	nibble, bits, any := byte(0), 0, false
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '%' {
			i += 2
			continue
		}
		upper := 'A' <= c && c <= 'Z'
		if !upper && (c < 'a' || c > 'z') {
			continue
		}
		nibble <<= 1
		if upper {
			nibble |= 1
			any = true
		}
		if bits++; bits%4 == 0 {
			digits, nibble = append(digits, hexDigits[nibble]), 0
		}
	}
	if !any {
		return name
	}
	if bits%4 != 0 {
		digits = append(digits, hexDigits[nibble<<(4-bits%4)])
	}
	mark := "%~" + strings.TrimRight(string(digits), "0")
	stem, query, hasQuery := strings.Cut(name, "%@")
	at := len(stem) - len(extension(stem))
	name = stem[:at] + mark + stem[at:]
	if hasQuery {
		name += "%@" + query
	}
	return name
}

// extension is the ending of a file's name with its dot, if it is a short one.
func extension(name string) string {
	name, _, _ = strings.Cut(name, "%@")
	dot := strings.LastIndexByte(name, '.')
	if dot <= 0 || len(name)-dot > 8 || strings.Contains(name[dot:], "%") {
		return ""
	}
	return name[dot:]
}

// limit cuts a long name; what it stands for keeps it apart from all others.
func limit(name, of, ending string) string {
	if len(name) <= maxName {
		return name
	}
	tail := "%-" + hash(of) + ending
	return strings.TrimRight(name[:maxName-len(tail)], "%.") + tail
}

// hash is 128 bits of SHA-256.
func hash(of string) string {
	sum := sha256.Sum256([]byte(of))
	return hex.EncodeToString(sum[:16])
}

// ending is what files of a type are named with, for the types that pages
// without an ending have.
func ending(contentType string) string {
	media, _, _ := strings.Cut(strings.ToLower(contentType), ";")
	switch strings.TrimSpace(media) {
	case "text/html", "application/xhtml+xml":
		return ".html"
	case "application/pdf":
		return ".pdf"
	case "application/json":
		return ".json"
	case "text/plain":
		return ".txt"
	case "text/xml", "application/xml":
		return ".xml"
	case "text/csv":
		return ".csv"
	case "image/jpeg":
		return ".jpg"
	case "image/png":
		return ".png"
	}
	return ""
}
