package pg

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// ticks a second of /proc: what Linux reports to user space everywhere.
const ticks = 100

// Seconds returns the processor time that a process has used.
func Seconds(pid int) (float64, error) {
	own, _, err := times(pid)
	return own, err
}

// treeSeconds adds a process, its living children, and those it waited for.
func treeSeconds(pid int) (float64, error) {
	own, reaped, err := times(pid)
	if err != nil {
		return 0, err
	}
	sum := own + reaped
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return 0, fmt.Errorf("pg: %w", err)
	}
	for _, field := range strings.Fields(string(children)) {
		child, err := strconv.Atoi(field)
		if err != nil {
			return 0, fmt.Errorf("pg: children of %d: %w", pid, err)
		}
		if s, err := Seconds(child); err == nil { // a child that just ended is counted with the reaped next time
			sum += s
		}
	}
	return sum, nil
}

// times reads utime + stime and cutime + cstime of /proc/PID/stat.
func times(pid int) (own, reaped float64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, fmt.Errorf("pg: %w", err)
	}
	return parseStat(string(text))
}

func parseStat(text string) (own, reaped float64, err error) {
	_, rest, ok := cutLast(text, ")") // the command may hold anything, spaces too
	fields := strings.Fields(rest)
	if !ok || len(fields) < 15 {
		return 0, 0, fmt.Errorf("pg: stat %q: too short", text)
	}
	var n [4]float64
	for i := range n {
		if n[i], err = strconv.ParseFloat(fields[11+i], 64); err != nil {
			return 0, 0, fmt.Errorf("pg: stat %q: %w", text, err)
		}
	}
	return (n[0] + n[1]) / ticks, (n[2] + n[3]) / ticks, nil
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
