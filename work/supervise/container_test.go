//go:build containers

package supervise

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ebbhq/ebb/job"
)

// inside is a spec of the test image; scripts/containers has started the
// daemon and imported it.
func (k *kit) inside(argv ...string) Spec {
	k.Helper()
	socket := os.Getenv("EBB_TEST_DOCKER")
	if socket == "" {
		k.Fatal("EBB_TEST_DOCKER names no daemon: make test-containers")
	}
	return Spec{
		Version: 1, Name: "crawl", Dir: k.dir, Command: Words(append([]string{"/contained"}, argv...)...),
		Container: &Container{Image: "ebb-contained", Socket: socket, Network: "none"},
		Progress:  Progress{Sources: []Source{{Kind: "lines", From: "stdout", Pattern: "^page", Count: "pages"}}},
		Stop:      Stop{Grace: Duration(300 * time.Millisecond)},
	}
}

// living lists the containers of the kit's run.
func (k *kit) living() []containerState {
	k.Helper()
	d := dial(os.Getenv("EBB_TEST_DOCKER"))
	var c containment
	last, err := lastAttempt(k.dir)
	if err != nil {
		k.Fatal(err)
	}
	if ok, err := read(filepath.Join(attemptDir(k.dir, last), containerFile), &c); err != nil || !ok {
		k.Fatalf("no container yet: %v", err)
	}
	list, err := d.find(context.Background(), c.Key)
	if err != nil {
		k.Fatal(err)
	}
	return list
}

func TestContainerRuns(t *testing.T) {
	k := newKit(t)
	spec := k.inside("print", "1000", "0")
	spec.Success.Units = 1000
	r := k.do(spec)
	if r.State != job.Succeeded || r.Units != 1000 || r.Attempt != 1 {
		t.Fatalf("%+v", r)
	}
	if got := k.file("attempts/0001/stderr.log"); strings.Count(got, "note ") != 1000 {
		t.Errorf("%d lines of standard error", strings.Count(got, "note "))
	}
	if list := k.living(); len(list) != 0 {
		t.Errorf("left behind: %+v", list)
	}
}

// The container's exit code is judged as a process's, and what the daemon
// refuses is a fault of the spec.
func TestContainerExits(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Spec)
		state  job.State
		reason string
		uses   int
	}{
		{"code", func(s *Spec) {
			s.Command = Words("/contained", "print", "1", "3")
			s.Exit = []ExitRule{{Name: "three", Codes: []int{3}, Outcome: OutcomeFatal}}
		}, job.Failed, "three", 0},
		{"no image", func(s *Spec) { s.Container.Image = "nowhere" }, job.Parked, ReasonConfig, 0},
		{"no program", func(s *Spec) { s.Command = Words("/nothing") }, job.Parked, ReasonConfig, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newKit(t)
			spec := k.inside("print", "1", "0")
			c.change(&spec)
			if r := k.do(spec); r.State != c.state || r.Reason != c.reason || r.RestartsUsed != c.uses || r.Attempt != 1 {
				t.Fatalf("%+v", r)
			}
		})
	}
}

func TestContainerKilledForMemory(t *testing.T) {
	k := newKit(t)
	spec := k.inside("eat")
	spec.Container.Memory = 32 << 20
	spec.Workers = Workers{Initial: 4, Min: 4}
	spec.Exit = []ExitRule{{Name: "too_big", OOM: true, Outcome: OutcomeFatal}}
	r := k.do(spec)
	if r.State != job.Failed || r.Reason != "too_big" || !strings.Contains(r.Error, "killed for want of memory") {
		t.Fatalf("%+v", r)
	}
}

// INT first, then TERM, then KILL: each is given its grace.
func TestContainerIsStopped(t *testing.T) {
	for ends, want := range map[string]string{
		"interrupt":  "page 1\ntold interrupt\n",
		"terminated": "page 1\ntold interrupt\ntold terminated\n",
		"never":      "page 1\ntold interrupt\ntold terminated\n",
	} {
		t.Run(ends, func(t *testing.T) {
			k := newKit(t)
			k.submit(k.inside("polite", ends))
			k.work(func(r Run) bool { return r.Units == 1 }) // then the supervisor is told to stop
			k.service.Stop()
			r := k.work(func(r Run) bool { return r.Status.Verdict != nil })
			if r.Verdict.Reason != "interrupted" {
				t.Errorf("%+v", r.Verdict)
			}
			if got := k.file("attempts/0001/stdout.log"); got != want {
				t.Errorf("%q, want %q", got, want)
			}
			await(t, func() bool { return len(k.living()) == 0 })
		})
	}
}

// pidsOf are our processes that name a path in their command line: wrapper,
// client, guard.
func pidsOf(t *testing.T, part string) []int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		if text, err := os.ReadFile("/proc/" + e.Name() + "/cmdline"); err == nil && strings.Contains(string(text), "supervise-child\x00"+part) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Everything of ours dies at once and the container goes on: the next attempt
// takes it over, the same one, and reads what it printed from the start.
func TestContainerOutlivesUs(t *testing.T) {
	leave := func(c *Config) { c.StopRuns = false } // a server that ends leaves it running
	k := newKit(t, leave)
	spec := k.inside("wait", filepath.Join(k.dir, "go"))
	spec.Success.Units = 2
	k.submit(spec)
	var first []containerState
	k.onEvent(Advanced, func() {
		if first != nil {
			return
		}
		first = k.living()
		for _, pid := range pidsOf(t, k.dir) {
			_ = syscall.Kill(pid, syscall.SIGSTOP) // none may act on another's death
		}
		for _, pid := range pidsOf(t, k.dir) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	r := k.work(func(r Run) bool { return r.Attempt == 2 && r.Running && r.Units == 1 && len(r.Restarts) == 1 })
	if list := k.living(); len(first) != 1 || len(list) != 1 || list[0].ID != first[0].ID || !list[0].State.Running {
		t.Fatalf("%+v, then %+v: %+v", first, list, r)
	}
	if err := os.WriteFile(filepath.Join(k.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	k.service = k.newService(leave)
	if r = k.work(over); r.State != job.Succeeded || r.Units != 2 {
		t.Fatalf("%+v", r)
	}
	if got := r.reasons(); !slices.Contains(got, "lost") {
		t.Errorf("reasons %v", got)
	}
}
