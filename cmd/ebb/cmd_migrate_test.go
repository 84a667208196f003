package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/ebbhq/ebb/store/sqlite"
)

// A file that a newer program has moved is refused, and the advice is not to
// move it.
func TestNewerFileIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ebb.db")
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.DB().ExecContext(t.Context(), "INSERT INTO ebb_schema VALUES (99, 'later', 0)"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"job", "list"}, {"migrate", "up"}, {"migrate", "down"}} {
		code, _, said := ebb(t, "", append(args, "--db", "sqlite:"+path)...)
		if code != exitNo || !strings.Contains(said, "use a newer ebb") || !strings.Contains(said, "Try: the newer ebb") {
			t.Errorf("ebb %s: %d, %s", strings.Join(args, " "), code, said)
		}
	}
}
