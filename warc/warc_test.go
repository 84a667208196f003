package warc_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ebbhq/ebb/warc"
)

var at = time.Date(2026, 2, 21, 10, 30, 15, 999, time.UTC)

// create makes a writer whose ids and names are the same in every run.
func create(t *testing.T, dir string, change ...func(*warc.Options)) *warc.Writer {
	t.Helper()
	opt := warc.Options{
		Dir: dir, Prefix: "test", Now: func() time.Time { return at }, Random: rand.NewChaCha8([32]byte{1}),
		Info: warc.Fields{{Name: "software", Value: "ebb"}},
	}
	for _, f := range change {
		f(&opt)
	}
	w, err := warc.Create(opt)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// page is an exchange that went well.
func page(url, body string) warc.Exchange {
	return warc.Exchange{
		URL: url, Date: at, IP: "127.0.0.1", Attempt: 1,
		Request:      []byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
		ResponseHead: []byte("HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n"),
		Body:         strings.NewReader(body),
	}
}

func write(t *testing.T, w *warc.Writer, x warc.Exchange) warc.Exchanged {
	t.Helper()
	done, err := w.Exchange(x)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

func finish(t *testing.T, w *warc.Writer) {
	t.Helper()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// only returns the one file of the directory.
func only(t *testing.T, dir string) string {
	t.Helper()
	all := list(t, dir)
	if len(all) != 1 {
		t.Fatalf("the directory holds %q, want one file", all)
	}
	return filepath.Join(dir, all[0])
}

func list(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// dump is the file as text: each record's header and block.
func dump(t *testing.T, name string) string {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b strings.Builder
	_, err = warc.Walk(f, func(r *warc.Record) error {
		block, err := io.ReadAll(r.Block)
		fmt.Fprintf(&b, "%s %s\n", r.Version, r.Type)
		for _, field := range r.Fields {
			fmt.Fprintf(&b, "  %s: %s\n", field.Name, field.Value)
		}
		fmt.Fprintf(&b, "%q\n", block)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestExchange(t *testing.T) {
	dir := t.TempDir()
	w := create(t, dir)
	x := page("http://a/1", "hello")
	x.Attempt, x.Wave = 2, 1
	x.Metadata = warc.Fields{{Name: "note", Value: "two\r\nlines: forged"}}
	done := write(t, w, x)
	if done.Size != 5 || done.SHA256 != "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824" {
		t.Errorf("payload of %d bytes, sha256 %s", done.Size, done.SHA256)
	}
	failed := warc.Exchange{URL: "http://a/2", Date: at, Attempt: 3, Request: []byte("GET /2 HTTP/1.1\r\n\r\n"), Metadata: warc.Fields{{Name: "error", Value: "timeout"}}}
	if done := write(t, w, failed); done.ID != "" {
		t.Errorf("an attempt without an answer has the response %+v", done)
	}
	if got := list(t, dir); len(got) != 1 || !strings.HasSuffix(got[0], ".warc.gz.open") {
		t.Errorf("while it is written the directory holds %q", got)
	}
	finish(t, w)
	got := dump(t, only(t, dir))
	want := `1.1 warcinfo
  WARC-Type: warcinfo
  WARC-Record-ID: <urn:uuid:ID0>
  WARC-Date: 2026-02-21T10:30:15Z
  WARC-Filename: NAME
  WARC-Block-Digest: sha1:PHRL3ZOLYDBMKLGJ5JZBZ2MTXKJNDJSS
  Content-Type: application/warc-fields
  Content-Length: 45
"format: WARC File Format 1.1\r\nsoftware: ebb\r\n"
1.1 request
  WARC-Type: request
  WARC-Record-ID: <urn:uuid:ID1>
  WARC-Date: 2026-02-21T10:30:15Z
  WARC-Target-URI: http://a/1
  WARC-Warcinfo-ID: <urn:uuid:ID0>
  WARC-Concurrent-To: <urn:uuid:ID2>
  WARC-IP-Address: 127.0.0.1
  WARC-Block-Digest: sha1:WPFE3O2D3XFV6AG3GHOHGRN43H7VC4OM
  Content-Type: application/http;msgtype=request
  Content-Length: 27
"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
1.1 response
  WARC-Type: response
  WARC-Record-ID: <urn:uuid:ID2>
  WARC-Date: 2026-02-21T10:30:15Z
  WARC-Target-URI: http://a/1
  WARC-Warcinfo-ID: <urn:uuid:ID0>
  WARC-IP-Address: 127.0.0.1
  WARC-Block-Digest: sha1:DK6MMSUGJS6FXJXWAH7RLWT5TUWHNQCQ
  WARC-Payload-Digest: sha1:VL2MMHO4YXUKFWV63YHTWSBM3GXKSQ2N
  Ebb-Payload-SHA256: 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824
  Content-Type: application/http;msgtype=response
  Content-Length: 64
"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\nhello"
1.1 metadata
  WARC-Type: metadata
  WARC-Record-ID: <urn:uuid:ID3>
  WARC-Date: 2026-02-21T10:30:15Z
  WARC-Target-URI: http://a/1
  WARC-Warcinfo-ID: <urn:uuid:ID0>
  WARC-Concurrent-To: <urn:uuid:ID2>
  WARC-Block-Digest: sha1:WPCJHZ7WY5L7XFDYQYUTWKMNC4WDXYSB
  Content-Type: application/warc-fields
  Content-Length: 47
"attempt: 2\r\nwave: 1\r\nnote: two  lines: forged\r\n"
`
	first, rest, _ := strings.Cut(anonymous(got), "forged\\r\\n\"\n")
	if diff := cmp.Diff(want, first+"forged\\r\\n\"\n"); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(rest, `"attempt: 3\r\nwave: 0\r\nerror: timeout\r\n"`) {
		t.Errorf("the failed attempt is not told of:\n%s", got)
	}
}

// anonymous replaces ids by their order of appearance as record ids, and the
// file's name.
func anonymous(text string) string {
	var pairs []string
	for line := range strings.Lines(text) {
		if id, found := strings.CutPrefix(line, "  WARC-Record-ID: "); found {
			pairs = append(pairs, strings.TrimSpace(id), fmt.Sprintf("<urn:uuid:ID%d>", len(pairs)/2))
		}
	}
	for line := range strings.Lines(text) {
		if name, found := strings.CutPrefix(line, "  WARC-Filename: "); found {
			pairs = append(pairs, strings.TrimSpace(name), "NAME")
		}
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

func TestRevisits(t *testing.T) {
	dir := t.TempDir()
	w := create(t, dir)
	known := make(map[string]warc.Original)
	find := func(digest string) (warc.Original, bool) { o, ok := known[digest]; return o, ok }
	x := page("http://a/1", "same")
	x.Known = find
	first := write(t, w, x)
	known["sha1:"+first.Entry.Digest] = warc.Original{ID: first.ID, URL: "http://a/1", Date: at}
	x = page("http://a/2", "same")
	x.Known = find
	second := write(t, w, x)
	if second.Entry.MIME != "warc/revisit" || second.Entry.Digest != first.Entry.Digest || second.SHA256 != first.SHA256 || second.Size != 4 {
		t.Errorf("the second is %+v, want a revisit of %+v", second, first)
	}
	for name, x := range map[string]warc.Exchange{"empty": page("http://a/3", ""), "torn": page("http://a/4", "same")} {
		x.Known = func(string) (warc.Original, bool) { return warc.Original{}, true }
		if name == "torn" {
			x.Truncated = "disconnect"
		}
		if got := write(t, w, x).Entry.MIME; got != "text/html" {
			t.Errorf("%s: became %s, want a response of its own", name, got)
		}
	}
	x = page("http://a/1", "")
	x.ResponseHead = []byte("HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\n\r\n")
	x.NotModified = &warc.Original{ID: first.ID, URL: "http://a/1", Date: at, Digest: "sha1:" + first.Entry.Digest}
	if got := write(t, w, x).Entry; got.Status != 304 || got.MIME != "warc/revisit" {
		t.Errorf("304 became %+v", got)
	}
	finish(t, w)
	text := dump(t, only(t, dir))
	for _, want := range []string{
		"WARC-Profile: " + warc.IdenticalPayload, "WARC-Profile: " + warc.NotModified, "WARC-Refers-To: " + first.ID,
		"WARC-Refers-To-Target-URI: http://a/1", "WARC-Refers-To-Date: 2026-02-21T10:30:15Z", "WARC-Truncated: disconnect",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestRotation(t *testing.T) {
	dir := t.TempDir()
	var closed []string
	w := create(t, dir, func(o *warc.Options) {
		o.MaxBytes = 1000
		o.Closed = func(path string) error { closed = append(closed, filepath.Base(path)); return nil }
	})
	files := make(map[string]int)
	for i := range 20 {
		files[write(t, w, page(fmt.Sprintf("http://a/%d", i), fmt.Sprint(i))).Entry.File]++
	}
	finish(t, w)
	finish(t, w) // nothing is open: nothing happens
	names := list(t, dir)
	if diff := cmp.Diff(names, closed); diff != "" || len(names) < 5 {
		t.Errorf("%d files, told of: %s", len(names), diff)
	}
	records := 0
	for i, name := range names {
		if !strings.HasPrefix(name, fmt.Sprintf("test-20260221103015-%05d-", i)) || !strings.HasSuffix(name, ".warc.gz") || files[name] == 0 {
			t.Errorf("file %d is named %q and holds %d pages", i, name, files[name])
		}
		s, err := warc.Check(filepath.Join(dir, name))
		if err != nil || s.ByType[warc.Info] != 1 || s.ByType[warc.Response] != files[name] || s.Records != 1+3*files[name] {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
		records += s.Records
	}
	if want := 3*20 + len(names); records != want {
		t.Errorf("%d records, want %d", records, want)
	}
}

func TestManyWriters(t *testing.T) {
	dir := t.TempDir()
	w := create(t, dir, func(o *warc.Options) { o.MaxBytes = 4000 })
	var group sync.WaitGroup
	var mu sync.Mutex
	seen := make(map[string]string)
	for g := range 8 {
		group.Go(func() {
			for i := range 10 {
				url := fmt.Sprintf("http://a/%d/%d", g, i)
				done, err := w.Exchange(page(url, strings.Repeat(url, 20)))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				seen[fmt.Sprintf("%s@%d+%d", done.Entry.File, done.Entry.Offset, done.Entry.Length)] = url
				mu.Unlock()
			}
		})
	}
	group.Wait()
	finish(t, w)
	for _, name := range list(t, dir) {
		_, err := warc.Index(filepath.Join(dir, name), func(e warc.Entry) error {
			key := fmt.Sprintf("%s@%d+%d", e.File, e.Offset, e.Length)
			if seen[key] != e.URL {
				t.Errorf("%s holds %s, the writer said %q", key, e.URL, seen[key])
			}
			delete(seen, key)
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	if len(seen) != 0 {
		t.Errorf("not found: %v", seen)
	}
}

// failing breaks off its second reading, as a disk that fills up would.
type failing struct {
	io.ReadSeeker
	seeks, read int
}

var errDisk = errors.New("no space left")

func (f *failing) Seek(offset int64, whence int) (int64, error) {
	f.seeks++
	return f.ReadSeeker.Seek(offset, whence)
}

func (f *failing) Read(p []byte) (int, error) {
	n, err := f.ReadSeeker.Read(p)
	if f.seeks < 2 {
		return n, err
	}
	if f.read += n; f.read > 400_000 {
		return 0, errDisk
	}
	return n, err
}

// A group that fails leaves nothing behind, and the writer goes on.
func TestFailedGroupIsTakenBack(t *testing.T) {
	dir := t.TempDir()
	w := create(t, dir)
	write(t, w, page("http://a/1", "one"))
	x := page("http://a/2", "")
	x.Body = &failing{ReadSeeker: strings.NewReader(strings.Repeat("0123456789", 50_000))}
	if _, err := w.Exchange(x); !errors.Is(err, errDisk) {
		t.Fatalf("got %v, want the body's error", err)
	}
	write(t, w, page("http://a/3", "three"))
	finish(t, w)
	text := dump(t, only(t, dir))
	if strings.Contains(text, "http://a/2") || strings.Count(text, "1.1 response") != 2 {
		t.Errorf("want pages 1 and 3 alone:\n%s", text)
	}
}

func TestCreateRefuses(t *testing.T) {
	for _, opt := range []warc.Options{{Dir: filepath.Join(t.TempDir(), "nothing")}, {Dir: "warc.go"}, {Dir: t.TempDir(), Prefix: "../x"}, {Dir: t.TempDir(), Prefix: ".."}} {
		if _, err := warc.Create(opt); err == nil {
			t.Errorf("%+v was taken", opt)
		}
	}
}

func TestHeads(t *testing.T) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://a.example/x?y=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("User-Agent", "ebb")
	req.Header.Set("Accept", "*/*\r\nForged: yes")
	want := "GET /x?y=1 HTTP/1.1\r\nHost: a.example\r\nAccept: */*  Forged: yes\r\nUser-Agent: ebb\r\n\r\n"
	if got := string(warc.RequestHead(req)); got != want {
		t.Errorf("request %q, want %q", got, want)
	}
	res := &http.Response{StatusCode: 200, ProtoMajor: 2, Header: http.Header{"Set-Cookie": {"b", "a"}, "Age": {"1"}, "Transfer-Encoding": {"chunked"}}}
	want = "HTTP/1.1 200 OK\r\nAge: 1\r\nSet-Cookie: b\r\nSet-Cookie: a\r\n\r\n"
	if got := string(warc.ResponseHead(res)); got != want {
		t.Errorf("response %q, want %q", got, want)
	}
	if got := warc.ResponseHead(&http.Response{Status: "404 Gone Fishing", ProtoMajor: 1}); !bytes.HasPrefix(got, []byte("HTTP/1.0 404 Gone Fishing\r\n")) {
		t.Errorf("response %q", got)
	}
}
