package supervise

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// kin are the processes of a command that left its group: daemons, helpers of
// browsers. The wrapper is their parent when theirs has ended, so that none is
// left behind with the run's lock.
type kin struct {
	adopted bool
	told    chan os.Signal
	done    chan struct{}
}

// prSetChildSubreaper is PR_SET_CHILD_SUBREAPER of prctl(2).
const prSetChildSubreaper = 36

// adoptOrphans makes this process the parent of its descendants' orphans. Not
// for a container: its guard must outlive the client, and ends by itself.
func adoptOrphans(dir string) *kin {
	k := &kin{}
	if _, err := os.Stat(filepath.Join(dir, containerFile)); !errors.Is(err, fs.ErrNotExist) {
		return k
	}
	_, _, no := syscall.RawSyscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0)
	k.adopted = no == 0
	return k
}

// reap waits for orphans as they end, so that no zombies gather in a crawl of
// weeks. The command is waited for by others.
func (k *kin) reap(command int) {
	if !k.adopted {
		return
	}
	k.told, k.done = make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(k.told, syscall.SIGCHLD)
	go func() {
		for {
			select {
			case <-k.done:
				return
			case <-k.told:
			}
			for _, pid := range childrenOf(os.Getpid()) {
				if pid != command {
					_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil) // one that lives is waited for later
				}
			}
			time.Sleep(time.Second) // however fast they come and go
		}
	}()
}

// end tells what is left of the command's descendants to end, then kills it.
func (k *kin) end() {
	if !k.adopted {
		return
	}
	signal.Stop(k.told)
	close(k.done)
	for i := range 200 { // TERM for two seconds, then KILL: each may have children of its own
		left := childrenOf(os.Getpid())
		if len(left) == 0 {
			return
		}
		for _, pid := range left {
			sig := syscall.SIGTERM
			if i >= 100 {
				sig = syscall.SIGKILL
			}
			if i%50 == 0 || i >= 100 {
				_ = syscall.Kill(pid, sig) // our own child, not waited for yet: the number is still its
			}
			_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// processes calls do for every process that can be seen, until it says false.
func processes(do func(pid int) bool) {
	d, err := os.Open("/proc")
	if err != nil {
		return
	}
	defer closeFile(d)
	names, _ := d.Readdirnames(-1) // what there is of it
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && !do(pid) {
			return
		}
	}
}

// childrenOf lists the children of a process, dead ones too.
func childrenOf(parent int) []int {
	var list []int
	processes(func(pid int) bool {
		if s, err := procStat(pid); err == nil && s.parent == parent {
			list = append(list, pid)
		}
		return true
	})
	return list
}

// holders lists the living processes that have a file open: of a run's lock
// they are what keeps it.
func holders(path string) []int {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil
	}
	var list []int
	processes(func(pid int) bool {
		fds, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/fd/*")
		if err != nil || pid == os.Getpid() {
			return true
		}
		if slices.ContainsFunc(fds, func(fd string) bool {
			at, err := os.Readlink(fd)
			return err == nil && at == real
		}) {
			list = append(list, pid)
		}
		return true
	})
	return list
}

// commandLine is a process's, for people.
func commandLine(pid int) string {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(bytes.ReplaceAll(text, []byte{0}, []byte{' '})))
}

// unnamed finds the command of an attempt whose wrapper was killed before it
// could name it: the oldest that leads a group and holds the lock. False if
// there is none, or the wrapper lives and will name it itself.
func (a *attempt) unnamed() (first Identity, found bool) {
	for _, pid := range holders(a.lock) {
		line := commandLine(pid)
		if strings.HasSuffix(line, " "+a.dir) {
			return Identity{}, false
		}
		id, err := identify(pid)
		if err != nil || id.Group != pid || strings.HasSuffix(line, "/"+guardFile) {
			continue
		}
		if !found || id.Start < first.Start {
			first, found = id, true
		}
	}
	return first, found
}
