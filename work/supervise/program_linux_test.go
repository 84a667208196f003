package supervise

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebbhq/ebb/job"
)

// curl draws its meter also while nothing comes in: only what it has written
// is progress, and no attempt writes over another's file.
func TestCurlThatHangsIsRestarted(t *testing.T) {
	k := newKit(t)
	var visits atomic.Int64
	body := strings.Repeat("x", 100_000)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "100000")
		if visits.Add(1) > 1 {
			_, _ = w.Write([]byte(body))
			return
		}
		_, _ = w.Write([]byte(body[:40_000]))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	spec := Spec{Version: 1, Name: "crawl", Dir: k.dir, Command: Words("curl", "--noproxy", "*", "-fSo", "all.bin", server.URL)}
	spec.Progress.NoProgress = Duration(10 * time.Minute)
	spec.Success.Artifacts = []Artifact{{Glob: "all-{attempt}.bin", Bytes: 100_000}}
	spec.Stop.Grace = Duration(time.Second)
	r := k.do(spec)
	if r.State != job.Succeeded || r.Units != 100_000 || r.Counter != "bytes" || !slices.Equal(r.reasons(), []string{"no_progress"}) {
		t.Fatalf("%+v", r)
	}
	first, second := sizeOf(filepath.Join(k.dir, "all-0001.bin")), sizeOf(filepath.Join(k.dir, "all-0002.bin"))
	if first <= 0 || first > 40_000 || second != 100_000 { // curl keeps a part in its buffer
		t.Errorf("the first holds %d bytes, the second %d", first, second)
	}
}

// browsertrix-crawler's own flag is lowered where the command has a number in
// it and no variable.
func TestThresholdLowersTheCrawlersOwnFlag(t *testing.T) {
	k := newKit(t)
	program := filepath.Join(k.dir, "crawl")
	script := `#!/bin/sh
echo "$@" >> seen
echo '{"details":{"crawled":1}}'
test "$2" = 2 && exit 0
for i in $(seq 50); do echo '{"logLevel":"warn","message":"Page Load Timeout"}'; done
exec sleep 600
`
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	spec := k.shell("")
	spec.Command = Words(program, "--workers", "4", "--collection", "hc")
	r := k.do(spec)
	if r.State != job.Succeeded || r.Workers != 2 || !slices.Equal(r.reasons(), []string{"error_threshold_timeout"}) {
		t.Fatalf("%+v", r)
	}
	if got := k.file("seen"); got != "--workers 4 --collection hc-0001\n--workers 2 --collection hc-0002\n" {
		t.Errorf("%q", got)
	}
}

// A list says of every run what is said of it alone.
func TestListSaysWhatShowSays(t *testing.T) {
	k := newKit(t)
	for _, name := range []string{"run-a", "run-b", "run-c"} { // wait in a queue that nobody serves
		spec := k.shell("echo done")
		spec.Name, spec.Dir = name, filepath.Join(k.dir, name)
		if _, err := k.service.Submit(t.Context(), k.clock.Now(), Submission{Spec: spec, Queue: "later"}); err != nil {
			t.Fatal(err)
		}
	}
	k.do(k.shell("echo page"))
	if err := k.service.point(t.Context(), map[string]int64{"run-b": 4711}); err != nil { // a job that is gone
		t.Fatal(err)
	}
	list, err := k.service.List(t.Context())
	if err != nil || len(list) != 4 {
		t.Fatalf("%d runs: %v", len(list), err)
	}
	for i := range list {
		one, err := k.service.Show(t.Context(), list[i].Name)
		if err != nil {
			t.Fatal(err)
		}
		if got := &list[i]; got.State != one.State || got.Job != one.Job || got.Job == "" || got.RestartsUsed != one.RestartsUsed || got.Units != one.Units ||
			got.RestartsLeft != one.RestartsLeft || got.Starts != one.Starts || got.Attempt != one.Attempt {
			t.Errorf("%s:\n%+v\n%+v", one.Name, got, one)
		}
	}
}
