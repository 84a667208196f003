package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
)

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// What cannot be printed was not done: half of the commands ended with 0 on a
// full disk, the others blamed the usage.
func TestFullStandardOutputFails(t *testing.T) {
	for _, line := range []string{
		"policy list", "policy list --json", "policy show webhook", "policy show webhook --json",
		"policy lint ../../demo/pr-247.yaml", "policy diff webhook ../../demo/pr-247.yaml --json",
		"policy plot webhook", "policy plot webhook --svg -", "policy schema", "version", "--help",
	} {
		var stderr bytes.Buffer
		code := run(t.Context(), strings.Fields(line), nil, fullDisk{}, &stderr, noEnv)
		if got, want := stderr.String(), "ebb: standard output: no space left on device\n"; code != exitNo || got != want {
			t.Errorf("%s: exit %d, %q; want %d, %q", line, code, got, exitNo, want)
		}
	}
}

// A stopped command says so, also where it reports its stop as a failure.
func TestInterruptedCommand(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stdout, stderr bytes.Buffer
	if code := run(ctx, []string{"demo"}, nil, &stdout, &stderr, noEnv); code != exitInterrupted || stderr.String() != "ebb: interrupted\n" {
		t.Errorf("exit %d, %q; want %d", code, stderr.String(), exitInterrupted)
	}
}

// NO_COLOR took the words away with the colours: its value stood instead.
func TestNoColor(t *testing.T) {
	terminal, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0) // a character device, as a terminal is
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = terminal.Close() }()
	for _, c := range []struct {
		env  string
		flag bool
		want string
	}{
		{"", false, "\x1b[31mfailed\x1b[0m"},
		{"1", false, "failed"},
		{"", true, "failed"},
	} {
		a := &app{stdout: terminal, noColor: c.flag, lookup: func(string) (string, bool) { return c.env, c.env != "" }}
		if got := a.paint(red, "failed"); got != c.want {
			t.Errorf("NO_COLOR=%q, --no-color=%t: got %q, want %q", c.env, c.flag, got, c.want)
		}
	}
}

// Wrong usage is told as such, with what would be right.
func TestWrongUsage(t *testing.T) {
	for line, want := range map[string]string{
		"help nope":                    "ebb: unknown command \"nope\"\nTry: ebb --help\n",
		"help job lisst":               "ebb: job: unknown command \"lisst\"\nTry: ebb job list\n",
		"webhook listen --listen nope": "ebb: webhook listen: listen tcp: address nope: missing port in address\nTry: another --listen; 127.0.0.1:0 takes a free port\n",
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), strings.Fields(line), nil, &stdout, &stderr, noEnv)
		if got := stderr.String(); code != exitUsage || got != want || stdout.Len() > 0 {
			t.Errorf("%s: exit %d, %q, %q; want %d, %q", line, code, stdout.String(), got, exitUsage, want)
		}
	}
}

// A driver tries an address with encryption and without: the reason stands once.
func TestUnreachableServerIsToldOnce(t *testing.T) {
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"job", "list", "--db", "postgres://127.0.0.1:1/x"}, nil, &stdout, &stderr, noEnv)
	if n := strings.Count(stderr.String(), "connection refused"); code != exitNo || n != 1 {
		t.Errorf("exit %d, the reason stands %d times:\n%s", code, n, stderr.String())
	}
}
