// Package input answers "which URLs?": it reads them one at a time from
// arguments, lists, CSV columns and sitemaps, so that a million of them take
// no more memory than one, and says of every bad one where it stands.
package input

import (
	"fmt"
	"io"
	"iter"
	"os"
	"strings"

	"github.com/ebbhq/ebb/work/fetch/scope"
)

// Item is one URL of the input.
type Item struct {
	URL     string   // in normal form
	Context []Column // what stood beside it: the other columns of a CSV, a sitemap's lastmod
	Source  string   // the file, "standard input" or "argument"
	Line    int      // from 1; of arguments their number
}

// Column is one value carried along with a URL into the report.
type Column struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Format says how a source is to be read.
type Format string

const (
	Auto    Format = ""        // by the file's name, else by its first byte
	Lines   Format = "lines"   // one URL a line; blank lines and lines that begin with # are passed over
	CSV     Format = "csv"     // with a header; comma, semicolon or tab
	Sitemap Format = "sitemap" // sitemap.xml or an index of sitemaps
)

// Source is one place that URLs come from. Anything may be gzipped.
type Source struct {
	Name   string // a file, "-" for standard input, or a sitemap's URL
	Format Format
	// Column of a CSV: its name in the header, or its number from 1. Empty:
	// the column named url.
	Column string

	args []string
}

// Arguments is the source of URLs given on the command line.
func Arguments(urls ...string) Source {
	return Source{Name: "argument", args: append([]string{}, urls...)} // never nil, which would be a file
}

// Options changes how Read works. The zero value is ready to use.
type Options struct {
	// Open opens files, "-" and the URLs of sitemaps. Nil opens files and
	// standard input alone.
	Open func(name string) (io.ReadCloser, error)
	// Seen reports whether a URL was read before, and remembers it. Nil: a
	// Set, which takes about 32 bytes a URL. Who has a ledger asks that.
	Seen func(url string) (bool, error)
	// MaxURLs is how many different URLs are taken; 0 = no limit.
	MaxURLs int
	// MaxSitemapBytes limits one sitemap, unpacked; 0 = 50 MiB, the
	// protocol's own limit.
	MaxSitemapBytes int64
	// MaxSitemaps limits the sitemaps that indexes name; 0 = 50,000.
	MaxSitemaps int
}

const (
	maxLine     = 64 << 10 // of a list; a line, not a URL
	maxRecord   = 1 << 20  // of a CSV: a quote never closed would swallow the file
	maxNesting  = 5        // of sitemap indexes; the protocol knows one level
	maxSitemaps = 50_000
	maxSitemap  = 50 << 20
)

// Count is what was read so far.
type Count struct {
	Read       int // URLs, the bad ones not among them
	Unique     int
	Duplicates int
	Bad        int
	Sitemaps   int
}

// Error is a fault of the input, with its place.
type Error struct {
	Source string
	Line   int    // 0 when the fault is the source's as a whole
	Text   string // what stood there, cut to 80 bytes
	Err    error
	// Fatal says that the source cannot be read further.
	Fatal bool
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "input: %s", e.Source)
	if e.Line > 0 {
		fmt.Fprintf(&b, ", line %d", e.Line)
	}
	if e.Text != "" {
		fmt.Fprintf(&b, ": %q", e.Text)
	}
	fmt.Fprintf(&b, ": %v", e.Err)
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

// Reader reads the sources in their order.
type Reader struct {
	sources []Source
	opt     Options
	count   Count
	visited map[string]bool // sitemaps
	yield   func(Item, error) bool
	stopped bool
}

// Read prepares to read the sources; nothing is opened before All is ranged over.
func Read(sources []Source, opt Options) *Reader {
	if opt.Open == nil {
		opt.Open = open
	}
	if opt.Seen == nil {
		set := new(Set)
		opt.Seen = func(url string) (bool, error) { return !set.Add(url), nil }
	}
	if opt.MaxSitemapBytes == 0 {
		opt.MaxSitemapBytes = maxSitemap
	}
	if opt.MaxSitemaps == 0 {
		opt.MaxSitemaps = maxSitemaps
	}
	return &Reader{sources: sources, opt: opt, visited: make(map[string]bool)}
}

func open(name string) (io.ReadCloser, error) {
	switch {
	case name == "-":
		return io.NopCloser(os.Stdin), nil
	case isURL(name):
		return nil, fmt.Errorf("a sitemap of the web: nothing here fetches it")
	}
	return os.Open(name)
}

func isURL(name string) bool {
	return strings.HasPrefix(name, "https://") || strings.HasPrefix(name, "http://")
}

// All yields every URL once, in the order of the input; a duplicate is
// counted and passed over. A fault comes as an *Error in its place, and the
// rest follows it unless it is Fatal: the caller decides whether to go on.
// It can be ranged over once.
func (r *Reader) All() iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		r.yield = yield
		for _, s := range r.sources {
			if r.stopped {
				return
			}
			r.source(s)
		}
	}
}

// Count returns what was read so far.
func (r *Reader) Count() Count { return r.count }

func (r *Reader) source(s Source) {
	if s.args != nil {
		for i, arg := range s.args {
			if r.stopped {
				return
			}
			r.take(arg, nil, s.Name, i+1)
		}
		return
	}
	if s.Name == "" {
		r.fail(&Error{Source: "(unnamed)", Err: fmt.Errorf("no file given"), Fatal: true})
		return
	}
	r.file(s, 0)
}

// take checks one text that should be a URL and yields it.
func (r *Reader) take(text string, context []Column, source string, line int) {
	url, err := scope.Normalize(text)
	if err != nil {
		r.count.Bad++
		r.fail(&Error{Source: source, Line: line, Text: cut(text), Err: err})
		return
	}
	r.count.Read++
	seen, err := r.opt.Seen(url)
	switch {
	case err != nil:
		r.fail(&Error{Source: source, Line: line, Err: err, Fatal: true})
		r.stopped = true
		return
	case seen:
		r.count.Duplicates++
		return
	case r.opt.MaxURLs > 0 && r.count.Unique >= r.opt.MaxURLs:
		r.fail(&Error{Source: source, Line: line, Err: fmt.Errorf("more than %d URLs, which is the limit set", r.opt.MaxURLs), Fatal: true})
		r.stopped = true
		return
	}
	r.count.Unique++
	if !r.yield(Item{URL: url, Context: context, Source: source, Line: line}, nil) {
		r.stopped = true
	}
}

func (r *Reader) fail(e *Error) {
	if !r.yield(Item{}, e) {
		r.stopped = true
	}
}

func cut(text string) string {
	text = strings.TrimSpace(text)
	if len(text) <= 80 {
		return text
	}
	return strings.ToValidUTF8(text[:77], "") + "…"
}
