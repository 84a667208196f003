// Package scripts_test runs the house's shell scripts with stand-ins for apt
// and go on the PATH: the real ones would change the machine.
package scripts_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// machine is a directory with a PATH of stand-ins that log how they are called.
type machine struct {
	t    *testing.T
	dir  string
	bin  string
	home string
	path string // PATH; bin comes first
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	dir := t.TempDir()
	m := &machine{t: t, dir: dir, bin: filepath.Join(dir, "bin"), home: filepath.Join(dir, "home")}
	m.path = m.bin + ":/usr/bin:/bin"
	for _, d := range []string{m.bin, m.home} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	m.standIn("id", "echo 0") // as root, so that sudo is not asked for
	return m
}

// standIn puts a command on the PATH; $LOG is where it may write.
func (m *machine) standIn(name, body string) {
	m.t.Helper()
	if err := os.WriteFile(filepath.Join(m.bin, name), []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
		m.t.Fatal(err)
	}
}

// borrow puts the real command of this machine on the PATH.
func (m *machine) borrow(name string) {
	m.t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		m.t.Fatal(err)
	}
	if err := os.Symlink(path, filepath.Join(m.bin, name)); err != nil {
		m.t.Fatal(err)
	}
}

// run returns standard output, standard error and whether the script succeeded.
func (m *machine) run(script string, args ...string) (stdout, stderr string, ok bool) {
	m.t.Helper()
	path, err := filepath.Abs(script)
	if err != nil {
		m.t.Fatal(err)
	}
	cmd := exec.CommandContext(m.t.Context(), path, args...)
	cmd.Dir = m.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // without a terminal, wherever the tests run
	cmd.Env = []string{"PATH=" + m.path, "HOME=" + m.home, "LOG=" + filepath.Join(m.dir, "log"), "INSTALLED=" + filepath.Join(m.dir, "installed")}
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err == nil
}

// log returns the stand-ins' calls, one a line.
func (m *machine) log() string {
	text, err := os.ReadFile(filepath.Join(m.dir, "log"))
	if err != nil && !os.IsNotExist(err) {
		m.t.Fatal(err)
	}
	return string(text)
}

// debian makes a Debian with git installed, whose apt-get can install
// anything but "nonesuch".
func debian(t *testing.T) *machine {
	t.Helper()
	m := newMachine(t)
	m.standIn("dpkg-query", `for p in "$@"; do :; done; [ "$p" = git ] || grep -qx "$p" "$INSTALLED" 2>/dev/null || exit 1; echo installed`)
	m.standIn("apt-get", `
while [ "$1" = -qq ] || [ "$1" = -o ]; do [ "$1" = -o ] && shift; shift; done
echo "$@" >> "$LOG"
[ "$1" = install ] || exit 0
shift 3
for p in "$@"; do
	[ "$p" = nonesuch ] && { echo "E: Unable to locate package nonesuch"; exit 100; }
	echo "$p" >> "$INSTALLED"
done`)
	return m
}

func TestNeed(t *testing.T) {
	t.Run("installed already", func(t *testing.T) {
		m := debian(t)
		stdout, stderr, ok := m.run("need", "git")
		if !ok || stdout+stderr != "" || m.log() != "" {
			t.Errorf("ok %v, said %q, called %q; want silence and no call", ok, stdout+stderr, m.log())
		}
	})
	t.Run("installs only what is missing, reads the lists once", func(t *testing.T) {
		m := debian(t)
		_, stderr, ok := m.run("need", "git", "wget", "postgresql-15")
		if !ok || !strings.Contains(stderr, "need: installing wget postgresql-15\n") {
			t.Fatalf("ok %v, said %q", ok, stderr)
		}
		if _, stderr, ok = m.run("need", "chromium"); !ok {
			t.Fatalf("second call: %s", stderr)
		}
		want := "update\ninstall -y --no-install-recommends wget postgresql-15\ninstall -y --no-install-recommends chromium\n"
		if m.log() != want {
			t.Errorf("called %q, want %q", m.log(), want)
		}
	})
	t.Run("fails loudly", func(t *testing.T) {
		m := debian(t)
		_, stderr, ok := m.run("need", "nonesuch")
		if ok || !strings.Contains(stderr, "Unable to locate package nonesuch") || !strings.Contains(stderr, "need: nonesuch: apt-get install failed") {
			t.Errorf("ok %v, said %q", ok, stderr)
		}
	})
	t.Run("old lists are read again before it gives up", func(t *testing.T) {
		m := debian(t)
		if _, stderr, ok := m.run("need", "wget"); !ok {
			t.Fatal(stderr)
		}
		if _, stderr, ok := m.run("need", "nonesuch"); ok {
			t.Errorf("installed nonesuch: %s", stderr)
		}
		if got := strings.Count(m.log(), "update\n"); got != 2 {
			t.Errorf("%d updates, want 2:\n%s", got, m.log())
		}
	})
	t.Run("neither root nor sudo", func(t *testing.T) {
		m := debian(t)
		m.standIn("id", "echo 1000")
		m.path = m.bin // a machine without sudo
		for _, tool := range []string{"bash", "env", "sh", "grep", "mkdir", "touch", "find", "dirname"} {
			m.borrow(tool)
		}
		_, stderr, ok := m.run("need", "git", "wget", "curl")
		if want := "need: wget curl: neither root nor sudo; run as root: apt-get install wget curl\n"; ok || stderr != want || m.log() != "" {
			t.Errorf("ok %v, said %q, called %q; want %q", ok, stderr, m.log(), want)
		}
	})
	t.Run("sudo", func(t *testing.T) {
		m := debian(t)
		m.standIn("id", "echo 1000")
		m.standIn("sudo", `[ "$1" = -n ] && exit 0; echo sudo >> "$LOG"; exec "$@"`)
		if _, stderr, ok := m.run("need", "wget"); !ok {
			t.Fatal(stderr)
		}
		if got, want := m.log(), "sudo\nupdate\nsudo\ninstall -y --no-install-recommends wget\n"; got != want {
			t.Errorf("called %q, want %q", got, want)
		}
	})
	t.Run("sudo that asks where nobody can answer", func(t *testing.T) {
		m := debian(t)
		m.standIn("id", "echo 1000")
		m.standIn("sudo", "exit 1")
		_, stderr, ok := m.run("need", "wget")
		if ok || !strings.Contains(stderr, "no terminal; run: sudo apt-get install wget") || m.log() != "" {
			t.Errorf("ok %v, said %q, called %q", ok, stderr, m.log())
		}
	})
	t.Run("an install that installs nothing", func(t *testing.T) {
		m := debian(t)
		m.standIn("apt-get", "exit 0")
		if _, stderr, ok := m.run("need", "wget"); ok || !strings.Contains(stderr, "need: wget: still not installed") {
			t.Errorf("ok %v, said %q", ok, stderr)
		}
	})
}

// gopher makes a go whose install writes a binary that prints its package.
func gopher(t *testing.T) *machine {
	t.Helper()
	m := newMachine(t)
	m.standIn("go", `
[ "$1" = env ] && { echo go1.26.8; exit 0; }
echo "$@" >> "$LOG"
printf '#!/bin/sh\necho gofumpt\n' > "$GOBIN/gofumpt" && chmod +x "$GOBIN/gofumpt"`)
	return m
}

func TestTool(t *testing.T) {
	t.Run("builds once, outside of the checkout", func(t *testing.T) {
		m := gopher(t)
		want := filepath.Join(m.home, ".cache/ebb/tools/gofumpt-v0.12.0-go1.26/gofumpt")
		for range 2 {
			stdout, stderr, ok := m.run("tool", "gofumpt")
			if !ok || stdout != want+"\n" {
				t.Fatalf("ok %v, path %q, want %q: %s", ok, stdout, want, stderr)
			}
		}
		if got, want := m.log(), "install mvdan.cc/gofumpt@v0.12.0\n"; got != want {
			t.Errorf("called %q, want %q", got, want)
		}
	})
	t.Run("a failed build is a failure and leaves nothing behind", func(t *testing.T) {
		m := gopher(t)
		m.standIn("go", `[ "$1" = env ] && { echo go1.26.8; exit 0; }; echo "no network"; exit 1`)
		stdout, stderr, ok := m.run("tool", "gofumpt")
		if ok || stdout != "" || !strings.Contains(stderr, "tool: gofumpt v0.12.0: go install failed") {
			t.Errorf("ok %v, path %q, said %q", ok, stdout, stderr)
		}
		left, err := os.ReadDir(filepath.Join(m.home, ".cache/ebb/tools"))
		if err != nil || len(left) > 0 {
			t.Errorf("left %v, %v", left, err)
		}
	})
	t.Run("not pinned", func(t *testing.T) {
		m := gopher(t)
		if _, stderr, ok := m.run("tool", "staticcheck"); ok || !strings.Contains(stderr, "tool: staticcheck: not pinned") {
			t.Errorf("ok %v, said %q", ok, stderr)
		}
	})
}

func TestPhases(t *testing.T) {
	m := newMachine(t)
	m.standIn("make", `echo "making $1"; echo "DONE 12 tests in 0.1s" > tests.log; [ "$1" != lint ]`)
	phases, err := filepath.Abs("phases")
	if err != nil {
		t.Fatal(err)
	}
	m.standIn("with-log", "DONE_FROM=tests.log exec "+phases+` "$@"`)

	t.Run("all pass", func(t *testing.T) {
		stdout, _, ok := m.run(filepath.Join(m.bin, "with-log"), "vet", "unit")
		want := "==> vet\nmaking vet\n==> unit\nmaking unit\n\nspent 0 s on vet\nspent 0 s on unit\nDONE 12 tests in 0.1s\n"
		if !ok || withoutDurations(stdout) != want {
			t.Errorf("ok %v, said %q, want %q", ok, stdout, want)
		}
	})
	t.Run("a failure fails at the end, after the other phases", func(t *testing.T) {
		stdout, _, ok := m.run(filepath.Join(m.bin, "with-log"), "lint", "unit")
		if ok || !strings.Contains(stdout, "making unit\n") || !strings.HasSuffix(stdout, "DONE 12 tests in 0.1s\nFAIL: lint\n") {
			t.Errorf("ok %v, said %q", ok, stdout)
		}
	})
	t.Run("the first one's failure ends it", func(t *testing.T) {
		m.standIn("first-lint", "FIRST=lint exec "+phases+` "$@"`)
		stdout, _, ok := m.run(filepath.Join(m.bin, "first-lint"), "lint", "unit")
		if want := "==> lint\nmaking lint\n\nspent 0 s on lint\nFAIL: lint\n"; ok || withoutDurations(stdout) != want {
			t.Errorf("ok %v, said %q, want %q", ok, stdout, want)
		}
	})
}

// withoutDurations sets what a loaded machine may change to 0.
func withoutDurations(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if words := strings.Fields(line); len(words) == 5 && words[0] == "spent" {
			words[1] = "0"
			lines[i] = strings.Join(words, " ")
		}
	}
	return strings.Join(lines, "\n")
}
