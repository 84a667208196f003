package warc_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ebbhq/ebb/warc"
)

// run runs a foreign program in dir and returns its standard output.
func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, errs.String())
	}
	if strings.Contains(errs.String(), "Content-Length Too Small") {
		t.Errorf("%s: %s", name, errs.String())
	}
	return string(out)
}

// warcio returns the program of the npm package, which this project's script
// installs.
func warcio(t *testing.T) string {
	t.Helper()
	run(t, "..", "scripts/npm-part", "warcio@2.4.11")
	path, err := filepath.Abs("../.cache/npm/node_modules/warcio/dist/cli.js")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// site serves one small body under /same/…, others of their own, and a
// redirect.
func site(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		switch {
		case r.URL.Path == "/moved":
			http.Redirect(w, r, "/same/1", http.StatusFound)
		case strings.HasPrefix(r.URL.Path, "/same"):
			fmt.Fprint(w, strings.Repeat("the same on every page. ", 20))
		default:
			fmt.Fprintf(w, "page %s", r.URL)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

// archive fetches the paths from the site and writes them.
func archive(t *testing.T, w *warc.Writer, site string, paths ...string) {
	t.Helper()
	known := make(map[string]warc.Original)
	for _, path := range paths {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, site+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		body := new(strings.Builder)
		if _, err := fmt.Fprint(body, readAll(t, res)); err != nil {
			t.Fatal(err)
		}
		done := write(t, w, warc.Exchange{
			URL: site + path, Date: at, IP: "127.0.0.1", Attempt: 1, Request: warc.RequestHead(req), ResponseHead: warc.ResponseHead(res),
			Body: strings.NewReader(body.String()), Known: func(digest string) (warc.Original, bool) { o, ok := known[digest]; return o, ok },
		})
		known["sha1:"+done.Entry.Digest] = warc.Original{ID: done.ID, URL: site + path, Date: at}
	}
}

func readAll(t *testing.T, res *http.Response) string {
	t.Helper()
	defer res.Body.Close()
	var b strings.Builder
	if err := res.Write(&b); err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(b.String(), "\r\n\r\n")
	return body
}

// Every record, offset, length, digest and key is the same for warcio.
func TestWarcioReadsIt(t *testing.T) {
	dir := t.TempDir()
	w := create(t, dir, func(o *warc.Options) { o.MaxBytes = 2500 })
	archive(t, w, site(t).URL, "/same/1", "/same/2", "/moved", "/p?b=2&a=1", "/P/q", "/same/3")
	finish(t, w)
	var files, ours []string
	for _, name := range list(t, dir) {
		path := filepath.Join(dir, name)
		files = append(files, path)
		if _, err := warc.Index(path, func(e warc.Entry) error { ours = append(ours, warc.CDXJ.Line(e)); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if len(files) < 2 || len(ours) != 6 {
		t.Fatalf("%d files, %d entries", len(files), len(ours))
	}
	run(t, dir, "gzip", append([]string{"-t"}, files...)...)
	theirs := run(t, dir, "node", append([]string{warcio(t), "cdx-index"}, files...)...)
	if diff := cmp.Diff(strings.Join(ours, ""), theirs); diff != "" {
		t.Errorf("our index and warcio's differ: %s", diff)
	}
	all := run(t, dir, "node", append(append([]string{warcio(t), "index"}, files...), "--fields", "warc-type")...)
	for kind, want := range map[string]int{"warcinfo": len(files), "request": 6, "response": 4, "revisit": 2, "metadata": 6} {
		if got := strings.Count(all, `"`+kind+`"`); got != want {
			t.Errorf("warcio reads %d records of type %s, want %d\n%s", got, kind, want, all)
		}
	}
}

// wget, given our index, keeps what we have already as revisit records that
// refer to ours; and we read what wget writes.
func TestWgetDeduplicatesByOurIndex(t *testing.T) {
	dir, server := t.TempDir(), site(t)
	w := create(t, dir)
	archive(t, w, server.URL, "/same/1", "/p", "/q", "/same/2")
	finish(t, w)
	ids := make(map[string]string)
	cdx := filepath.Join(t.TempDir(), "ours.cdx")
	index, err := warc.CreateIndex(cdx, warc.WgetCDX)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := warc.Index(only(t, dir), func(e warc.Entry) error { ids[e.URL] = e.ID; return index.Add(e) }); err != nil {
		t.Fatal(err)
	}
	if err := index.Close(); err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	run(t, out, "wget", "--no-config", "--no-proxy", "-q", "-O", "/dev/null", "--warc-file=again", "--warc-dedup="+cdx, server.URL+"/same/1", server.URL+"/p", server.URL+"/new")
	var got []string
	path := filepath.Join(out, "again.warc.gz")
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, err = warc.Walk(f, func(r *warc.Record) error {
		switch r.Type {
		case warc.Response, warc.Revisit:
			refers := r.Fields.Value("WARC-Refers-To")
			if want := ids[r.TargetURI()]; refers != want {
				t.Errorf("%s refers to %q, want %q", r.TargetURI(), refers, want)
			}
			got = append(got, strings.TrimPrefix(r.TargetURI(), server.URL)+" "+string(r.Type))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	if diff := cmp.Diff([]string{"/new response", "/p revisit", "/same/1 revisit"}, got); diff != "" {
		t.Error(diff)
	}
}
