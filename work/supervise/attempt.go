package supervise

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"time"
)

// lockPatience is how long the wrapper waits for a lock that somebody holds
// only to look.
const lockPatience = 3 * time.Second

// attempt is one life of the process, as its directory tells.
type attempt struct {
	dir    string
	lock   string
	launch launch
	ended  chan struct{} // closed when a wrapper that we started ourselves has ended; nil for another's
}

// openAttempt reads one that was launched; false if its directory is not
// there or empty: it never was.
func openAttempt(runDir string, n int) (*attempt, bool, error) {
	a := &attempt{dir: attemptDir(runDir, n), lock: filepath.Join(runDir, lockFile)}
	ok, err := read(filepath.Join(a.dir, launchFile), &a.launch)
	return a, ok, err
}

// lastAttempt is the highest number that has a directory.
func lastAttempt(runDir string) (int, error) {
	entries, err := os.ReadDir(filepath.Join(runDir, "attempts"))
	if os.IsNotExist(err) {
		return 0, nil
	}
	last := 0
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil {
			last = max(last, n)
		}
	}
	return last, err
}

// prepare makes an attempt's directory, which must not exist, with all that
// the wrapper needs.
func prepare(runDir string, l launch) (*attempt, error) {
	a := &attempt{dir: attemptDir(runDir, l.Attempt), lock: filepath.Join(runDir, lockFile)}
	l.Lock = a.lock
	a.launch = l
	if err := os.MkdirAll(filepath.Dir(a.dir), 0o755); err != nil {
		return nil, err
	}
	if err := os.Mkdir(a.dir, 0o755); err != nil {
		return nil, err
	}
	return a, save(filepath.Join(a.dir, launchFile), l)
}

// start runs the wrapper in a session of its own. Its end is not waited for:
// what it records tells.
func (a *attempt) start(self []string) error {
	log, err := os.OpenFile(filepath.Join(a.dir, "wrapper.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer closeFile(log)
	cmd := exec.Command(self[0], append(append([]string(nil), self[1:]...), a.dir)...) //nolint:noctx // it outlives every context
	cmd.Dir, cmd.Stdout, cmd.Stderr = a.dir, log, log
	cmd.Env = append(os.Environ(), "GOTRACEBACK=single")
	cmd.SysProcAttr = detached()
	if err := cmd.Start(); err != nil {
		return err
	}
	a.ended = make(chan struct{})
	go func() {
		_ = cmd.Wait() // so that it leaves no zombie; its record tells how it was
		close(a.ended)
	}()
	return nil
}

// unattended reports that the wrapper has ended, or, where it is another's,
// that it had its time to name its process.
func (a *attempt) unattended(since time.Time, patience time.Duration) bool {
	if a.ended == nil {
		return time.Since(since) >= patience
	}
	select {
	case <-a.ended:
		return true
	default:
		return false
	}
}

// child is the process; false until the wrapper has named it.
func (a *attempt) child() (Identity, bool, error) {
	var id Identity
	ok, err := read(filepath.Join(a.dir, childFile), &id)
	return id, ok, err
}

// exit is how it ended; false while it runs or before it began.
func (a *attempt) exit() (ended, bool, error) {
	var e ended
	ok, err := read(filepath.Join(a.dir, exitFile), &e)
	return e, ok, err
}

// stopped is why it was told to stop; nil if it was not.
func (a *attempt) stopped() (*StopReason, error) {
	var r StopReason
	ok, err := read(filepath.Join(a.dir, stopFile), &r)
	if !ok {
		return nil, err
	}
	return &r, nil
}

// busy reports whether anybody of any attempt of the run lives.
func (a *attempt) busy() (bool, error) {
	f, err := tryLock(a.lock)
	if err != nil || f == nil {
		return f == nil, err
	}
	return false, f.Close()
}

// settle closes an attempt that nobody runs any more and nobody saw end. It
// does so under the lock: a wrapper that comes late finds it closed. False if
// somebody has the lock.
func (a *attempt) settle() (bool, error) {
	f, err := tryLock(a.lock)
	if err != nil || f == nil {
		return false, err
	}
	defer closeFile(f)
	if _, ok, err := a.exit(); ok || err != nil {
		return true, err
	}
	id, named, err := a.child()
	if err != nil {
		return false, err
	}
	e := ended{Code: -1, Lost: named, Never: !named, At: time.Now()}
	if boot, err := bootID(); err == nil && named && boot != id.Boot {
		e.Reboot = true
	}
	return true, save(filepath.Join(a.dir, exitFile), e)
}

// holder is the attempt that holds the run's lock, by what its wrapper wrote.
func holder(runDir string) (int, error) {
	text, err := os.ReadFile(filepath.Join(runDir, lockFile))
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(string(text))
	if err != nil {
		return 0, fmt.Errorf("supervise: %s: locked by somebody who is no attempt", filepath.Join(runDir, lockFile))
	}
	return n, nil
}

// logs are the files that the attempt prints into.
func (a *attempt) logs() []tail {
	return []tail{{name: "stdout", path: filepath.Join(a.dir, "stdout.log")}, {name: "stderr", path: filepath.Join(a.dir, "stderr.log")}}
}

// newest returns the last changed file of a glob.
func newest(dir, glob string) string {
	list := matches(dir, glob)
	sort.Slice(list, func(i, k int) bool { return changed(list[i]).Before(changed(list[k])) })
	if len(list) == 0 {
		return ""
	}
	return list[len(list)-1]
}

func changed(path string) time.Time {
	info, err := os.Stat(path)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}
