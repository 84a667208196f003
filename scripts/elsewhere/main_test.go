package main

import (
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	for _, c := range []struct{ platform, pattern, want string }{
		{"linux/amd64", "./testdata/signals", ""},
		{"darwin/arm64", "./testdata/signals", ""},
		{"windows/amd64", "./testdata/signals", "signals.go:7:43: undefined: syscall.Kill"},
		{"linux/arm64", "./testdata/tagged", ""},
		{"darwin/amd64", "./testdata/tagged", "tagged.go:4:29: undefined: name"},
		{"windows", "./testdata/tagged", "want OS/ARCH"},
		{"linux/amd64", "./testdata/nowhere", "nowhere"},
	} {
		n, err := check(t.Context(), c.platform, []string{c.pattern})
		switch {
		case c.want == "" && (err != nil || n != 1):
			t.Errorf("%s %s: %d packages, %v; want 1 without an error", c.platform, c.pattern, n, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s %s: %v; want an error with %q", c.platform, c.pattern, err, c.want)
		}
	}
}
