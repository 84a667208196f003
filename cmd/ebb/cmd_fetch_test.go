package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// fetchSite serves /p/N, refuses /missing, and counts.
func fetchSite(t *testing.T) (base string, calls *atomic.Int64) {
	t.Helper()
	calls = &atomic.Int64{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/missing") || r.URL.Path == "/robots.txt" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		calls.Add(1)
		tag := fmt.Sprintf("%q", r.URL.Path)
		w.Header().Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		fmt.Fprintf(w, "<title>%s</title>", r.URL.Path)
	}))
	t.Cleanup(s.Close)
	return s.URL, calls
}

// ebb runs one command line.
func ebb(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(stdin), &out, &errs, func(string) (string, bool) { return "", false })
	return code, out.String(), errs.String()
}

func wantCode(t *testing.T, want, got int, stdout, stderr string) {
	t.Helper()
	if got != want {
		t.Fatalf("exit code %d, want %d\n%s\n%s", got, want, stdout, stderr)
	}
}

func TestFetchCommand(t *testing.T) {
	base, calls := fetchSite(t)
	dir := filepath.Join(t.TempDir(), "votes")
	list := fmt.Sprintf("# votes\n%s/p/1\n%s/p/2\n\n%s/p/1#again\n", base, base, base)
	quick := []string{"fetch", "-i", "-", "-o", dir, "--speed", "60", "--waive", "a test", "--spacing", "-1ns"}

	code, out, errs := ebb(t, list, quick...)
	wantCode(t, exitDone, code, out, errs)
	if !strings.Contains(out, "complete: 2 of 2 pages are here") || calls.Load() != 2 {
		t.Errorf("after %d calls:\n%s", calls.Load(), out)
	}
	// Once more: only what has changed.
	code, out, errs = ebb(t, list, append(quick, "--json")...)
	wantCode(t, exitDone, code, out, errs)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	types := map[string]int{}
	for _, line := range lines {
		var e struct {
			Event string         `json:"event"`
			Tally map[string]int `json:"tally"`
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		types[e.Event]++
		if e.Event == "ended" && e.Tally["unchanged"] != 2 {
			t.Errorf("ended with %v", e.Tally)
		}
	}
	if types["page"] != 2 || types["ended"] != 1 || types["pass"] != 1 {
		t.Errorf("events %v", types)
	}
	// A page that does not exist: incomplete.
	code, out, errs = ebb(t, list+base+"/missing\nht!tp\n", quick...)
	wantCode(t, exitIncomplete, code, out, errs)
	if !strings.Contains(errs, "2 of 4 pages are not to be had") || !strings.Contains(errs, "Try: ebb fetch report") {
		t.Errorf("said:\n%s", errs)
	}
	code, out, errs = ebb(t, "", "fetch", "status", dir, "--json")
	wantCode(t, exitDone, code, out, errs)
	var status struct {
		ID    string         `json:"id"`
		Phase string         `json:"phase"`
		Tally map[string]int `json:"tally"`
	}
	if err := json.Unmarshal([]byte(out), &status); err != nil || status.ID != "votes.000003" || status.Phase != "ended" || status.Tally["permanent"] != 2 {
		t.Errorf("%v: %+v", err, status)
	}
	code, out, errs = ebb(t, "", "fetch", "explain", base+"/missing", dir)
	wantCode(t, exitDone, code, out, errs)
	if !strings.Contains(out, base+"/missing: permanent") || !strings.Contains(out, "404") {
		t.Errorf("explained:\n%s", out)
	}
	code, out, errs = ebb(t, "", "fetch", "retry", "--class", "permanent", dir)
	wantCode(t, exitIncomplete, code, out, errs)
	if !strings.Contains(errs, "2 pages are tried again") {
		t.Errorf("said:\n%s", errs)
	}
}

func TestFetchUsage(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		name string
		args []string
		want int
		says string
	}{
		{"no directory", []string{"fetch", "http://127.0.0.1:1/"}, exitUsage, "no directory"},
		{"no input", []string{"fetch", "-o", filepath.Join(dir, "a")}, exitNo, "no ledger"},
		{"unreadable input", []string{"fetch", "-i", filepath.Join(dir, "nothing"), "-o", filepath.Join(dir, "b")}, exitUsage, "nothing"},
		{"under the floor", []string{"fetch", "http://127.0.0.1:1/", "-o", filepath.Join(dir, "c"), "--spacing", "1ms"}, exitUsage, "--waive"},
		{"wrong kind of policy", []string{"fetch", "http://127.0.0.1:1/", "-o", filepath.Join(dir, "d"), "--policy", "webhook"}, exitUsage, "for target endpoint"},
		{"unknown class", []string{"fetch", "retry", "--class", "bogus", filepath.Join(dir, "nowhere")}, exitNo, "no ledger"},
		{"nothing there", []string{"fetch", "status", filepath.Join(dir, "nowhere")}, exitNo, "no ledger"},
		{"bad header", []string{"fetch", "http://127.0.0.1:1/", "-o", filepath.Join(dir, "e"), "-H", "x"}, exitUsage, "--header"},
		{"header name", []string{"fetch", "http://127.0.0.1:1/", "-o", filepath.Join(dir, "e"), "-H", "X Y: a"}, exitUsage, "--header"},
		{"header value", []string{"fetch", "http://127.0.0.1:1/", "-o", filepath.Join(dir, "e"), "-H", "X: a\nb"}, exitUsage, "--header"},
		{"user agent", []string{"fetch", "http://127.0.0.1:1/", "-o", filepath.Join(dir, "e"), "--user-agent", "a\nb"}, exitUsage, "--user-agent"},
		{"timeout", []string{"fetch", "http://127.0.0.1:1/", "-o", filepath.Join(dir, "e"), "--timeout", "-5s"}, exitUsage, "--timeout"},
		{"size", []string{"fetch", "http://127.0.0.1:1/", "-o", filepath.Join(dir, "e"), "--max-size", "-1"}, exitUsage, "--max-size"},
		{"scope of nothing", []string{"fetch", "http://127.0.0.1:1/", "-o", filepath.Join(dir, "e"), "--include", "/a"}, exitUsage, "--recursive"},
		{"a file", []string{"fetch", "status", "cmd_fetch.go"}, exitNo, "no ledger"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, errs := ebb(t, "", c.args...)
			wantCode(t, c.want, code, out, errs)
			if !strings.Contains(errs, c.says) || !strings.Contains(errs, "Try: ") {
				t.Errorf("said:\n%s", errs)
			}
		})
	}
	if made, err := os.ReadDir(dir); err != nil || len(made) != 0 {
		t.Errorf("wrong usage made %v, %v", made, err)
	}
}

// Wrong usage after a fetch leaves that fetch the newest.
func TestFetchWrongUsageBeginsNothing(t *testing.T) {
	base, _ := fetchSite(t)
	dir := filepath.Join(t.TempDir(), "votes")
	code, out, errs := ebb(t, "", "fetch", base+"/p/1", "-o", dir)
	wantCode(t, exitDone, code, out, errs)
	for _, args := range [][]string{
		{"fetch", "-o", dir},
		{"fetch", "-i", filepath.Join(dir, "nothing.txt"), "-o", dir},
		{"fetch", "-i", "-", "-o", dir},
	} {
		code, out, errs = ebb(t, "\n# none\n", args...)
		wantCode(t, exitUsage, code, out, errs)
	}
	code, out, errs = ebb(t, "", "fetch", "status", dir)
	wantCode(t, exitDone, code, out, errs)
	if !strings.Contains(out, "votes.000001") || !strings.Contains(out, "ended") {
		t.Errorf("the newest fetch is\n%s", out)
	}
}

// A crawl follows links within the hosts of its input unless told otherwise,
// and keeps an archive.
func TestFetchRecursive(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		switch r.URL.Path {
		case "/robots.txt":
			w.WriteHeader(http.StatusNotFound)
		case "/":
			fmt.Fprint(w, `<a href="/a">a</a> <a href="b#x">b</a> <a href="http://elsewhere.invalid/">out</a>`)
		default:
			fmt.Fprintf(w, `%s <a href="/">home</a>`, r.URL.Path)
		}
	}))
	defer s.Close()
	dir := filepath.Join(t.TempDir(), "site")
	code, out, errs := ebb(t, "", "fetch", s.URL+"/", "-o", dir, "--recursive", "--warc")
	wantCode(t, exitDone, code, out, errs)
	if !strings.Contains(out, "complete: 3 of 3 pages are here") {
		t.Errorf("said:\n%s", out)
	}
	files, err := filepath.Glob(filepath.Join(dir, "warc", "*.warc.gz"))
	if err != nil || len(files) != 1 {
		t.Errorf("archive %v, %v", files, err)
	}
	code, out, errs = ebb(t, "not a URL\n", "fetch", "-i", "-", "-o", dir+"2", "--recursive")
	wantCode(t, exitUsage, code, out, errs)
	code, out, errs = ebb(t, "", "fetch", s.URL+"/", "-o", dir+"3", "--recursive", "--exclude", "/b")
	wantCode(t, exitDone, code, out, errs)
	if !strings.Contains(out, "complete: 2 of 2 pages are here") {
		t.Errorf("said:\n%s", out)
	}
}

// Nothing is sent, nothing is made.
func TestFetchDryRun(t *testing.T) {
	base, calls := fetchSite(t)
	var list strings.Builder
	for i := range 101 {
		fmt.Fprintf(&list, "%s/p/%d\n", base, i)
	}
	dir := filepath.Join(t.TempDir(), "out")
	code, out, errs := ebb(t, list.String(), "fetch", "-i", "-", "-o", dir, "--dry-run")
	wantCode(t, exitDone, code, out, errs)
	if !strings.Contains(out, "takes at least 15s; waves wait up to 4m30s more") || calls.Load() != 0 {
		t.Errorf("%d calls:\n%s", calls.Load(), out)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the directory was made")
	}
}
