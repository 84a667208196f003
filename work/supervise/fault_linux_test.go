package supervise

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ebbhq/ebb/disktest"
	"github.com/ebbhq/ebb/job"
)

// A full disk costs no restart: the run waits, and goes on when there is room.
func TestFullDiskWaitsThenContinues(t *testing.T) { disktest.Run(t, 1<<20, fullDiskRun) }

func fullDiskRun(t *testing.T, disk string) {
	k := newKit(t)
	ballast := filepath.Join(disk, "ballast")
	var fill sync.Once
	s := newSite(t, 15, func(_ *site, _ http.ResponseWriter, _ *http.Request, page int) bool {
		if page == 5 { // somebody else fills the disk in the middle of the crawl
			fill.Do(func() {
				if err := disktest.Fill(ballast); err != nil {
					t.Error(err)
				}
			})
		}
		return false
	})
	spec := k.wget(s)
	spec.Cwd = disk
	k.submit(spec)
	r := k.work(func(r Run) bool { return r.Held != "" })
	if len(r.Restarts) < 1 || r.Restarts[0].Class != "disk_full" || r.Restarts[0].Counted != "apart" || r.RestartsLeft != 20 {
		t.Errorf("%+v", r)
	}
	if !strings.HasPrefix(r.Held, "disk: "+disk) || r.Attempt != 1 {
		t.Errorf("%+v", r)
	}
	k.service = k.newService()
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if r = k.work(over); r.State != job.Succeeded || r.RestartsUsed != 0 || r.Units != 15 || r.Attempt != 2 {
		t.Fatalf("%+v", r)
	}
	if pages := archived(t, disk); len(pages) != 15 {
		t.Errorf("%d pages archived", len(pages))
	}
}

// Tearing or deleting the state file changes nothing: the budget is the
// store's, and the file is written anew from it.
func TestStateFileNeverResetsABudget(t *testing.T) {
	k := newKitAt(t, 6000)
	r := k.do(k.shell(`case {attempt} in
		*[147]) rm -f .archive_state.json;;
		*[258]) printf '{"current_wor' > .archive_state.json;;
		*) echo '{"container_restarts_done":0}' > .archive_state.json;;
	esac; exit 9`))
	if r.State != job.Parked || r.Cause != "no_progress" || r.RestartsUsed != 20 || r.RestartsLeft != 0 || r.Attempt != 21 {
		t.Fatalf("%+v", r)
	}
	var s State
	if err := json.Unmarshal([]byte(k.file(StateFile)), &s); err != nil || s.RestartsDone != 20 || len(s.TempDirs) != 21 {
		t.Errorf("%+v %v", s, err)
	}
}

// detach makes supervisors leave their commands running.
func detach(c *Config) { c.StopRuns = false }

// handover runs a supervisor until the run's process is known, and stops it.
func (k *kit) handover() Run {
	k.Helper()
	r := k.work(func(r Run) bool {
		if r.PID != 0 && r.Units > 0 {
			k.service.Stop()
			return true
		}
		return false
	})
	k.service = k.newService(detach)
	return r
}

const patient = `echo $$ >> pids; echo begun; while ! test -e go; do sleep 0.01; done; echo done`

func (k *kit) let() {
	k.Helper()
	if err := os.WriteFile(filepath.Join(k.dir, "go"), nil, 0o600); err != nil {
		k.Fatal(err)
	}
}

func parentOf(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		t.Fatal(err)
	}
	return parent
}

// A server that stops leaves the command; the next one takes it over.
func TestServerStopLeavesTheCommandRunning(t *testing.T) {
	k := newKit(t, detach)
	k.submit(k.shell(patient))
	r := k.handover()
	if r.Restarts[0].Reason != ReasonLeft || r.RestartsUsed != 0 {
		t.Fatalf("%+v", r.Restarts)
	}
	k.let()
	r = k.work(over)
	if r.State != job.Succeeded || r.Attempt != 1 || strings.Count(k.file("pids"), "\n") != 1 || k.count(Adopted)+k.count(Judged) != 1 {
		t.Fatalf("%+v, pids %q", r, k.file("pids"))
	}
}

// The wrapper dies with its supervisor: the command still holds the lock and
// is watched to its end; its exit code is lost, and that is what the ledger
// says.
func TestWrapperKilled(t *testing.T) {
	k := newKit(t, detach)
	k.submit(k.shell(patient))
	r := k.handover()
	pid := r.Status.Child.PID
	if err := syscall.Kill(parentOf(t, pid), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	k.onEvent(Adopted, k.let)
	r = k.work(over)
	if r.State != job.Succeeded || r.Attempt != 2 || r.Restarts[1].Reason != "lost" {
		t.Fatalf("%+v", r)
	}
	if k.count(Adopted) != 1 {
		t.Errorf("%d taken over", k.count(Adopted))
	}
}

// A wrapper that comes after its attempt was closed runs nothing.
func TestLateWrapperRunsNothing(t *testing.T) {
	dir := t.TempDir()
	at, err := prepare(dir, launch{Attempt: 1, Argv: []string{"/bin/sh", "-c", "touch ran"}, Cwd: dir, At: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := at.settle(); err != nil || !ok {
		t.Fatal(ok, err)
	}
	if err := Child(at.dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "ran")); !os.IsNotExist(err) {
		t.Error("it ran")
	}
	if e, ok, err := at.exit(); err != nil || !ok || !e.Never {
		t.Errorf("%+v %v %v", e, ok, err)
	}
}

// Two wrappers of one run: the second is refused while the first lives.
func TestSecondWrapperIsRefused(t *testing.T) {
	dir := t.TempDir()
	lock, err := tryLock(filepath.Join(dir, lockFile))
	if err != nil || lock == nil {
		t.Fatal(err)
	}
	defer closeFile(lock)
	at, err := prepare(dir, launch{Attempt: 2, Argv: []string{"/bin/sh", "-c", "touch ran"}, Cwd: dir, At: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	if err := Child(at.dir); err != nil {
		t.Fatal(err)
	}
	if e, ok, err := at.exit(); err != nil || !ok || !e.Refused {
		t.Errorf("%+v %v %v", e, ok, err)
	}
}

// A run whose process was started on another host is parked until somebody
// says that it is gone.
func TestLostHostParks(t *testing.T) {
	k := newKit(t)
	k.submit(k.shell(`echo done`))
	st := Status{Job: 1, Start: 1, Attempt: 3, HostName: "vps2", Child: Identity{PID: 7, Host: "another", Boot: "b"}, Workers: 1, InitialWorkers: 1}
	if err := k.service.keep(t.Context(), "crawl", &st); err != nil {
		t.Fatal(err)
	}
	r := k.work(over)
	if r.State != job.Parked || r.Cause != job.HostLost || r.Reason != ReasonHostLost || !strings.Contains(r.Error, "vps2") || r.Attempt != 3 || k.count(Launched) != 0 {
		t.Fatalf("%+v", r)
	}
	if err := k.service.Release(t.Context(), k.clock.Now(), "maya", "crawl"); err != nil {
		t.Fatal(err)
	}
	if r = k.work(over); r.State != job.Succeeded || r.Attempt != 4 {
		t.Fatalf("%+v", r)
	}
}

// A host that is back takes its own runs back, and nobody else's.
func TestHostThatIsBackTakesItsRunsBack(t *testing.T) {
	k := newKit(t)
	k.submit(k.shell(`echo done`))
	st := Status{Job: 1, Start: 1, Attempt: 3, Child: Identity{PID: 7, Host: "another", Boot: "b"}, Workers: 1, InitialWorkers: 1}
	if err := k.service.keep(t.Context(), "crawl", &st); err != nil {
		t.Fatal(err)
	}
	k.work(over)
	for _, c := range []struct {
		host  string
		state job.State
	}{{"another", job.Parked}, {hostID(), job.Queued}} {
		st.Child.Host = c.host
		if err := errors.Join(k.service.keep(t.Context(), "crawl", &st), k.service.Return(t.Context())); err != nil {
			t.Fatal(err)
		}
		if r, err := k.service.Show(t.Context(), "crawl"); err != nil || r.State != c.state {
			t.Errorf("host %s: %v %+v, want %s", c.host, err, r, c.state)
		}
	}
	if r := k.work(over); r.State != job.Succeeded || r.Attempt != 4 {
		t.Fatalf("%+v", r)
	}
}

// A boot id that is not ours: the machine was started anew, the process is
// gone, and that costs no restart.
func TestRebootIsNoRestart(t *testing.T) {
	k := newKit(t, detach)
	k.submit(k.shell(`test {attempt} -gt 1 || exec sleep 600; echo done`))
	k.service.config.Report = 10 * time.Millisecond
	r := k.work(func(r Run) bool {
		if r.PID != 0 {
			k.service.Stop()
		}
		return r.PID != 0
	})
	id := r.Status.Child
	if err := signalGroup(id.Group, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	dir := attemptDir(k.dir, 1)
	await(t, func() bool {
		_, err := os.Stat(filepath.Join(dir, exitFile))
		return err == nil
	})
	// As a power cut leaves it: an identity of another boot, and no exit.
	id.Boot = "0000"
	if err := save(filepath.Join(dir, childFile), id); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, exitFile)); err != nil {
		t.Fatal(err)
	}
	k.service = k.newService(detach)
	r = k.work(over)
	if r.State != job.Succeeded || r.RestartsUsed != 0 || r.Attempt != 2 {
		t.Fatalf("%+v", r)
	}
	if last := r.Restarts[len(r.Restarts)-1]; last.Reason != "rebooted" || last.Class != "interrupted" {
		t.Errorf("%+v", r.Restarts)
	}
}

// The whole group ends, also those that do not listen to INT and TERM.
func TestStopEndsTheWholeGroup(t *testing.T) {
	k := newKit(t)
	spec := k.shell(`trap "" INT TERM; sh -c 'trap "" INT TERM; echo $$ > inner; while :; do sleep 0.05; done' & echo begun; wait`)
	spec.Progress.NoProgress = Duration(time.Minute)
	spec.Stop.Grace = Duration(50 * time.Millisecond)
	k.submit(spec)
	r := k.work(func(r Run) bool { return len(r.Restarts) == 1 })
	if r.Restarts[0].Reason != "no_progress" || !strings.Contains(r.Restarts[0].Error, "KILL") {
		t.Fatalf("%+v", r.Restarts)
	}
	inner, err := strconv.Atoi(strings.TrimSpace(k.file("inner")))
	if err != nil {
		t.Fatal(err)
	}
	if s, err := procStat(inner); err == nil && s.state != 'Z' && s.state != 'X' {
		t.Errorf("pid %d lives: %c", inner, s.state)
	}
}

// Text files say what the store says, and promtool accepts them.
func TestTextfileEqualsTheStore(t *testing.T) {
	k := newKit(t)
	spec := k.shell(`echo page; echo page; test {attempt} = 0003`)
	spec.Textfile = t.TempDir()
	r := k.do(spec)
	if err := k.service.Export(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(spec.Textfile, "ebb_run_crawl.prom"))
	if err != nil {
		t.Fatal(err)
	}
	j, err := k.store.Job(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		fmt.Sprintf("ebb_run_restarts_used{run=\"crawl\"} %d\n", j.History.Attempts-1),
		fmt.Sprintf("ebb_run_restarts_left{run=\"crawl\"} %d\n", 21-j.History.Attempts),
		"ebb_run_progress_units{run=\"crawl\"} 2\n", "ebb_run_state{run=\"crawl\",state=\"succeeded\"} 1\n",
		"ebb_run_state_file_readable{run=\"crawl\"} 1\n",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if r.RestartsUsed != 2 {
		t.Errorf("%+v", r)
	}
	check := exec.CommandContext(t.Context(), "promtool", "check", "metrics")
	check.Stdin = bytes.NewReader(text)
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("promtool: %v\n%s", err, out)
	}
}

// A directory that the command shall work in is not made: it may be of a disk
// that is not mounted. At first that is a mistake, later a fault of the machine.
func TestMissingCwdIsNotMade(t *testing.T) {
	k := newKit(t)
	spec := k.shell(`echo {attempt} >> ` + k.dir + `/seen; test {attempt} = 0002 || { rmdir "$PWD"; exit 1; }; echo page`)
	spec.Cwd = filepath.Join(k.dir, "disk", "crawl")
	r := k.do(spec)
	if r.State != job.Parked || r.Reason != ReasonConfig || r.Attempt != 0 || !strings.Contains(r.Error, "there is no such directory") {
		t.Fatalf("%+v", r)
	}
	if err := os.MkdirAll(spec.Cwd, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := k.store.Retry(t.Context(), k.clock.Now(), "maya", 1); err != nil {
		t.Fatal(err)
	}
	r = k.work(func(r Run) bool { return r.Held != "" })
	if !strings.HasPrefix(r.Held, "cwd: ") || r.Attempt != 1 || len(r.Restarts) < 1 {
		t.Fatalf("%+v", r)
	}
	if err := os.MkdirAll(spec.Cwd, 0o755); err != nil {
		t.Fatal(err)
	}
	if r = k.work(over); r.State != job.Succeeded || r.RestartsUsed != 1 || k.file("seen") != "0001\n0002\n" {
		t.Fatalf("%q %+v", k.file("seen"), r)
	}
}

// What cannot be made for an attempt costs no restart.
func TestDirectoryThatCannotBeMadeIsWaitedFor(t *testing.T) {
	k := newKit(t)
	if err := os.WriteFile(filepath.Join(k.dir, "attempts"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	k.submit(k.shell(`echo page`))
	r := k.work(func(r Run) bool { return len(r.Restarts) > 0 })
	if row := r.Restarts[0]; row.Class != "local_io" || row.Counted != "apart" {
		t.Fatalf("%+v", row)
	}
	if err := os.Remove(filepath.Join(k.dir, "attempts")); err != nil {
		t.Fatal(err)
	}
	if r = k.work(over); r.State != job.Succeeded || r.RestartsUsed != 0 {
		t.Fatalf("%+v", r)
	}
}
