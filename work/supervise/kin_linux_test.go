package supervise

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ebbhq/ebb/job"
)

// A wrapper that ends before it begins (another program in its place, killed
// for memory) is a fault of the machine: it is noticed, and costs no restart.
func TestWrapperThatNeverBegins(t *testing.T) {
	k := newKit(t, func(c *Config) { c.Self = []string{"true"} })
	k.submit(k.shell(`echo done`))
	r := k.work(func(r Run) bool { return len(r.Restarts) > 0 })
	if row := r.Restarts[0]; row.Reason != "never_started" || row.Class != "local_io" || row.Counted != "apart" || !strings.Contains(row.Error, "wrapper.log") {
		t.Fatalf("%+v", r.Restarts)
	}
	k.service = k.newService()
	if r = k.work(over); r.State != job.Succeeded || r.RestartsUsed != 0 || r.Attempt < 2 {
		t.Fatalf("%+v", r)
	}
}

// The wrapper is killed between the start of the command and the record of who
// it is: the command holds the lock, is found by it, named and watched.
func TestWrapperKilledBeforeItNamedItsCommand(t *testing.T) {
	k := newKit(t, detach)
	k.submit(k.shell(patient))
	r := k.handover()
	pid := r.Status.Child.PID
	if err := syscall.Kill(parentOf(t, pid), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(attemptDir(k.dir, 1), childFile)); err != nil {
		t.Fatal(err)
	}
	st := r.Status
	st.Child = Identity{Host: hostID()}
	if err := k.service.keep(t.Context(), "crawl", &st); err != nil {
		t.Fatal(err)
	}
	k.service.patience = 0
	k.onEvent(Named, k.let)
	r = k.work(over)
	if r.State != job.Succeeded || r.Attempt != 2 || r.Restarts[len(r.Restarts)-1].Reason != "lost" {
		t.Fatalf("%+v", r)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, e := range k.events {
		if e.What == Named && e.Attempt == 1 && e.PID != pid {
			t.Errorf("found pid %d, want %d", e.PID, pid)
		}
	}
	if n := strings.Count(k.file("pids"), "\n"); n != 2 {
		t.Errorf("%d processes: %q", n, k.file("pids"))
	}
}

// What a command starts outside of its group and session ends with it, and
// does not keep the next attempt waiting.
func TestDaemonOfACommandEndsWithIt(t *testing.T) {
	k := newKit(t)
	r := k.do(k.shell(`(setsid sh -c 'echo $$ >> escaped; exec sleep 600' &)
		while test $(cat escaped 2>/dev/null | wc -l) -lt $((1{attempt} - 10000)); do sleep 0.01; done
		echo page; test {attempt} = 0002`))
	if r.State != job.Succeeded || r.RestartsUsed != 1 || len(r.Restarts) != 1 {
		t.Fatalf("%+v", r)
	}
	for _, text := range strings.Fields(k.file("escaped")) {
		pid, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		if s, err := procStat(pid); err == nil && s.state != 'Z' && s.state != 'X' {
			t.Errorf("pid %d lives: %c", pid, s.state)
		}
	}
}

// Who holds a lock is told by pid and command, for whoever must end it.
func TestHoldersOfALockAreNamed(t *testing.T) {
	k := newKit(t, detach)
	k.submit(k.shell(patient))
	r := k.handover()
	path := filepath.Join(k.dir, lockFile)
	if got := who(path); !strings.Contains(got, fmt.Sprintf("pid %d (%s -c echo $$", r.Status.Child.PID, r.Status.Argv[0])) {
		t.Errorf("%q", got)
	}
	k.let()
	k.work(over)
	await(t, func() bool { return who(path) == "" })
}
