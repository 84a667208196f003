package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Identity names a process beyond doubt: a pid alone is given to another
// process sooner or later.
type Identity struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // the kernel's start time, in its own ticks since boot
	Boot  string `json:"boot"`  // boot id of the machine
	Group int    `json:"group"`
	Host  string `json:"host"` // the machine's own id
}

// launch is what the wrapper shall run.
type launch struct {
	Attempt int       `json:"attempt"`
	Argv    []string  `json:"argv"`
	Env     []string  `json:"env,omitempty"` // beside the supervisor's own
	Cwd     string    `json:"cwd"`
	Lock    string    `json:"lock"`
	Vars    Vars      `json:"vars"`
	Resume  string    `json:"resume,omitempty"` // sum of the file it goes on from
	High    int64     `json:"high,omitempty"`   // how far the run had come
	At      time.Time `json:"at"`               // policy time
}

// ended is the exit record.
type ended struct {
	Code    int       `json:"code"`
	Signal  string    `json:"signal,omitempty"`
	OOM     bool      `json:"oom,omitempty"`
	Error   string    `json:"error,omitempty"` // it could not be started
	Lost    bool      `json:"lost,omitempty"`  // written by a later supervisor: nobody saw it end
	Never   bool      `json:"never,omitempty"` // it was never started
	Refused bool      `json:"refused,omitempty"`
	Reboot  bool      `json:"reboot,omitempty"`
	MaxRSS  int64     `json:"max_rss,omitempty"` // kilobytes
	Began   time.Time `json:"began,omitzero"`    // machine time
	At      time.Time `json:"at"`
	// Ran is by the clock that nobody sets.
	Ran time.Duration `json:"ran,omitempty"`
}

const (
	launchFile = "launch.json"
	childFile  = "child.json"
	stopFile   = "stop.json"
	exitFile   = "exit.json"
	lockFile   = "run.lock"
)

func attemptDir(dir string, n int) string { return filepath.Join(dir, "attempts", attemptName(n)) }

// save writes JSON so that a reader sees all of it or nothing, also after a
// power cut.
func save(path string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return saveText(path, append(text, '\n'), 0o600)
}

func saveText(path string, text []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	err = errors.Join(f.Chmod(mode), writeAll(f, text), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncDir(filepath.Dir(path))
}

func writeAll(f *os.File, text []byte) error {
	if _, err := f.Write(text); err != nil {
		return err
	}
	return f.Sync()
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// read reads JSON; false if there is no such file. A file is written whole, so
// that a broken one is an error.
func read(path string, v any) (bool, error) {
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return false, fmt.Errorf("%s: %w", path, err)
	}
	return true, nil
}

// closeFile closes a file whose content is safe, or not ours.
func closeFile(f *os.File) { _ = f.Close() }
