package fetch

import (
	"fmt"
	"strings"
)

// maxName is the longest name of a file or directory that is made of a URL;
// longer ones are cut and get the URL's short name. File systems allow 255.
const maxName = 200

// pathOf is where the page of a URL in normal form is kept: HOST/PATH, a
// directory's page as index.html, the query as part of the name. Two URLs have
// two paths.
func pathOf(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	host, path, _ := strings.Cut(rest, "/")
	var query string
	if h, q, found := strings.Cut(host, "?"); found {
		host, query, path = h, "?"+q, ""
	}
	if p, q, found := strings.Cut(path, "?"); found {
		path, query = p, "?"+q
	}
	parts := []string{safeName(host, url)}
	if strings.HasPrefix(url, "http://") {
		parts[0] += "+http" // the same path may be another page than by https
	}
	segments := strings.Split(path, "/")
	for i, s := range segments {
		last := i == len(segments)-1
		switch {
		case last && s == "":
			s = "index.html"
		case last && s == "index.html": // the directory's own page is another
			parts = append(parts, safeName("%69ndex.html"+query, url))
			return strings.Join(parts, "/")
		case s == "":
			s = "%"
		}
		if last {
			s += query
		}
		parts = append(parts, safeName(s, url))
	}
	return strings.Join(parts, "/")
}

// safeName makes a name of one segment that means the same on every file
// system and never leaves its directory.
func safeName(s, url string) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		switch {
		case c < 0x20, c == 0x7f, c == '/', c == '\\', c == '*', c == '"', c == '<', c == '>', c == '|', c == ':' && i == 0,
			c == '.' && i == 0, c == '.' && i == len(s)-1:
			fmt.Fprintf(&b, "%%%02x", c) // in small letters: URLs in normal form have capitals
		default:
			b.WriteByte(c)
		}
	}
	name := b.String()
	if len(name) > maxName {
		name = name[:maxName-33] + "~" + nameOf(url)
	}
	return name
}
