package fetch

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/warc"
	"github.com/ebbhq/ebb/work/fetch/scope"
)

// The second fetch asks only for what has changed.
func TestRefetchIsConditional(t *testing.T) {
	var version atomic.Int64
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		tag := `"same"`
		if r.URL.Path == "/page/1" {
			tag = fmt.Sprintf(`"v%d"`, version.Load())
		}
		if r.URL.Path != "/page/2" { // one has no validators
			w.Header().Set("ETag", tag)
		}
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		fmt.Fprintf(w, "%s %s", r.URL.Path, tag)
	})
	dir := t.TempDir()
	conditional := func(o *Options) { o.Conditional = true }
	run(t, dir, conditional, pagesOf(s.URL, 4)...)
	version.Store(1)
	if err := os.Remove(filepath.Join(dir, pagesDir, filepath.FromSlash(pathOf(s.URL+"/page/3")))); err != nil {
		t.Fatal(err) // a page that is not here any more is fetched whole
	}
	f := run(t, dir, conditional, pagesOf(s.URL, 4)...).Fetch()
	if want := (Tally{Input: 4, OK: 3, Unchanged: 1}); *f.Tally != want {
		t.Errorf("tally %+v, want %+v", *f.Tally, want)
	}
	text, err := os.ReadFile(filepath.Join(dir, pagesDir, filepath.FromSlash(pathOf(s.URL+"/page/1"))))
	if err != nil || string(text) != `/page/1 "v1"` {
		t.Errorf("%q, %v", text, err)
	}
	if f.Previous != "test.000001" || f.ID != "test.000002" {
		t.Errorf("%s after %s", f.ID, f.Previous)
	}
}

// A body that breaks off is asked for from where it broke.
func TestRangeResume(t *testing.T) {
	whole := strings.Repeat("0123456789abcdef", 20_000) // 320,000 bytes
	var ranges atomic.Value
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"whole"`)
		w.Header().Set("Accept-Ranges", "bytes")
		if asked := r.Header.Get("Range"); asked != "" {
			ranges.Store(asked + " " + r.Header.Get("If-Range"))
			http.ServeContent(w, r, "", time.Time{}, strings.NewReader(whole))
			return
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(whole)))
		io.WriteString(w, whole[:200_000])
		if f, ok := w.(http.Flusher); ok {
			f.Flush()
		}
		panic(http.ErrAbortHandler)
	})
	dir := t.TempDir()
	f := run(t, dir, faster, s.URL+"/long").Fetch()
	if f.Tally.OK != 1 {
		t.Fatalf("tally %+v", *f.Tally)
	}
	text, err := os.ReadFile(filepath.Join(dir, pagesDir, filepath.FromSlash(pathOf(s.URL+"/long"))))
	if err != nil || string(text) != whole {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	if got, _ := ranges.Load().(string); !strings.HasPrefix(got, "bytes=") || !strings.HasSuffix(got, `- "whole"`) || got == `bytes=0- "whole"` {
		t.Errorf("asked for %q", got)
	}
	left, err := filepath.Glob(filepath.Join(dir, stateDir, "part", "*"))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// faster lets policy time run 20 times faster.
func faster(o *Options) { o.Clock = twentyfold() }

func gzipped(t testing.TB, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Bodies are unpacked, within limits.
func TestUnpacks(t *testing.T) {
	small, bomb := gzipped(t, []byte("small")), gzipped(t, make([]byte, 4<<20))
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		switch r.URL.Path {
		case "/small":
			_, _ = w.Write(small)
		case "/bomb":
			_, _ = w.Write(bomb)
		case "/brotli":
			w.Header().Set("Content-Encoding", "br")
			_, _ = w.Write(small)
		}
	})
	dir := t.TempDir()
	f := run(t, dir, func(o *Options) { o.MaxBody = 1 << 20 }, s.URL+"/small", s.URL+"/bomb", s.URL+"/brotli").Fetch()
	if want := (Tally{Input: 3, OK: 1, Permanent: 2}); *f.Tally != want {
		t.Errorf("tally %+v, want %+v", *f.Tally, want)
	}
	text, err := os.ReadFile(filepath.Join(dir, pagesDir, filepath.FromSlash(pathOf(s.URL+"/small"))))
	if err != nil || string(text) != "small" {
		t.Errorf("%q, %v", text, err)
	}
}

// Redirects are followed; a page without a byte is no page.
func TestRedirectsAndEmpty(t *testing.T) {
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/old":
			http.Redirect(w, r, "/new", http.StatusMovedPermanently)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/empty":
		default:
			fmt.Fprint(w, "new")
		}
	})
	dir := t.TempDir()
	f := run(t, dir, nil, s.URL+"/old", s.URL+"/loop", s.URL+"/empty").Fetch()
	if want := (Tally{Input: 3, OK: 1, Permanent: 1, Soft: 1}); *f.Tally != want {
		t.Errorf("tally %+v, want %+v", *f.Tally, want)
	}
	if n := s.count("/loop"); n != maxRedirects+1 {
		t.Errorf("%d requests for a loop", n)
	}
}

// robots.txt is obeyed, its delay too.
func TestRobots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site := &fakeText{answer: func(path string) (int, string) {
			if path == "/robots.txt" {
				return 200, "User-agent: *\nDisallow: /page/1\nCrawl-delay: 2\n"
			}
			return 200, "page"
		}}
		f := virtually(t, nil, policy.MustPreset("polite"), 4, func(o *Options) { o.Robots, o.Transport = true, site })
		if want := (Tally{Input: 4, OK: 3, Robots: 1}); *f.Tally != want {
			t.Errorf("tally %+v, want %+v", *f.Tally, want)
		}
		var last time.Time
		for i, c := range site.calls {
			if i == 0 && c.path != "/robots.txt" || i > 0 && c.path == "/robots.txt" || c.path == "/page/1" {
				t.Errorf("call %d was for %s", i, c.path)
			}
			if i > 1 && c.at.Sub(last) < 2*time.Second {
				t.Errorf("%s after %s only", c.path, c.at.Sub(last))
			}
			last = c.at
		}
	})
}

// A robots.txt that cannot be had defers the host, and nothing is lost.
func TestRobotsUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := time.Now().Add(4 * time.Minute)
		early := 0
		site := &fakeText{}
		site.answer = func(path string) (int, string) {
			switch {
			case !time.Now().Before(up) && path == "/robots.txt":
				return 404, ""
			case path == "/robots.txt":
				return 500, ""
			case time.Now().Before(up):
				early++
			}
			return 200, "page"
		}
		f := virtually(t, nil, policy.MustPreset("polite"), 50, func(o *Options) { o.Robots, o.Transport = true, site })
		if f.Tally.OK != 50 || early != 0 || len(site.calls) > 55 {
			t.Errorf("%+v, %d pages asked for without rules, %d calls", *f.Tally, early, len(site.calls))
		}
	})
}

// The archive is sound, has every try, and knows unchanged pages.
func TestArchive(t *testing.T) {
	var failed atomic.Bool
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/page/0" && !failed.Swap(true) {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		w.Header().Set("ETag", `"x"`)
		if r.Header.Get("If-None-Match") != "" {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		fmt.Fprintf(w, "page %s", r.URL.Path)
	})
	dir := t.TempDir()
	archived := func(o *Options) {
		faster(o)
		o.Conditional = true
	}
	archiving = true
	defer func() { archiving = false }()
	for range 2 {
		if f := run(t, dir, archived, pagesOf(s.URL, 3)...).Fetch(); !f.Complete() {
			t.Fatalf("tally %+v", *f.Tally)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, warcDir, "*.warc.gz"))
	if err != nil || len(files) != 2 {
		t.Fatalf("files %v, %v", files, err)
	}
	types := map[warc.Type]int{}
	for _, name := range files {
		sum, err := warc.Check(name)
		if err != nil {
			t.Fatal(err)
		}
		for kind, n := range sum.ByType {
			types[kind] += n
		}
	}
	// 4 tries of the first fetch, 3 of the second, of which nothing had changed.
	if types[warc.Request] != 7 || types[warc.Response] != 4 || types[warc.Revisit] != 3 || types[warc.Metadata] != 7 {
		t.Errorf("records %v", types)
	}
	for _, name := range []string{"index.cdx", "index.cdxj", "wget.cdx"} {
		text, err := os.ReadFile(filepath.Join(dir, warcDir, name))
		if err != nil || strings.Count(string(text), "\n") < 5 { // wget's has no revisits
			t.Errorf("%s: %d lines, %v", name, strings.Count(string(text), "\n"), err)
		}
	}
}

// A host that cannot be reached has the class that its pages would have, and
// takes no longer: nothing but its robots.txt is asked for.
func TestRobotsOfNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site := &fake{took: time.Millisecond, answer: func(string, time.Time) (int, error) { return 0, syscall.ECONNREFUSED }}
		var classes []string
		bare := &fake{took: time.Millisecond, answer: site.answer}
		began := time.Now()
		virtually(t, bare, policy.MustPreset("polite"), 1, nil)
		without := time.Since(began)
		began = time.Now()
		f := virtually(t, site, policy.MustPreset("polite"), 1, func(o *Options) {
			o.Robots = true
			o.Observe = func(e Event) {
				if e.Type == EventRetry || e.Type == EventPage {
					classes = append(classes, e.Class)
				}
			}
		})
		if f.Tally.Exhausted != 1 || len(classes) != 4*3 || slices.ContainsFunc(classes, func(c string) bool { return c != "refused" }) {
			t.Errorf("%+v, classes %v", *f.Tally, classes)
		}
		if took := time.Since(began); took > without+time.Minute {
			t.Errorf("one page of a host that is not there took %s, without robots.txt %s", took, without)
		}
		for _, c := range site.calls {
			if c.path != "/robots.txt" {
				t.Errorf("%s was asked for without rules", c.path)
			}
		}
	})
}

// A redirect out of scope is not followed, nor one to what robots.txt forbids.
func TestRedirectsKeepTheRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inside(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/robots.txt":
				fmt.Fprint(w, "User-agent: *\nDisallow: /secret\n")
			case "/page/0":
				http.Redirect(w, r, "http://other.test/", http.StatusFound)
			case "/page/1":
				http.Redirect(w, r, "/secret", http.StatusFound)
			case "/page/2":
				http.Redirect(w, r, "/new", http.StatusFound)
			default:
				html(w, "%s%s", r.Host, r.URL.Path)
			}
		})
		within, err := scope.New(scope.HostsOf(s.URL)...)
		if err != nil {
			t.Fatal(err)
		}
		f := run(t, t.TempDir(), func(o *Options) { o.Transport, o.Robots, o.Follow = s, true, within }, pagesOf(s.URL, 3)...).Fetch()
		if want := (Tally{Input: 3, OK: 1, Permanent: 1, Robots: 1}); *f.Tally != want {
			t.Errorf("tally %+v, want %+v", *f.Tally, want)
		}
		if s.count("/") != 0 || s.count("/secret") != 0 {
			t.Errorf("%d calls out of scope, %d of what is forbidden", s.count("/"), s.count("/secret"))
		}
	})
}
