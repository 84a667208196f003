package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ebbhq/ebb/work/supervise"
)

// serverProcess is a real `ebb serve`, so that it can be stopped and killed.
type serverProcess struct {
	cmd  *exec.Cmd
	base string
}

func startServer(t *testing.T, db, config string) *serverProcess {
	t.Helper()
	s := &serverProcess{cmd: exec.CommandContext(context.WithoutCancel(t.Context()), "ebb", "serve", "--json", "--listen", "127.0.0.1:0", "--db", db, "--config", config)}
	s.cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	s.cmd.Stderr = os.Stderr
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.cmd.Process.Kill() })
	var told struct{ Address string }
	if err := json.NewDecoder(out).Decode(&told); err != nil {
		t.Fatal(err)
	}
	s.base = told.Address
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return s
}

func (s *serverProcess) stop(t *testing.T) {
	t.Helper()
	if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
}

// shownBy looks until the run is as wanted.
func shownBy(t *testing.T, db string, so func(*supervise.Run) bool) supervise.Run {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for until := time.Now().Add(time.Minute); ; <-tick.C {
		var r supervise.Run
		text, err := exec.CommandContext(t.Context(), "ebb", "supervise", "show", "patient", "--json", "--db", db).Output()
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &r); err != nil {
			t.Fatal(err)
		}
		if so(&r) {
			return r
		}
		if time.Now().After(until) {
			t.Fatalf("not so after a minute: %+v", r)
		}
	}
}

// A run from the queue: the server works on it, leaves it running when it
// stops, and the next server takes it over; /metrics tells of it.
func TestServerSupervisesAndHandsOver(t *testing.T) {
	dir := t.TempDir()
	db := "sqlite:" + filepath.Join(dir, "ebb.db")
	file, config := filepath.Join(dir, "patient.yaml"), filepath.Join(dir, "ebb.yaml")
	spec := `{version: 1, command: [sh, -c, "echo $$ >> pids; echo begun; while ! test -e go; do sleep 0.02; done; echo done"]}`
	for path, text := range map[string]string{file: spec, config: "supervise: {queues: [crawl]}\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.CommandContext(t.Context(), "ebb", "supervise", "--queue", "crawl", "--db", db, "-f", file).CombinedOutput(); err != nil || string(out) != "run patient: queued\n" {
		t.Fatalf("%v: %s", err, out)
	}
	s := startServer(t, db, config)
	first := shownBy(t, db, func(r *supervise.Run) bool { return r.Running && r.PID != 0 && r.Units > 0 })
	status, text := fetchPage(t, http.DefaultClient, s.base+"/metrics")
	if status != http.StatusOK || !strings.Contains(text, `ebb_run_process_running{run="patient"} 1`) || !strings.Contains(text, `ebb_run_restarts_left{run="patient"} 20`) {
		t.Errorf("status %d, no metrics of the run", status)
	}
	s.stop(t)
	if _, err := os.Stat("/proc/" + strconv.Itoa(first.PID)); err != nil {
		t.Fatalf("pid %d is gone with its server", first.PID)
	}
	startServer(t, db, config)
	shownBy(t, db, func(r *supervise.Run) bool { return r.Running && r.Starts >= 1 })
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := shownBy(t, db, func(r *supervise.Run) bool { return r.State == "succeeded" })
	pids, err := os.ReadFile(filepath.Join(dir, "pids"))
	if err != nil || strings.Count(string(pids), "\n") != 1 || r.RestartsUsed != 0 || r.Attempt != 1 || r.Restarts[0].Reason != supervise.ReasonLeft {
		t.Errorf("%v %q %+v", err, pids, r)
	}
}
