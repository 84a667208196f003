package report

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// Machine says in one line where and when a result was measured.
func Machine(now time.Time) string {
	return fmt.Sprintf("%s · %s · %d cores · %s memory · %s · %s",
		now.UTC().Format("2006-01-02 15:04 UTC"), cpuModel(), runtime.NumCPU(), memory(), distribution(), runtime.Version())
}

// LoadAverage is how many processes wanted the processors in the last minute:
// a result measured beside others means less.
func LoadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}

func cpuModel() string {
	return orUnknown(value("/proc/cpuinfo", "model name", ":"), "processor")
}

func memory() string {
	var kib int64
	if _, err := fmt.Sscanf(value("/proc/meminfo", "MemTotal", ":"), "%d kB", &kib); err != nil {
		return "unknown"
	}
	return fmt.Sprintf("%d GiB", (kib+1<<19)>>20)
}

func distribution() string {
	return orUnknown(strings.Trim(value("/etc/os-release", "PRETTY_NAME", "="), `"`), "system")
}

// value returns what stands after the first line's key in a "key: value" file.
func value(path, key, separator string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if k, v, ok := strings.Cut(line, separator); ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

func orUnknown(s, what string) string {
	if s == "" {
		return "unknown " + what
	}
	return s
}
