package scripts_test

import "testing"

// CI runs the tests, then those that need a container daemon; the first that
// fails ends it.
func TestCIRunsBothTargetsInOrder(t *testing.T) {
	for _, c := range []struct {
		name, make, out, calls string
		ok                     bool
	}{
		{"all well", `echo "$@" >> "$LOG"`, "+ make test\n+ make test-containers\n", "test\ntest-containers\n", true},
		{"tests fail", `echo "$@" >> "$LOG"; exit 2`, "+ make test\n", "test\n", false},
		{"containers fail", `echo "$@" >> "$LOG"; [ "$1" = test ]`, "+ make test\n+ make test-containers\n", "test\ntest-containers\n", false},
	} {
		m := newMachine(t)
		m.standIn("make", c.make)
		out, errs, ok := m.run("../.ci/run")
		if out != c.out || ok != c.ok || m.log() != c.calls {
			t.Errorf("%s: %v, printed %q, called %q: %s", c.name, ok, out, m.log(), errs)
		}
	}
}
