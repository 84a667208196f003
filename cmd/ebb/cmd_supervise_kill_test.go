package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ebbhq/ebb/work/supervise"
)

// gated is a website whose pages are given out one by one, as the test says.
type gated struct {
	*httptest.Server
	tokens chan struct{}
	visits atomic.Int64 // requests for the first page
}

const gatedPages = 60

func newGated(t *testing.T) *gated {
	t.Helper()
	g := &gated{tokens: make(chan struct{}, 10*gatedPages)}
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var page int
		if _, err := fmt.Sscanf(r.URL.Path, "/p%d.html", &page); err != nil {
			http.NotFound(w, r)
			return
		}
		if page == 0 {
			g.visits.Add(1)
		}
		select {
		case <-g.tokens:
		case <-r.Context().Done():
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<a href="/p%d.html">next</a>`, (page+1)%gatedPages)
	}))
	t.Cleanup(func() {
		for _, pid := range crawlers(t, g.URL) { // of a test that failed
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		g.CloseClientConnections()
		g.Close()
	})
	return g
}

func (g *gated) give(n int) {
	for range n {
		g.tokens <- struct{}{}
	}
}

// supervisor is one `ebb supervise` process and what it told.
type supervisor struct {
	t      *testing.T
	cmd    *exec.Cmd
	out    *bufio.Reader
	stderr strings.Builder
}

func startSupervisor(t *testing.T, dir string, argv ...string) *supervisor {
	t.Helper()
	s := &supervisor{t: t}
	args := append([]string{"supervise", "--json", "--dir", dir, "--speed", "60", "--"}, argv...)
	s.cmd = exec.CommandContext(t.Context(), "ebb", args...)
	s.cmd.Dir = dir
	s.cmd.Env = append(os.Environ(), "LC_ALL=C", "GORACE=atexit_sleep_ms=0")
	s.cmd.Stderr = &s.stderr
	pipe, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.out = bufio.NewReader(pipe)
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return s
}

// await reads events until one of the kind, or the end.
func (s *supervisor) await(kinds ...string) supervise.Event {
	s.t.Helper()
	for {
		line, err := s.out.ReadString('\n')
		if err != nil {
			s.t.Fatalf("no event %v: %v; %s", kinds, err, s.stderr.String())
		}
		var e supervise.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			s.t.Fatalf("%q: %v", line, err)
		}
		for _, k := range kinds {
			if string(e.What) == k {
				return e
			}
		}
	}
}

func (s *supervisor) kill() {
	s.t.Helper()
	if err := s.cmd.Process.Kill(); err != nil {
		s.t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, s.out)
	_ = s.cmd.Wait() // killed
}

// finish reads to the end and returns the exit code.
func (s *supervisor) finish() int {
	s.t.Helper()
	_, err := io.Copy(io.Discard, s.out)
	if err != nil {
		s.t.Fatal(err)
	}
	_ = s.cmd.Wait() // its code tells
	return s.cmd.ProcessState.ExitCode()
}

// crawlers counts the living processes whose command line holds the mark and
// whose program is wget.
func crawlers(t *testing.T, mark string) []int {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var list []int
	for _, path := range all {
		text, err := os.ReadFile(path)
		words := strings.Split(string(text), "\x00")
		if err != nil || filepath.Base(words[0]) != "wget" || !strings.Contains(string(text), mark) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, pid)
	}
	return list
}

func gatedCrawl(g *gated) []string {
	return []string{"wget", "--recursive", "--level=inf", "--warc-file=site", "--no-proxy", "--tries=1", g.URL + "/p0.html"}
}

func shownRun(t *testing.T, dir string) supervise.Run {
	t.Helper()
	text, err := exec.CommandContext(t.Context(), "ebb", "supervise", "show", "--json", "--dir", dir).Output()
	if err != nil {
		t.Fatal(err)
	}
	var r supervise.Run
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// kills is how often the supervisor is killed: 100 times in make
// test-supervise.
func kills() int {
	if os.Getenv("EBB_SUPERVISE") == "full" {
		return 100
	}
	return 10
}

// kill -9 of the supervisor under a running wget: the same child goes on,
// never two, the outcome is recorded.
func TestSupervisorKilledOverAndOver(t *testing.T) {
	dir, g := t.TempDir(), newGated(t)
	argv := gatedCrawl(g)
	s := startSupervisor(t, dir, argv...)
	child := s.await("named").PID
	seen := 0
	for i := range kills() {
		if i%3 == 2 && seen < gatedPages/2 {
			g.give(1)
			seen++
			s.await("progress")
		}
		s.kill()
		if list := crawlers(t, g.URL); len(list) != 1 || list[0] != child {
			t.Fatalf("after kill %d these crawlers live: %v, want %d alone", i+1, list, child)
		}
		s = startSupervisor(t, dir, argv...)
		if i%3 == 1 {
			continue // killed while it starts
		}
		if e := s.await("adopted"); e.PID != child || e.Attempt != 1 {
			t.Fatalf("took over %+v, want pid %d", e, child)
		}
	}
	g.give(2 * gatedPages)
	if code := s.finish(); code != exitDone {
		t.Fatalf("exit %d: %s", code, s.stderr.String())
	}
	r := shownRun(t, dir)
	if r.State != "succeeded" || r.Units != gatedPages || r.RestartsUsed != 0 || r.Attempt != 1 || g.visits.Load() != 1 {
		t.Errorf("%+v; %d visits", r, g.visits.Load())
	}
	for _, row := range r.Restarts {
		if row.Reason != supervise.ReasonDied || row.Counted != "apart" {
			t.Errorf("row %+v", row)
		}
	}
	if len(crawlers(t, g.URL)) != 0 {
		t.Error("a crawler is left")
	}
}

// What ends while nobody watches is judged by the next supervisor.
func TestOutcomeIsRecordedWhileNobodyWatches(t *testing.T) {
	dir, g := t.TempDir(), newGated(t)
	argv := gatedCrawl(g)
	s := startSupervisor(t, dir, argv...)
	s.await("named")
	s.kill()
	g.give(2 * gatedPages)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for until := time.Now().Add(time.Minute); ; <-tick.C {
		if _, err := os.Stat(filepath.Join(dir, "attempts", "0001", "exit.json")); err == nil {
			break
		}
		if time.Now().After(until) {
			t.Fatal("no exit record after a minute")
		}
	}
	s = startSupervisor(t, dir, argv...)
	s.await("judged")
	if code := s.finish(); code != exitDone {
		t.Fatalf("exit %d: %s", code, s.stderr.String())
	}
	if r := shownRun(t, dir); r.State != "succeeded" || r.Units != gatedPages || r.Attempt != 1 || r.Starts != 2 || r.RestartsUsed != 0 {
		t.Errorf("%+v", r)
	}
}

// An interrupt stops the command; the same command line goes on with the run.
func TestInterruptStopsTheCommand(t *testing.T) {
	dir, g := t.TempDir(), newGated(t)
	argv := gatedCrawl(g)
	s := startSupervisor(t, dir, argv...)
	s.await("named")
	if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if code := s.finish(); code != exitInterrupted {
		t.Fatalf("exit %d: %s", code, s.stderr.String())
	}
	if list := crawlers(t, g.URL); len(list) != 0 {
		t.Fatalf("these live: %v", list)
	}
	g.give(2 * gatedPages)
	s = startSupervisor(t, dir, argv...)
	if code := s.finish(); code != exitDone {
		t.Fatalf("exit %d: %s", code, s.stderr.String())
	}
	if r := shownRun(t, dir); r.Attempt != 2 || r.RestartsUsed != 0 || r.State != "succeeded" {
		t.Errorf("%+v", r)
	}
}
