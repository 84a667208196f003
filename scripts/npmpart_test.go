package scripts_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// npmMachine has the script in a checkout of its own, and an npm that can
// install anything but "nonesuch".
func npmMachine(t *testing.T) (*machine, string) {
	t.Helper()
	m := newMachine(t)
	m.standIn("npm", `
echo "$@" >> "$LOG"
for p in "$@"; do
	case $p in
	nonesuch@*) exit 1 ;;
	*@[0-9]*)
		mkdir -p ".cache/npm/node_modules/${p%@*}"
		echo "{\"version\": \"${p##*@}\"}" > ".cache/npm/node_modules/${p%@*}/package.json" ;;
	esac
done`)
	text, err := os.ReadFile("npm-part")
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(m.dir, "scripts", "npm-part")
	if err := os.Mkdir(filepath.Dir(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(script, text, 0o755); err != nil {
		t.Fatal(err)
	}
	return m, script
}

func TestNpmPart(t *testing.T) {
	t.Run("installs what is missing, once", func(t *testing.T) {
		m, script := npmMachine(t)
		for range 2 {
			if _, stderr, ok := m.run(script, "axe-core@4.14.0", "@redocly/cli@2.73.0"); !ok {
				t.Fatal(stderr)
			}
		}
		if log := m.log(); strings.Count(log, "install") != 1 || !strings.HasSuffix(log, "--save-exact axe-core@4.14.0 @redocly/cli@2.73.0\n") {
			t.Errorf("npm was called:\n%s", log)
		}
	})
	t.Run("another version is installed", func(t *testing.T) {
		m, script := npmMachine(t)
		for _, part := range []string{"axe-core@4.14.0", "axe-core@4.15.0"} {
			if _, stderr, ok := m.run(script, part); !ok {
				t.Fatal(stderr)
			}
		}
		if log := m.log(); strings.Count(log, "install") != 2 {
			t.Errorf("npm was called:\n%s", log)
		}
	})
	t.Run("a failed install fails", func(t *testing.T) {
		m, script := npmMachine(t)
		if _, stderr, ok := m.run(script, "nonesuch@1.0.0"); ok || !strings.Contains(stderr, "nonesuch@1.0.0: npm install failed") {
			t.Errorf("ok %v: %s", ok, stderr)
		}
	})
	t.Run("a name without its version is refused", func(t *testing.T) {
		m, script := npmMachine(t)
		for _, part := range []string{"axe-core", "@redocly/cli", "axe-core@latest", "@1.0.0"} {
			if _, stderr, ok := m.run(script, part); ok || !strings.Contains(stderr, part+": want NAME@VERSION") {
				t.Errorf("%s: ok %v: %s", part, ok, stderr)
			}
		}
		if log := m.log(); log != "" {
			t.Errorf("npm was called:\n%s", log)
		}
	})
}
