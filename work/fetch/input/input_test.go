package input_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ebbhq/ebb/work/fetch/input"
)

// files opens texts by name.
type files map[string]string

func (f files) open(name string) (io.ReadCloser, error) {
	text, ok := f[name]
	if !ok {
		return nil, errors.New("no such file")
	}
	return io.NopCloser(strings.NewReader(text)), nil
}

func zip(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// story tells a reading in lines: an item as source:line url context, a fault
// as its message, the counts at the end.
func story(r *input.Reader) string {
	var b strings.Builder
	for item, err := range r.All() {
		if err != nil {
			fmt.Fprintln(&b, err)
			continue
		}
		fmt.Fprintf(&b, "%s:%d %s", item.Source, item.Line, item.URL)
		for _, c := range item.Context {
			fmt.Fprintf(&b, " %s=%s", c.Name, c.Value)
		}
		b.WriteString("\n")
	}
	n := r.Count()
	fmt.Fprintf(&b, "read %d unique %d duplicate %d bad %d sitemaps %d\n", n.Read, n.Unique, n.Duplicates, n.Bad, n.Sitemaps)
	return b.String()
}

func TestSources(t *testing.T) {
	fs := files{
		"urls.txt":  "\ufeff# pages\r\nhttp://a/1\r\n\r\n  http://a/2  \nHTTP://A:80/1#top\nexample.org/x\nhttp://a/3",
		"-":         "http://a/in\n",
		"urls.gz":   zip(t, "http://a/zipped\n"),
		"bills.csv": "bill,URL,\"who, when\"\nHB 1,http://a/1,\"Smith, 2025\"\n\nHB 2,http://a/2,\"two\nlines\"\nHB 3,,x\nHB 4,http://a/4\nHB 5,nonsense,y\nHB 6,http://a/6,z\n",
		"semi.csv":  "name;link\nä;http://a/semi\n",
		"tab.tsv":   "url\tname\nhttp://a/tab\tx\n",
		"bare.csv":  "1,http://a/b1\n2,http://a/b2\n",
		"one.csv":   "address\nhttp://a/one\n",
		"sitemap.xml": `<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:image="http://www.google.com/schemas/sitemap-image/1.1">
  <url><loc>http://a/s1?x=1&amp;y=2</loc><lastmod>2026-01-02</lastmod>
    <image:image><image:loc>http://a/pic.png</image:loc></image:image></url>
  <url>
    <loc> <![CDATA[http://a/s2]]> </loc><priority>0.5</priority>
  </url>
  <url><lastmod>2026</lastmod></url>
</urlset>`,
		"index.xml":           `<sitemapindex><sitemap><loc>http://a/m1.xml.gz</loc></sitemap><sitemap><loc>http://a/gone.xml</loc></sitemap><sitemap><loc>http://a/m1.xml.gz</loc></sitemap><sitemap><loc>http://a/circle.xml</loc></sitemap></sitemapindex>`,
		"http://a/m1.xml.gz":  zip(t, "<urlset><url><loc>http://a/m1</loc></url></urlset>"),
		"http://a/circle.xml": "<sitemapindex><sitemap><loc>http://a/circle.xml</loc></sitemap></sitemapindex>",
		"torn.xml":            "<urlset><url><loc>http://a/t1</loc></url>\n<url><loc>http://a/t2",
		"page.xml":            "<html><body/></html>",
		"guess":               "\n <urlset><url><loc>http://a/guessed</loc></url></urlset>",
		"long.txt":            "http://a/1\n" + strings.Repeat("x", 70_000) + "\nhttp://a/2\n",
		"quote.csv":           "url\nhttp://a/1\n\"" + strings.Repeat("x\n", 1<<20),
		"stray.csv":           "url,n\nhttp://a/1,a\"b\nhttp://a/2,c\n",
		"utf16.txt":           "\xff\xfeh\x00t\x00t\x00p\x00:\x00",
		"empty.csv":           "",
		"twice.csv":           "url,Url\n",
		"two.csv":             "name,place\n",
	}
	for _, c := range []struct {
		name    string
		sources []input.Source
		want    string
	}{
		{"no arguments", []input.Source{input.Arguments()}, `
read 0 unique 0 duplicate 0 bad 0 sitemaps 0`},
		{"arguments", []input.Source{input.Arguments("https://B.example", "https://b.example/", "ftp://b/")}, `
argument:1 https://b.example/
input: argument, line 3: "ftp://b/": scheme ftp: only http and https are fetched
read 2 unique 1 duplicate 1 bad 1 sitemaps 0`},
		{"lines", []input.Source{{Name: "urls.txt"}, {Name: "-"}, {Name: "urls.gz"}}, `
urls.txt:2 http://a/1
urls.txt:4 http://a/2
input: urls.txt, line 6: "example.org/x": no scheme: write https://… or http://…
urls.txt:7 http://a/3
standard input:1 http://a/in
urls.gz:1 http://a/zipped
read 6 unique 5 duplicate 1 bad 1 sitemaps 0`},
		{"csv", []input.Source{{Name: "bills.csv"}}, `
bills.csv:2 http://a/1 bill=HB 1 who, when=Smith, 2025
bills.csv:4 http://a/2 bill=HB 2 who, when=two
lines
input: bills.csv, line 6: column "URL" is empty
input: bills.csv, line 7: 2 columns, want the header's 3
input: bills.csv, line 8: "nonsense": no scheme: write https://… or http://…
bills.csv:9 http://a/6 bill=HB 6 who, when=z
read 3 unique 3 duplicate 0 bad 3 sitemaps 0`},
		{"csv columns", []input.Source{{Name: "semi.csv", Column: "LINK"}, {Name: "tab.tsv"}, {Name: "bare.csv", Column: "2"}, {Name: "one.csv"}}, `
semi.csv:2 http://a/semi name=ä
tab.tsv:2 http://a/tab name=x
bare.csv:1 http://a/b1 column 1=1
bare.csv:2 http://a/b2 column 1=2
one.csv:2 http://a/one
read 5 unique 5 duplicate 0 bad 0 sitemaps 0`},
		{"csv faults", []input.Source{{Name: "empty.csv"}, {Name: "twice.csv"}, {Name: "two.csv"}, {Name: "two.csv", Column: "3"}, {Name: "stray.csv"}, {Name: "quote.csv"}}, `
input: empty.csv, line 1: empty: want a header with the columns' names
input: twice.csv, line 1: two columns are named "url": give the column's number
input: two.csv, line 1: no column is named "url": there are "name", "place"
input: two.csv, line 1: column 3: there are the columns 1 to 2
input: stray.csv, line 2: bare " in non-quoted-field
stray.csv:3 http://a/2 n=c
quote.csv:2 http://a/1
input: quote.csv: a record over 1048576 bytes: is a quote never closed?
read 2 unique 2 duplicate 0 bad 1 sitemaps 0`},
		{"sitemap", []input.Source{{Name: "sitemap.xml"}, {Name: "guess"}}, `
sitemap.xml:3 http://a/s1?x=1&y=2 lastmod=2026-01-02
sitemap.xml:6 http://a/s2
input: sitemap.xml, line 8: an entry without <loc>
guess:2 http://a/guessed
read 3 unique 3 duplicate 0 bad 1 sitemaps 2`},
		{"index", []input.Source{{Name: "index.xml"}}, `
http://a/m1.xml.gz:1 http://a/m1
input: http://a/gone.xml: no such file
read 1 unique 1 duplicate 0 bad 0 sitemaps 3`},
		{"broken", []input.Source{{Name: "torn.xml"}, {Name: "page.xml"}, {Name: "none.txt"}, {}, {Name: "long.txt"}, {Name: "utf16.txt"}}, `
torn.xml:1 http://a/t1
input: torn.xml, line 2: unexpected EOF
input: page.xml, line 1: no sitemap: the document is <html>, want <urlset> or <sitemapindex>
input: none.txt: no such file
input: (unnamed): no file given
long.txt:1 http://a/1
input: long.txt, line 2: a line over 65536 bytes: is this a list of URLs?
input: utf16.txt, line 1: a zero byte: this is no list of URLs, or not in UTF-8
read 2 unique 2 duplicate 0 bad 0 sitemaps 2`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := story(input.Read(c.sources, input.Options{Open: fs.open}))
			if diff := cmp.Diff(strings.TrimPrefix(c.want, "\n")+"\n", got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	fs := files{
		"urls":  "http://a/1\nhttp://a/1\nhttp://a/2\nhttp://a/3\n",
		"m.xml": "<urlset><url><loc>http://a/1</loc></url></urlset>",
		"i.xml": "<sitemapindex><sitemap><loc>http://a/m1</loc></sitemap><sitemap><loc>http://a/m2</loc></sitemap></sitemapindex>",
	}
	fs["http://a/m1"] = fs["m.xml"]
	for i := range 9 { // each index names the next
		fs["http://deep/"+strconv.Itoa(i)] = "<sitemapindex><sitemap><loc>http://deep/" + strconv.Itoa(i+1) + "</loc></sitemap></sitemapindex>"
	}
	for _, c := range []struct {
		source string
		opt    input.Options
		want   string
	}{
		{"urls", input.Options{MaxURLs: 2}, "input: urls, line 4: more than 2 URLs, which is the limit set"},
		{"urls", input.Options{MaxURLs: 3}, ""},
		{"m.xml", input.Options{MaxSitemapBytes: int64(len(fs["m.xml"]))}, ""},
		{"m.xml", input.Options{MaxSitemapBytes: int64(len(fs["m.xml"])) - 1}, "input: m.xml, line 1: a sitemap over 48 bytes unpacked, which is the limit set"},
		{"i.xml", input.Options{MaxSitemaps: 1}, `input: i.xml, line 1: "http://a/m2": more than 1 sitemaps, which is the limit set`},
		{"http://deep/0", input.Options{}, `input: http://deep/5, line 1: "http://deep/6": indexes of sitemaps nested deeper than 5`},
	} {
		c.opt.Open = fs.open
		var faults []string
		for _, err := range input.Read([]input.Source{{Name: c.source, Format: map[bool]input.Format{true: input.Sitemap}[c.source != "urls"]}}, c.opt).All() {
			if err != nil {
				faults = append(faults, err.Error())
			}
		}
		if got := strings.Join(faults, "\n"); got != c.want {
			t.Errorf("%s %+v: got %q, want %q", c.source, c.opt.MaxURLs, got, c.want)
		}
	}
}

func TestSeenOfTheCaller(t *testing.T) {
	broken := errors.New("ledger gone")
	r := input.Read([]input.Source{input.Arguments("http://a/1", "http://a/2", "http://a/3")}, input.Options{Seen: func(url string) (bool, error) {
		if url == "http://a/3" {
			return false, broken
		}
		return url == "http://a/1", nil
	}})
	var urls []string
	var last error
	for item, err := range r.All() {
		if err != nil {
			last = err
			continue
		}
		urls = append(urls, item.URL)
	}
	if diff := cmp.Diff([]string{"http://a/2"}, urls); diff != "" || !errors.Is(last, broken) {
		t.Errorf("%s, error %v", diff, last)
	}
}

func TestStopsWhenTheCallerDoes(t *testing.T) {
	r := input.Read([]input.Source{input.Arguments("http://a/1", "http://a/2"), input.Arguments("http://a/3")}, input.Options{})
	for range r.All() {
		break
	}
	if got := r.Count(); got.Read != 1 {
		t.Errorf("read %d after the first was refused, want 1", got.Read)
	}
}

func TestFilesOfTheDisk(t *testing.T) {
	name := filepath.Join(t.TempDir(), "urls")
	if err := os.WriteFile(name, []byte("http://a/1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := story(input.Read([]input.Source{{Name: name}, {Name: "http://a/sitemap.xml"}}, input.Options{}))
	want := name + ":1 http://a/1\ninput: http://a/sitemap.xml: a sitemap of the web: nothing here fetches it\nread 1 unique 1 duplicate 0 bad 0 sitemaps 0\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// many writes n URLs, as a list or as a sitemap.
type many struct {
	form string
	i, n int
	left []byte
}

func (m *many) Close() error { return nil }

func (m *many) Read(p []byte) (int, error) {
	for len(m.left) == 0 {
		if m.i == m.n {
			return 0, io.EOF
		}
		m.left = fmt.Appendf(m.left, m.form, m.i)
		m.i++
	}
	n := copy(p, m.left)
	m.left = m.left[n:]
	return n, nil
}

// Memory does not grow with the number of URLs when the caller keeps the
// ledger: after 30,000 and after 5,000 the heap in use is the same.
func TestMemoryIsFlat(t *testing.T) {
	for _, c := range []struct{ name, column, head, form, tail string }{
		{name: "list", form: "http://a/%d\n"},
		{name: "table.csv", column: "1", form: "http://a/%d,x,y\n"},
		{name: "sitemap.xml", head: "<urlset>", form: "<url><loc>http://a/%d</loc></url>\n", tail: "</urlset>"},
	} {
		heap := func(n int) (inUse uint64) {
			text := io.MultiReader(strings.NewReader(c.head), &many{form: c.form, n: n}, strings.NewReader(c.tail))
			r := input.Read([]input.Source{{Name: c.name, Column: c.column}}, input.Options{
				Open: func(string) (io.ReadCloser, error) { return io.NopCloser(text), nil },
				Seen: func(string) (bool, error) { return false, nil },
			})
			for _, err := range r.All() {
				if err != nil {
					t.Fatal(err)
				}
				if r.Count().Unique == n-1 {
					var m runtime.MemStats
					runtime.GC()
					runtime.ReadMemStats(&m)
					inUse = m.HeapAlloc
				}
			}
			if r.Count().Unique != n {
				t.Fatalf("%s: read %d, want %d", c.name, r.Count().Unique, n)
			}
			return inUse
		}
		small, large := heap(5_000), heap(30_000)
		if large > small+256<<10 {
			t.Errorf("%s: %d bytes in use after 5,000 URLs, %d after 30,000", c.name, small, large)
		}
	}
}

func TestSet(t *testing.T) {
	set := new(input.Set)
	for round := range 2 {
		for i := range 5000 {
			if added := set.Add(strconv.Itoa(i)); added != (round == 0) {
				t.Fatalf("round %d: Add(%d) = %v", round, i, added)
			}
		}
	}
	if set.Len() != 5000 {
		t.Errorf("Len = %d, want 5000", set.Len())
	}
}

func BenchmarkRead(b *testing.B) {
	for b.Loop() {
		r := input.Read([]input.Source{{Name: "list"}}, input.Options{Open: func(string) (io.ReadCloser, error) { return &many{form: "http://a/%d\n", n: 10_000}, nil }})
		for _, err := range r.All() {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add("url,n\nhttp://a/1,x\n", "csv")
	f.Add("<urlset><url><loc>http://a/</loc></url></urlset>", "sitemap")
	f.Add("http://a/\n#x\n", "lines")
	f.Fuzz(func(t *testing.T, text, format string) {
		r := input.Read([]input.Source{{Name: "x", Format: input.Format(format)}}, input.Options{Open: files{"x": text}.open})
		items := 0
		for item, err := range r.All() {
			if err == nil && item.URL == "" {
				t.Fatal("an item without a URL")
			}
			if err == nil {
				items++
			}
		}
		if n := r.Count(); n.Unique != items || n.Read != n.Unique+n.Duplicates {
			t.Fatalf("%d items but %+v", items, n)
		}
	})
}
