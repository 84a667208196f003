package fetch

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/ebbhq/ebb/work/fetch/scope"
	"github.com/ebbhq/ebb/work/fetch/soft"
)

func softJudge(t *testing.T, o soft.Options, rules ...string) *soft.Judge {
	t.Helper()
	var list []soft.Rule
	for _, text := range rules {
		r, err := soft.ParseRule(text)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, r)
	}
	j, err := soft.New(list, o)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func html(w http.ResponseWriter, format string, args ...any) {
	w.Header().Set("Content-Type", "text/html")
	w.Header().Set("ETag", `"x"`)
	fmt.Fprintf(w, format, args...)
}

// An error page with status 200 is tried again, quarantined, and never taken
// for a success: not now, and not by the next fetch.
func TestSoftErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inside(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/page/0":
				html(w, "<title>Service unavailable</title>sorry")
			case "/page/1":
				html(w, "<title>Votes</title>no records found")
			default:
				html(w, "<title>Votes</title>%s", r.URL.Path)
			}
		})
		dir := t.TempDir()
		rules := func(o *Options) {
			o.Transport = s
			o.Conditional = true
			o.Soft = softJudge(t, soft.Options{}, "title:(?i)unavailable", "empty:no records found")
		}
		for range 2 {
			f := run(t, dir, rules, pagesOf(s.URL, 3)...).Fetch()
			if f.Tally.Soft != 2 || f.Tally.OK+f.Tally.Unchanged != 1 || len(f.Waves) != 3 {
				t.Errorf("tally %+v after %d waves", *f.Tally, len(f.Waves))
			}
		}
		if n := s.count("/page/0"); n != 2*4*3 {
			t.Errorf("the error page was asked for %d times, want 24: 3 tries in 4 passes of 2 fetches", n)
		}
		if n := s.count("/page/1"); n != 2 {
			t.Errorf("the page without content was asked for %d times", n)
		}
		quarantined := filepath.Join(dir, quarantineDir, filepath.FromSlash(pathOf(s.URL+"/page/0")))
		if _, err := os.Stat(quarantined); err != nil {
			t.Error(err)
		}
		why, err := os.ReadFile(quarantined + ".why.json")
		if err != nil || !strings.Contains(string(why), "unavailable") {
			t.Errorf("%s, %v", why, err)
		}
		if _, err := os.Stat(filepath.Join(dir, pagesDir, filepath.FromSlash(pathOf(s.URL+"/page/0")))); err == nil {
			t.Error("the error page stands among the pages")
		}
	})
}

// One body on many URLs: those that came before it was known go too, stand in
// the account as the others do, and come when the site is mended.
func TestSameBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mended := false
		s := inside(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/page/1") && !mended { // 1, 10 to 19
				html(w, "<title>Votes</title>please log in")
				return
			}
			html(w, "<title>Votes</title>%s", r.URL.Path)
		})
		dir := t.TempDir()
		rules := func(o *Options) {
			o.Transport = s
			o.Soft = softJudge(t, soft.Options{SameBody: 3})
		}
		f := run(t, dir, rules, pagesOf(s.URL, 20)...).Fetch()
		if want := (Tally{Input: 20, OK: 9, Soft: 11}); *f.Tally != want {
			t.Errorf("tally %+v, want %+v", *f.Tally, want)
		}
		if f.Recalled != 2 || len(f.Waves) != 3 || f.Waves[0].Planned != 11 {
			t.Errorf("%d pages were taken back, waves %+v; want 2, and all 11 in the waves", f.Recalled, f.Waves)
		}
		for i := range 20 {
			path := filepath.FromSlash(pathOf(fmt.Sprintf("%s/page/%d", s.URL, i)))
			_, missing := os.Stat(filepath.Join(dir, pagesDir, path))
			if bad := i == 1 || i >= 10; (missing != nil) != bad {
				t.Errorf("page %d: %v", i, missing)
			}
		}
		mended = true
		if f = retried(t, dir, rules, "soft"); *f.Tally != (Tally{Input: 20, OK: 20}) || !f.Complete() {
			t.Errorf("after a retry of what is soft: %+v", *f.Tally)
		}
		manifest, err := os.ReadFile(filepath.Join(dir, manifestName))
		if n := strings.Count(string(manifest), "\n"); err != nil || n != 20 {
			t.Errorf("manifest of %d lines, %v", n, err)
		}
	})
}

// A site that answers a page that cannot be with 200 is found out by asking.
func TestProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inside(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/docs/a.html", "/docs/b.html":
				html(w, "<title>%s</title>%s", r.URL.Path, strings.Repeat(r.URL.Path+" is a page of its own. ", 40))
			default:
				html(w, "<title>Welcome</title>this is the front page, whatever you asked for")
			}
		})
		f := run(t, t.TempDir(), func(o *Options) {
			o.Transport = s
			o.Probe, o.Soft = true, softJudge(t, soft.Options{})
		}, s.URL+"/docs/a.html", s.URL+"/docs/b.html", s.URL+"/docs/gone.html").Fetch()
		if want := (Tally{Input: 3, OK: 2, Soft: 1}); *f.Tally != want {
			t.Errorf("tally %+v, want %+v", *f.Tally, want)
		}
	})
}

// Links are followed within scope, each page once, however often it is named.
func TestFollows(t *testing.T) {
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		var n int
		if _, err := fmt.Sscanf(r.URL.Path, "/tree/%d", &n); err != nil || n > 40 {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		html(w, `<a href="/tree/%d">l</a><a href="%d#x">r</a><a href="/out/%d">o</a><a href="http://other.test/">e</a><a href="/tree/1">up</a>`, 2*n, 2*n+1, n)
	})
	only, err := scope.New(scope.Rule{Kind: scope.KindPrefix, Text: s.URL + "/tree/"}, scope.Rule{Exclude: true, Kind: scope.KindPath, Text: "/tree/7"})
	if err != nil {
		t.Fatal(err)
	}
	f := run(t, t.TempDir(), func(o *Options) { o.Follow = only }, s.URL+"/tree/1").Fetch()
	// 1 to 40 without 7 and all below it (14, 15, 28 to 31), and the leaves
	// above 40 that do not exist.
	inside := map[int]bool{1: true}
	var ok, gone int64
	for n := 1; n <= 81; n++ {
		if n > 1 {
			inside[n] = inside[n/2] && n/2 <= 40 && n != 7
		}
		switch {
		case inside[n] && n <= 40:
			ok++
		case inside[n]:
			gone++
		}
	}
	want := Tally{Input: ok + gone, OK: ok, Permanent: gone}
	if *f.Tally != want || f.Input != 1 || !f.Complete() {
		t.Errorf("tally %+v, want %+v; input %d", *f.Tally, want, f.Input)
	}
	for n := range 82 {
		path := fmt.Sprintf("/tree/%d", n)
		if got := s.count(path); (got == 1) != inside[n] || got > 1 {
			t.Errorf("%s was asked for %d times", path, got)
		}
	}
}
