package main

import (
	"bytes"
	"context"
	"errors"
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
