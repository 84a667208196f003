package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// detached puts a wrapper into a session of its own: nothing that is sent to
// the supervisor's terminal or group reaches it.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// exitRoom is written ahead for the exit record, so that a full disk cannot
// keep it from being written.
const exitRoom = 4096

// Child is the wrapper: it runs the command of an attempt's directory and
// records durably how it ended. It outlives its supervisor.
func Child(dir string) error {
	switch filepath.Base(dir) {
	case containerFile:
		return containerChild(dir)
	case guardFile:
		return containerGuard(dir)
	}
	var l launch
	if ok, err := read(filepath.Join(dir, launchFile), &l); err != nil || !ok {
		return fmt.Errorf("supervise: %s: no attempt to run: %w", dir, err)
	}
	// Signals to the supervisor's terminal are not for us. They are caught and
	// not ignored: the command would inherit that.
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	lock, err := awaitLock(l.Lock)
	if err != nil {
		return record(dir, ended{Code: -1, Error: err.Error(), Never: true})
	}
	if lock == nil {
		return record(dir, ended{Code: -1, Refused: true, Never: true})
	}
	defer closeFile(lock)
	if _, err := os.Stat(filepath.Join(dir, exitFile)); !errors.Is(err, fs.ErrNotExist) {
		return err // a later supervisor has closed this attempt
	}
	if err := reserve(dir); err != nil {
		return err
	}
	return runChild(dir, &l, lock)
}

func awaitLock(path string) (*os.File, error) {
	for until := time.Now().Add(lockPatience); ; time.Sleep(20 * time.Millisecond) {
		f, err := tryLock(path)
		if err != nil || f != nil || time.Now().After(until) {
			return f, err
		}
	}
}

// runChild starts the command in a group of its own and waits for it. It
// inherits the lock: as long as anybody of it lives, no other attempt begins.
func runChild(dir string, l *launch, lock *os.File) error {
	var files []*os.File
	for _, name := range []string{"stdout.log", "stderr.log"} {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_EXCL|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return record(dir, ended{Code: -1, Error: err.Error(), Never: true})
		}
		defer closeFile(f) //nolint:gocritic // there are two
		files = append(files, f)
	}
	if err := writeAt(lock, attemptName(l.Attempt)); err != nil {
		return record(dir, ended{Code: -1, Error: err.Error(), Never: true})
	}
	argv, err := commandOf(dir, l)
	if err != nil {
		return record(dir, ended{Code: -1, Error: err.Error(), Never: true})
	}
	cmd := &exec.Cmd{
		Path: argv[0], Args: argv, Env: append(environ(), l.Env...), Dir: l.Cwd, Stdout: files[0], Stderr: files[1],
		ExtraFiles: []*os.File{lock}, SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	kin := adoptOrphans(dir)
	before, began := oomKills(), time.Now()
	if err := cmd.Start(); err != nil {
		return record(dir, ended{Code: startCode(err), Error: err.Error(), Began: began})
	}
	kin.reap(cmd.Process.Pid)
	id, err := identify(cmd.Process.Pid)
	if err == nil {
		id.Group = cmd.Process.Pid
		err = save(filepath.Join(dir, childFile), id)
	}
	if err != nil { // nobody could ever name it
		_ = signalGroup(cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait() // it was killed
		return record(dir, ended{Code: -1, Error: err.Error(), Never: true})
	}
	err = cmd.Wait()
	e := endOf(cmd.ProcessState)
	e.Began, e.Ran = began, time.Since(began)
	e.OOM = e.Signal == "KILL" && oomKills() > before
	if cmd.ProcessState == nil {
		e.Error = err.Error()
	}
	sweep(cmd.Process.Pid)
	kin.end()
	return record(dir, withContainer(dir, e, oomKills() > before))
}

// environ is what the command inherits: all but what opens Ebb's own doors.
func environ() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "EBB_TOKEN=") || strings.HasPrefix(v, "EBB_DB=") || strings.HasPrefix(v, "EBB_KEY")
	})
}

// sweep ends what the command left behind in its group.
func sweep(group int) {
	if !groupLives(group) {
		return
	}
	_ = signalGroup(group, syscall.SIGTERM)
	for range 100 {
		if !groupLives(group) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	_ = signalGroup(group, syscall.SIGKILL)
}

// startCode is what a shell exits with for a program that it cannot start.
func startCode(err error) int {
	if errors.Is(err, fs.ErrNotExist) {
		return 127
	}
	if errors.Is(err, syscall.ENOMEM) || errors.Is(err, syscall.EAGAIN) {
		return -1
	}
	return 126
}

func endOf(s *os.ProcessState) ended {
	if s == nil {
		return ended{Code: -1}
	}
	e := ended{Code: s.ExitCode()}
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		e.Signal = signalName(w.Signal())
	}
	if u, ok := s.SysUsage().(*syscall.Rusage); ok {
		e.MaxRSS = u.Maxrss
	}
	return e
}

var signalNames = map[syscall.Signal]string{
	syscall.SIGHUP: "HUP", syscall.SIGINT: "INT", syscall.SIGQUIT: "QUIT", syscall.SIGILL: "ILL", syscall.SIGTRAP: "TRAP",
	syscall.SIGABRT: "ABRT", syscall.SIGBUS: "BUS", syscall.SIGFPE: "FPE", syscall.SIGKILL: "KILL", syscall.SIGUSR1: "USR1",
	syscall.SIGSEGV: "SEGV", syscall.SIGUSR2: "USR2", syscall.SIGPIPE: "PIPE", syscall.SIGALRM: "ALRM", syscall.SIGTERM: "TERM",
	syscall.SIGXCPU: "XCPU", syscall.SIGXFSZ: "XFSZ", syscall.SIGSYS: "SYS",
}

func signalName(s syscall.Signal) string {
	if name, ok := signalNames[s]; ok {
		return name
	}
	return fmt.Sprintf("SIG%d", int(s))
}

func reserve(dir string) error {
	f, err := os.OpenFile(filepath.Join(dir, ".exit"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	room := make([]byte, exitRoom)
	for i := range room {
		room[i] = ' '
	}
	return errors.Join(writeAll(f, room), f.Close())
}

// record writes the exit record into the room that was kept for it.
func record(dir string, e ended) error {
	e.At = time.Now()
	if len(e.Error) > exitRoom/2 {
		e.Error = e.Error[:exitRoom/2]
	}
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	from, to := filepath.Join(dir, ".exit"), filepath.Join(dir, exitFile)
	f, err := os.OpenFile(from, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(text, 0)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return syncDir(dir)
}

func writeAt(f *os.File, text string) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(text), 0)
	return err
}
