package fetch

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store/sqlite"
	"github.com/ebbhq/ebb/work/fetch/input"
)

// hasty is scrape without the waits between starts, for tests on loopback.
func hasty() (policy.Policy, error) {
	p := policy.MustPreset("scrape")
	p.Spacing, p.Waves.Spacing, p.Concurrency = 0, 0, 16
	return policy.Seal(p)
}

func rapidly(t testing.TB) policy.Policy {
	t.Helper()
	p, err := hasty()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func urls(list ...string) iter.Seq2[input.Item, error] {
	return func(yield func(input.Item, error) bool) {
		for _, u := range list {
			if !yield(input.Item{URL: u}, nil) {
				return
			}
		}
	}
}

func pagesOf(base string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("%s/page/%d", base, i)
	}
	return list
}

// site counts requests by path.
type site struct {
	*httptest.Server
	mu    sync.Mutex
	calls map[string]int
	// answer is of a site without a network.
	answer func(w http.ResponseWriter, r *http.Request)
}

func newSite(t testing.TB, answer func(w http.ResponseWriter, r *http.Request)) *site {
	t.Helper()
	s := &site{calls: map[string]int{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.calls[r.URL.Path]++
		s.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// inside makes the site one without a network, for virtual time.
func inside(answer func(w http.ResponseWriter, r *http.Request)) *site {
	s := &site{Server: &httptest.Server{URL: "http://site.test"}, calls: map[string]int{}, answer: answer}
	return s
}

// RoundTrip answers as the server would.
func (s *site) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.calls[r.URL.Path]++
	s.mu.Unlock()
	w := httptest.NewRecorder()
	s.answer(w, r)
	resp := w.Result()
	resp.Request, resp.ContentLength = r, int64(w.Body.Len())
	return resp, nil
}

func (s *site) count(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[path]
}

// archiving makes run keep an archive too.
var archiving bool

// twentyfold is policy time that runs 20 times faster.
func twentyfold() clock.Clock { return clock.Scaled{Start: time.Now(), Factor: 20} }

// run fetches into a directory and returns the runner.
func run(t testing.TB, dir string, change func(*Options), list ...string) *Runner {
	t.Helper()
	r, err := runIn(t.Context(), t, dir, change, list...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// runUntil fetches until the context ends.
func runUntil(ctx context.Context, t testing.TB, dir string, list ...string) error {
	t.Helper()
	_, err := runIn(ctx, t, dir, nil, list...)
	return err
}

func runIn(ctx context.Context, t testing.TB, dir string, change func(*Options), list ...string) (*Runner, error) {
	t.Helper()
	all := context.WithoutCancel(ctx)
	keep := DirOptions{}
	if archiving {
		keep.Archive = func() (Archive, error) { return OpenWARC(dir, DefaultAgent) }
	}
	d, err := OpenDir(dir, keep)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	s, err := sqlite.Open(all, Ledger(dir), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	o := Options{Store: s, Name: "test", Policy: rapidly(t), Sink: d, Exclusive: true, Waiver: "a test on loopback"}
	if change != nil {
		change(&o)
	}
	r, err := Open(all, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Load(all, urls(list...)); err != nil {
		t.Fatal(err)
	}
	if err := r.Run(ctx); err != nil {
		return r, err
	}
	f := r.Fetch()
	return r, d.Manifest(&f)
}

func TestFetchesAllOnce(t *testing.T) {
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "this is %s", r.URL.Path) })
	dir := t.TempDir()
	list := pagesOf(s.URL, 200)
	r := run(t, dir, nil, append(list, list[0], s.URL+"/page/1#twice", "not a url", "gopher://x/")...)
	f := r.Fetch()
	want := Tally{Input: 202, OK: 200, Permanent: 2}
	if f.Tally == nil || *f.Tally != want {
		t.Fatalf("tally %+v, want %+v", f.Tally, want)
	}
	if f.Stopped != "permanent" || f.Repeated != 2 {
		t.Errorf("stopped %q, repeated %d", f.Stopped, f.Repeated)
	}
	for i := range 200 {
		path := fmt.Sprintf("/page/%d", i)
		if n := s.count(path); n != 1 {
			t.Errorf("%s was asked for %d times", path, n)
		}
		text, err := os.ReadFile(filepath.Join(dir, "pages", filepath.FromSlash(pathOf(s.URL+path))))
		if err != nil || string(text) != "this is "+path {
			t.Errorf("%s: %q, %v", path, text, err)
		}
	}
	manifest, err := os.ReadFile(filepath.Join(dir, manifestName))
	if err != nil || strings.Count(string(manifest), "\n") != 200 {
		t.Errorf("manifest of %d lines, %v", strings.Count(string(manifest), "\n"), err)
	}
}

// retried tries again what the words name of the newest fetch of a directory.
func retried(t testing.TB, dir string, change func(*Options), words ...string) Fetch {
	t.Helper()
	d, err := OpenDir(dir, DirOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	s, err := sqlite.Open(t.Context(), Ledger(dir), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	o := Options{Store: s, Name: "test", Policy: rapidly(t), Sink: d, Exclusive: true, Waiver: "a test on loopback"}
	change(&o)
	r, err := Resume(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Again(t.Context(), words); err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	f := r.Fetch()
	if err := d.Manifest(&f); err != nil {
		t.Fatal(err)
	}
	return f
}
