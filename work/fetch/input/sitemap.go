package input

import (
	"bufio"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
)

// sitemap reads the URLs of a sitemap, and of an index those of its sitemaps.
func (r *Reader) sitemap(name string, text *bufio.Reader, depth int) {
	r.count.Sitemaps++
	limit := &limited{in: text, left: r.opt.MaxSitemapBytes + 1, max: r.opt.MaxSitemapBytes}
	m := &mapReader{dec: xml.NewDecoder(limit)}
	root, err := m.root()
	for err == nil && !r.stopped {
		var e entry
		e, err = m.next(root)
		switch {
		case err != nil:
		case e.loc == "":
			r.count.Bad++
			r.fail(&Error{Source: name, Line: e.line, Err: errors.New("an entry without <loc>")})
		case root == "sitemapindex":
			r.below(name, e, depth)
		default:
			r.take(e.loc, e.context(), name, e.line)
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		line, _ := m.dec.InputPos()
		var syntax *xml.SyntaxError
		if errors.As(err, &syntax) {
			err = errors.New(syntax.Msg)
		}
		r.fail(&Error{Source: name, Line: line, Err: err, Fatal: true})
	}
}

// below reads a sitemap that an index names.
func (r *Reader) below(index string, e entry, depth int) {
	fault := &Error{Source: index, Line: e.line, Text: cut(e.loc), Fatal: true}
	switch {
	case r.visited[e.loc]:
		return // named twice, or a circle
	case depth >= maxNesting:
		fault.Err = fmt.Errorf("indexes of sitemaps nested deeper than %d", maxNesting)
	case len(r.visited) >= r.opt.MaxSitemaps:
		fault.Err = fmt.Errorf("more than %d sitemaps, which is the limit set", r.opt.MaxSitemaps)
		r.stopped = true
	default:
		r.visited[e.loc] = true
		r.file(Source{Name: e.loc, Format: Sitemap}, depth+1)
		return
	}
	r.yield(Item{}, fault)
}

// entry is one <url> or <sitemap>.
type entry struct {
	loc, lastmod string
	line         int
}

func (e entry) context() []Column {
	if e.lastmod == "" {
		return nil
	}
	return []Column{{Name: "lastmod", Value: e.lastmod}}
}

type mapReader struct{ dec *xml.Decoder }

// root reads up to the first element.
func (m *mapReader) root() (string, error) {
	for {
		token, err := m.dec.Token()
		if errors.Is(err, io.EOF) {
			return "", errors.New("empty: want a <urlset> or a <sitemapindex>")
		}
		if err != nil {
			return "", err
		}
		if start, ok := token.(xml.StartElement); ok {
			switch start.Name.Local {
			case "urlset", "sitemapindex":
				return start.Name.Local, nil
			}
			return "", fmt.Errorf("no sitemap: the document is <%s>, want <urlset> or <sitemapindex>", start.Name.Local)
		}
	}
}

// next reads one entry; io.EOF at the end of the root. Entries hold further
// elements of other names (images, alternates), whose own <loc> is not ours.
func (m *mapReader) next(root string) (entry, error) {
	want := map[string]string{"urlset": "url", "sitemapindex": "sitemap"}[root]
	for {
		token, err := m.dec.Token()
		if errors.Is(err, io.EOF) {
			return entry{}, io.ErrUnexpectedEOF
		}
		if err != nil {
			return entry{}, err
		}
		switch token := token.(type) {
		case xml.EndElement:
			return entry{}, io.EOF
		case xml.StartElement:
			if token.Name.Local == want {
				return m.entry()
			}
			if err := m.dec.Skip(); err != nil {
				return entry{}, err
			}
		}
	}
}

func (m *mapReader) entry() (entry, error) {
	var e entry
	e.line, _ = m.dec.InputPos()
	for {
		token, err := m.dec.Token()
		if err != nil {
			return entry{}, err
		}
		switch token := token.(type) {
		case xml.EndElement:
			return e, nil
		case xml.StartElement:
			line, _ := m.dec.InputPos()
			var text string
			if err := m.dec.DecodeElement(&text, &token); err != nil {
				return entry{}, err
			}
			switch token.Name.Local {
			case "loc":
				e.loc, e.line = strings.TrimSpace(text), line
			case "lastmod":
				e.lastmod = strings.TrimSpace(text)
			}
		}
	}
}

// limited fails, other than io.LimitedReader, when there is more.
type limited struct {
	in        io.Reader
	left, max int64 // left is one more than may be read
}

func (l *limited) Read(p []byte) (int, error) {
	n, err := l.in.Read(p[:min(int64(len(p)), l.left)])
	if l.left -= int64(n); l.left <= 0 {
		return 0, fmt.Errorf("a sitemap over %d bytes unpacked, which is the limit set", l.max)
	}
	return n, err
}
