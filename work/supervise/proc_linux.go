package supervise

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// bootID names this life of the machine.
func bootID() (string, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text)), err
}

// hostID names the machine across boots.
func hostID() string {
	for _, path := range []string{"/etc/machine-id", "/var/lib/dbus/machine-id"} {
		if text, err := os.ReadFile(path); err == nil && len(bytes.TrimSpace(text)) > 0 {
			return string(bytes.TrimSpace(text))
		}
	}
	name, _ := os.Hostname() // the next best name
	return name
}

// stat is what the kernel tells of a process.
type stat struct {
	state         byte
	parent, group int
	start         uint64
}

func procStat(pid int) (stat, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, err
	}
	// The name in parentheses may hold anything, parentheses too.
	end := bytes.LastIndexByte(text, ')')
	fields := strings.Fields(string(text[end+1:]))
	if end < 0 || len(fields) < 20 {
		return stat{}, fmt.Errorf("proc: %d: cannot be read", pid)
	}
	parent, err1 := strconv.Atoi(fields[1])
	group, err2 := strconv.Atoi(fields[2])
	start, err3 := strconv.ParseUint(fields[19], 10, 64)
	return stat{fields[0][0], parent, group, start}, errors.Join(err1, err2, err3)
}

// identify names a living process.
func identify(pid int) (Identity, error) {
	boot, err := bootID()
	if err != nil {
		return Identity{}, err
	}
	s, err := procStat(pid)
	return Identity{PID: pid, Start: s.start, Boot: boot, Group: s.group, Host: hostID()}, err
}

// Alive reports whether exactly this process lives, on this machine.
func (id Identity) Alive() bool {
	boot, err := bootID()
	if err != nil || boot != id.Boot || id.PID <= 0 {
		return false
	}
	s, err := procStat(id.PID)
	return err == nil && s.start == id.Start && s.state != 'Z' && s.state != 'X'
}

// oomKills counts the processes that the kernel has killed for memory.
func oomKills() int64 {
	text, err := os.ReadFile("/proc/vmstat")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "oom_kill "); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
			return n
		}
	}
	return 0
}

// signalGroup sends a signal to all of a process group.
func signalGroup(group int, sig syscall.Signal) error {
	if group <= 1 {
		return fmt.Errorf("signal: group %d: not one of ours", group)
	}
	err := syscall.Kill(-group, sig)
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}

// groupLives reports whether anybody of the group is left.
func groupLives(group int) bool {
	return group > 1 && !errors.Is(syscall.Kill(-group, 0), syscall.ESRCH)
}

// tryLock takes the lock of a run; nil without an error if another has it.
func tryLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return f, nil
	}
	_ = f.Close() // nothing was written
	if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
		return nil, nil
	}
	return nil, fmt.Errorf("lock: %s: %w", path, err)
}

// freeBytes is what an ordinary user may still write below a path.
func freeBytes(path string) (int64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(path, &s); err != nil {
		return 0, fmt.Errorf("statfs: %s: %w", path, err)
	}
	return int64(s.Bavail) * s.Bsize, nil
}

// freeMemory is what the kernel thinks programs can still have.
func freeMemory() (int64, error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		var kb int64
		if n, _ := fmt.Sscanf(line, "MemAvailable: %d kB", &kb); n == 1 {
			return kb << 10, nil
		}
	}
	return 0, errors.New("meminfo: no MemAvailable")
}

// mounted reports whether a path is a mount point.
func mounted(path string) bool {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 4 && fields[4] == path {
			return true
		}
	}
	return false
}
