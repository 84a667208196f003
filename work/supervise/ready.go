package supervise

import (
	"fmt"
	"time"

	"github.com/ebbhq/ebb/failure"
)

// Ready is what must hold before an attempt is started. What has been found
// wanting must be well beyond the limit before it counts as mended: free space
// that hovers around a limit does not start and stop a crawl all day.
type Ready struct {
	Disk     []DiskFree `json:"disk,omitempty" yaml:"disk"`
	Memory   Size       `json:"memory,omitempty" yaml:"memory"`     // available to programs, in bytes
	Writable []string   `json:"writable,omitempty" yaml:"writable"` // directories
	Mounts   []string   `json:"mounts,omitempty" yaml:"mounts"`     // mount points
	// Preflight must exit with 0.
	Preflight []string `json:"preflight,omitempty" yaml:"preflight"`
	// Timeout of the preflight command. Default 1m, machine time.
	Timeout Duration `json:"timeout,omitempty" yaml:"timeout"`
}

// DiskFree is the least free space of a path's file system.
type DiskFree struct {
	Path string `json:"path,omitempty" yaml:"path"` // default the run's directory
	Free Size   `json:"free" yaml:"free"`
	// Again is what must be free before a full disk counts as mended. Default
	// a tenth more than Free.
	Again Size `json:"again,omitempty" yaml:"again"`
}

// Size is bytes; files write 500MB or 2GiB.
type Size int64

var units = []struct {
	suffix string
	factor float64
}{
	{"KiB", 1 << 10},
	{"MiB", 1 << 20},
	{"GiB", 1 << 30},
	{"TiB", 1 << 40},
	{"kB", 1e3},
	{"KB", 1e3},
	{"MB", 1e6},
	{"GB", 1e9},
	{"TB", 1e12},
	{"B", 1},
}

// UnmarshalText reads a number with or without a unit.
func (s *Size) UnmarshalText(text []byte) error {
	var n float64
	var unit string
	_, err := fmt.Sscanf(string(text), "%g%s", &n, &unit)
	if unit == "" {
		_, err = fmt.Sscanf(string(text)+" ", "%g ", &n)
		unit = "B"
	}
	for _, u := range units {
		if u.suffix == unit && err == nil && n >= 0 {
			*s = Size(n * u.factor)
			return nil
		}
	}
	return fmt.Errorf("%q is no size; such as 500MB or 2GiB", text)
}

// MarshalText writes bytes.
func (s Size) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%dB", int64(s)), nil }

func (r *Ready) check() []error {
	var errs []error
	for i, d := range r.Disk {
		if d.Free <= 0 || d.Again != 0 && d.Again < d.Free {
			errs = append(errs, fmt.Errorf("ready.disk[%d]: free %d, again %d: 0 < free ≤ again", i, d.Free, d.Again))
		}
	}
	return errs
}

// Reading is one measured precondition.
type Reading struct {
	Name  string
	Have  int64
	Need  int64 // 0 = a condition that holds or not
	Again int64 // what Have must reach where it was found wanting before
	OK    bool  // of a condition
	Text  string
	Class failure.Class
}

// Hold is what an earlier look found wanting, by the reading's name.
type Hold map[string]time.Time

// Judge looks at readings and returns what holds the run back now, with the
// first of them as the failure; nil if nothing does.
func (h Hold) Judge(readings []Reading, now time.Time) (Hold, *Reading) {
	next := Hold{}
	var first *Reading
	for i := range readings {
		r := &readings[i]
		since, held := h[r.Name]
		wanting := !r.OK
		if r.Need > 0 {
			wanting = r.Have < r.Need || held && r.Have < r.Again
		}
		if !wanting {
			continue
		}
		if !held {
			since = now
		}
		next[r.Name] = since
		if first == nil {
			first = r
		}
	}
	return next, first
}
