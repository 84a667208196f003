package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// transcripts are pages whose every `$ command` is executed, in one empty
// directory a page, and whose printed answers must be what came.
var transcripts = []string{"getting-started.md", "incidents.md"}

// TestTranscripts runs them. In an answer `…` stands for whatever differs from
// run to run, and a line of it alone for any number of lines. A command that
// ends in & goes on until the page ends. Blocks marked `file: NAME` are
// written first. After a meant change: go test ./cmd/ebb -run Transcripts
// -update, then put the … back where answers differ.
func TestTranscripts(t *testing.T) {
	for _, name := range transcripts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(root, "docs", name)
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(text))
			if got == string(text) {
				return
			}
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			t.Errorf("docs/%s shows other answers than the commands give; it would be:\n%s", name, got)
		})
	}
}

var fileBlock = regexp.MustCompile("(?m)^`([a-z0-9./-]+)`:\n\n```[a-z]*\n((?s:.*?))```")

// play executes a page and returns it with the answers that came, where they
// differ from those it shows.
func play(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	for _, m := range fileBlock.FindAllStringSubmatch(text, -1) {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, m[1])), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, m[1]), []byte(m[2]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out []string
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		out = append(out, lines[i])
		command, ok := strings.CutPrefix(lines[i], "    $ ")
		if !ok {
			continue
		}
		var shown []string
		for i+1 < len(lines) && strings.HasPrefix(lines[i+1], "    ") && !strings.HasPrefix(lines[i+1], "    $ ") {
			i++
			shown = append(shown, strings.TrimPrefix(lines[i], "    "))
		}
		answer := execute(t, dir, command)
		if !matches(shown, answer) {
			shown = answer
		}
		for _, line := range shown {
			out = append(out, "    "+line)
		}
	}
	return strings.Join(out, "\n")
}

// execute runs one command as a shell would and returns its lines, of both
// outputs in their order.
func execute(t *testing.T, dir, command string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	background := strings.HasSuffix(command, "&")
	if background {
		ctx = t.Context()
		command = "exec " + strings.TrimSpace(strings.TrimSuffix(command, "&"))
	}
	c := exec.CommandContext(ctx, "bash", "-c", command)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Dir = dir
	c.Env = append(os.Environ(), "HOME="+dir, "EBB_DB=sqlite:"+filepath.Join(dir, "ebb.db"), "NO_COLOR=1", "COLUMNS=100")
	if background {
		first := &firstLine{came: make(chan struct{})}
		c.Stdout = first
		c.Stderr = os.Stderr
		if err := c.Start(); err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		t.Cleanup(func() {
			_ = syscall.Kill(-c.Process.Pid, syscall.SIGTERM)
			_ = c.Wait()
		})
		<-first.came
		return first.lines()
	}
	var b bytes.Buffer
	c.Stdout, c.Stderr = &b, &b
	_ = c.Run() // exit codes are part of the page where they matter: echo $?
	answer := strings.TrimRight(b.String(), "\n")
	if answer == "" {
		return nil
	}
	answer = strings.ReplaceAll(answer, dir, "~")
	return strings.Split(answer, "\n")
}

// firstLine waits for the line by which a server says that it is there.
type firstLine struct {
	b    bytes.Buffer
	came chan struct{}
}

func (f *firstLine) Write(p []byte) (int, error) {
	if !bytes.ContainsRune(f.b.Bytes(), '\n') {
		f.b.Write(p)
		if bytes.ContainsRune(p, '\n') {
			close(f.came)
		}
	}
	return len(p), nil
}

func (f *firstLine) lines() []string {
	return strings.Split(strings.TrimRight(f.b.String(), "\n"), "\n")
}

// matches compares an answer with what is shown, where … stands for anything.
func matches(shown, answer []string) bool {
	if len(shown) == 0 {
		return len(answer) == 0
	}
	if shown[0] == "…" {
		for n := range len(answer) + 1 {
			if matches(shown[1:], answer[n:]) {
				return true
			}
		}
		return false
	}
	return len(answer) > 0 && like(shown[0], answer[0]) && matches(shown[1:], answer[1:])
}

func like(shown, line string) bool {
	parts := strings.Split(shown, "…")
	for i, p := range parts {
		parts[i] = regexp.QuoteMeta(p)
	}
	return regexp.MustCompile("^" + strings.Join(parts, ".*") + "$").MatchString(strings.TrimRight(line, " "))
}

func TestTranscriptMatching(t *testing.T) {
	for _, c := range []struct {
		shown, answer string
		want          bool
	}{
		{"a\nb", "a\nb", true},
		{"a", "a\nb", false},
		{"a\n…\nc", "a\nb\nb\nc", true},
		{"a\n…", "a", true},
		{"job … is queued", "job 0001 is queued", true},
		{"job … is queued", "job 0001 is running", false},
		{"…", "", true},
	} {
		split := func(s string) []string {
			return slices.DeleteFunc(strings.Split(s, "\n"), func(l string) bool { return l == "" })
		}
		if got := matches(split(c.shown), split(c.answer)); got != c.want {
			t.Errorf("%q against %q: %t", c.shown, c.answer, got)
		}
	}
}
