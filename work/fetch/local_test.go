package fetch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store/memory"
)

// fullDisk keeps nothing until there is room.
type fullDisk struct {
	discard
	room atomic.Bool
}

func (d *fullDisk) Keep(*Saved) error {
	if d.room.Load() {
		return nil
	}
	return ours("page", &os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC})
}

// A full disk costs no page a try: when there is room again, all come.
func TestDiskFullNeverCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site := &fake{took: time.Millisecond, answer: func(string, time.Time) (int, error) { return 200, nil }}
		disk := &fullDisk{}
		free := time.AfterFunc(5*time.Minute, func() { disk.room.Store(true) })
		defer free.Stop()
		f := virtually(t, site, policy.MustPreset("polite"), 10, func(o *Options) { o.Sink = disk })
		if f.Tally.OK != 10 || len(f.Waves) != 0 {
			t.Errorf("tally %+v after %d waves", *f.Tally, len(f.Waves))
		}
	})
}

// A disk that stays full ends the run; everything is pending, nothing lost.
func TestDiskFullEndsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site := &fake{took: time.Millisecond, answer: func(string, time.Time) (int, error) { return 200, nil }}
		s := memory.New(memory.Config{})
		defer s.Close()
		r, err := Open(t.Context(), Options{Store: s, Name: "x", Policy: policy.MustPreset("scrape"), Transport: site, Sink: &fullDisk{}})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Load(t.Context(), urls(pagesOf("http://site.test", 3)...)); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := r.Run(t.Context()); !errors.Is(err, ErrLocal) {
			t.Fatalf("ended with %v", err)
		}
		if took := time.Since(began); took < 10*time.Minute || took > 12*time.Minute {
			t.Errorf("gave up after %s", took)
		}
		f := r.Fetch()
		tally, err := Count(t.Context(), s, &f)
		if want := (Tally{Input: 3, Pending: 3}); err != nil || tally != want {
			t.Errorf("tally %+v, %v", tally, err)
		}
	})
}

// A resolver that does not answer is our own fault; a name that does not exist
// is not.
func TestResolver(t *testing.T) {
	for _, c := range []struct {
		err  error
		want failure.Class
	}{
		{&net.DNSError{Err: "server misbehaving", Name: "x", IsTemporary: true}, failure.LocalIO},
		{&net.DNSError{Err: "i/o timeout", Name: "x", IsTimeout: true}, failure.LocalIO},
		{&net.DNSError{Err: "no such host", Name: "x", IsNotFound: true}, failure.DNS},
	} {
		if got := failure.Classify(&net.OpError{Op: "dial", Err: c.err}, resolver).Class; got != c.want {
			t.Errorf("%v is %s, want %s", c.err, got, c.want)
		}
	}
}

// Two processes on one directory: the second is told who has it.
func TestDirIsLocked(t *testing.T) {
	dir := t.TempDir()
	d, err := OpenDir(dir, DirOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenDir(dir, DirOptions{}); !errors.Is(err, ErrBusy) {
		t.Fatalf("opened twice: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d, err = OpenDir(dir, DirOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// A stop in the middle: what was under way is pending, the next run goes on,
// nothing is fetched twice.
func TestInterruptedGoesOn(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var served atomic.Int64
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		if served.Add(1) == 40 {
			cancel()
		}
		fmt.Fprint(w, r.URL.Path)
	})
	dir := t.TempDir()
	first := runUntil(ctx, t, dir, pagesOf(s.URL, 300)...)
	if !errors.Is(first, context.Canceled) {
		t.Fatalf("the first run ended with %v", first)
	}
	f := run(t, dir, nil, pagesOf(s.URL, 300)...).Fetch()
	if f.ID != "test.000001" || f.Tally.OK != 300 {
		t.Errorf("%s: %+v", f.ID, *f.Tally)
	}
	for i := range 300 {
		if n := s.count(fmt.Sprintf("/page/%d", i)); n != 1 {
			t.Errorf("page %d was asked for %d times", i, n)
		}
	}
}

// The account must add up.
func TestTallyCheck(t *testing.T) {
	good := Tally{Input: 9, OK: 1, Unchanged: 1, Permanent: 1, Soft: 1, Robots: 1, Exhausted: 1, Parked: 1, Cancelled: 1, Pending: 1}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for _, o := range Outcomes() {
		bad := good
		*bad.of(o)++
		if err := bad.Check(); !errors.Is(err, ErrUnbalanced) {
			t.Errorf("one %s too many: %v", o, err)
		}
	}
}

// No URL leaves its directory, and no two have one path.
func TestPathOf(t *testing.T) {
	for url, want := range map[string]string{
		"https://example.org/":                 "example.org/index.html",
		"http://example.org/":                  "example.org+http/index.html",
		"https://example.org/a/b.html":         "example.org/a/b.html",
		"https://example.org/a/?q=1":           "example.org/a/index.html?q=1",
		"https://example.org/a?q=/../../x":     "example.org/a?q=%2f..%2f..%2fx",
		"https://example.org//a":               "example.org/%/a",
		"https://example.org/a/":               "example.org/a/index.html",
		"https://example.org/a/index.html":     "example.org/a/%69ndex.html",
		"https://example.org/a/index.html?q=1": "example.org/a/%69ndex.html?q=1",
		"https://example.org/a?q=%2Fx":         "example.org/a?q=%2Fx",
		"https://example.org/a?q=/x":           "example.org/a?q=%2fx",
		"https://example.org/*":                "example.org/%2a",
		"https://example.org/%2A":              "example.org/%2A",
		"https://example.org/.hidden":          "example.org/%2ehidden",
		"https://.ebb/fetch.db":                "%2eebb/fetch.db",
		"https://example.org:8443/x":           "example.org:8443/x",
		"https://[::1]:8443/x":                 "[::1]:8443/x",
		"https://example.org/a%2F..%2Fetc":     "example.org/a%2F..%2Fetc",
		"https://example.org/" + longText(300): "example.org/" + longText(167) + "~" + nameOf("https://example.org/"+longText(300)),
	} {
		if got := pathOf(url); got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
}

func longText(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = 'x'
	}
	return string(b)
}

// A page where a directory must be, and the reverse, have names of their own.
func TestPathConflict(t *testing.T) {
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL.Path) })
	dir := t.TempDir()
	list := []string{s.URL + "/a", s.URL + "/a/b", s.URL + "/a/b/c", s.URL + "/x/y", s.URL + "/x"}
	r := run(t, dir, nil, list...)
	f := r.Fetch()
	if f.Tally.OK != int64(len(list)) {
		t.Fatalf("tally %+v", *f.Tally)
	}
	text, err := os.ReadFile(dir + "/" + indexName)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	if err := eachLine(bytes.NewReader(text), func(l Line) error {
		body, err := os.ReadFile(dir + "/" + l.Path)
		if err != nil || s.URL+string(body) != l.URL || seen[l.Path] {
			t.Errorf("%s is in %s: %q, %v", l.URL, l.Path, body, err)
		}
		seen[l.Path] = true
		return nil
	}); err != nil || len(seen) != len(list) {
		t.Errorf("%d lines, %v", len(seen), err)
	}
}
