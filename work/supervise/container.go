package supervise

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"
)

// Container runs the command in a container, through the Docker-compatible
// API of a daemon on this machine.
type Container struct {
	// Image must be there: nothing is pulled.
	Image string `json:"image" yaml:"image"`
	// Socket of the daemon. Default: DOCKER_HOST, else /var/run/docker.sock.
	Socket string `json:"socket,omitempty" yaml:"socket"`
	// Mounts are HOST:CONTAINER or HOST:CONTAINER:ro. The run's directory is
	// always mounted at its own path, and is where the command works.
	Mounts []string `json:"mounts,omitempty" yaml:"mounts"`
	// Network is that of the daemon, such as host or none. Default: the
	// daemon's.
	Network string  `json:"network,omitempty" yaml:"network"`
	Memory  Size    `json:"memory,omitempty" yaml:"memory"` // most; 0 = no limit
	CPUs    float64 `json:"cpus,omitempty" yaml:"cpus"`     // most; 0 = no limit
	User    string  `json:"user,omitempty" yaml:"user"`     // default the image's
}

func (c *Container) check() []error {
	if c == nil {
		return nil
	}
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Image == "" {
		bad("container.image: name the image; it must be there, nothing is pulled")
	}
	if c.Memory < 0 || c.CPUs < 0 {
		bad("container: memory %d, cpus %g: neither may be negative", c.Memory, c.CPUs)
	}
	for i, m := range c.Mounts {
		if parts := strings.Split(m, ":"); len(parts) < 2 || len(parts) > 3 || !filepath.IsAbs(parts[0]) || !filepath.IsAbs(parts[1]) {
			bad("container.mounts[%d]: %q: HOST:CONTAINER or HOST:CONTAINER:ro, both absolute", i, m)
		}
	}
	return errs
}

// Files of a contained attempt, beside those of every attempt. The wrapper is
// called with the path of the first two in place of a directory.
const (
	containerFile = "container.json"      // what the container shall run; its client
	guardFile     = "container.guard"     // who ends it when the client is killed
	containedFile = "container-exit.json" // how it ended
)

// containment is what the client of a container is told.
type containment struct {
	Container
	Run  string   `json:"run"`
	Key  string   `json:"key"` // of the run on this machine: a label
	Name string   `json:"name"`
	Argv []string `json:"argv"`
	Env  []string `json:"env,omitempty"`
	Dir  string   `json:"dir"`
	Cwd  string   `json:"cwd"`
}

// contained is how a container ended.
type contained struct {
	ID    string `json:"id"`
	Code  int    `json:"code"`
	OOM   bool   `json:"oom,omitempty"`
	Error string `json:"error,omitempty"` // it could not be started
}

// contain tells the client of an attempt what its container shall run; nothing
// where the command runs as a process of this machine.
func (l *life) contain(at *attempt) error {
	if l.spec.Container == nil {
		return nil
	}
	sum := sha256.Sum256([]byte(l.spec.Dir + "\x00" + l.name))
	key := l.name + "-" + hex.EncodeToString(sum[:6])
	return save(filepath.Join(at.dir, containerFile), containment{
		Container: *l.spec.Container, Run: l.name, Key: key, Name: "ebb-" + key + "-" + attemptName(at.launch.Attempt),
		Argv: at.launch.Argv, Env: at.launch.Env, Dir: l.spec.Dir, Cwd: l.spec.Cwd,
	})
}
