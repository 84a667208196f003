package worker

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// ownIdentity is the identity of this process. It has no place where one of
// its parts cannot be read.
var ownIdentity = sync.OnceValue(func() identity {
	pid := os.Getpid()
	place, err := ownPlace(pid)
	if err != nil {
		return identity{}
	}
	stat, err := readStat(pid)
	if err != nil {
		return identity{}
	}
	return identity{place, pid, stat.start}
})

// ownPlace names where this process runs. Boot ids alone are not enough:
// copies of a running virtual machine share theirs, and small boards that lack
// randomness draw the same one again. The parts are hashed because a machine
// id must not be shown to others.
func ownPlace(pid int) (string, error) {
	if err := ownProc(pid); err != nil {
		return "", err
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	pids, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return "", err
	}
	// The kernel tells start times as the reader's time namespace has them.
	times, err := os.Readlink("/proc/self/ns/time")
	if err != nil && !errors.Is(err, os.ErrNotExist) { // kernels before 5.6 have none
		return "", err
	}
	host, err := os.Hostname()
	if err != nil {
		return "", err
	}
	machine, _ := os.ReadFile("/etc/machine-id") // many containers have none
	h := sha256.New()
	fmt.Fprintf(h, "ebb process\n%q %q %q %q %q", boot, machine, host, pids, times)
	const enough = 16
	return hex.EncodeToString(h.Sum(nil)[:enough]), nil
}

// ownProc refuses a /proc that is of another pid namespace than this process:
// its pids are others'.
func ownProc(pid int) error {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		if pids, ok := strings.CutPrefix(line, "NSpid:"); ok {
			if strings.TrimSpace(pids) == strconv.Itoa(pid) {
				return nil
			}
			return fmt.Errorf("/proc is of another pid namespace: process %d is %s there", pid, strings.TrimSpace(pids))
		}
	}
	return errors.New("/proc does not tell of pid namespaces")
}

// sight asks the kernel who has the pid.
func sight(pid int) sighting {
	// Not by /proc: with hidepid it does not show the processes of others.
	if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) {
		return sighting{presence: absent}
	}
	stat, err := readStat(pid)
	if err != nil {
		return sighting{}
	}
	return sighting{presence: present, start: stat.start, ended: stat.ended()}
}

// stat is what /proc/PID/stat tells.
type stat struct {
	state   byte
	threads int
	start   uint64
}

// ended reports whether nothing of the process runs any more. The first thread
// of a killed process may be a zombie while another still writes.
func (s stat) ended() bool { return (s.state == 'Z' || s.state == 'X') && s.threads <= 1 }

func readStat(pid int) (stat, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, err
	}
	return parseStat(text)
}

func parseStat(text []byte) (stat, error) {
	// The program's name stands in parentheses and may hold anything.
	end := bytes.LastIndexByte(text, ')')
	fields := strings.Fields(string(text[end+1:]))
	const state, threads, start = 0, 17, 19 // proc(5) has them as 3, 20 and 22
	if end < 0 || len(fields) <= start {
		return stat{}, fmt.Errorf("/proc/PID/stat: %q: too short", text)
	}
	n, err := strconv.Atoi(fields[threads])
	if err != nil {
		return stat{}, fmt.Errorf("/proc/PID/stat: threads: %w", err)
	}
	ticks, err := strconv.ParseUint(fields[start], 10, 64)
	if err != nil {
		return stat{}, fmt.Errorf("/proc/PID/stat: start: %w", err)
	}
	return stat{fields[state][0], n, ticks}, nil
}
