package access_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/store/memory"
)

// TestUseKey: a database has one key, and says so before a secret is sealed
// with another.
func TestUseKey(t *testing.T) {
	dir := t.TempDir()
	mine, other := filepath.Join(dir, "mine"), filepath.Join(dir, "other")
	c := clock.NewFake(t0)
	s := memory.New(memory.Config{Clock: c})
	defer s.Close()
	plain := func() *access.Keeper {
		k, err := access.New(s, c, nil)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	first := plain()
	if _, err := first.Seal([]byte("x"), "l"); err == nil || !strings.Contains(err.Error(), "--key-file") {
		t.Fatalf("sealed without a key: %v", err)
	}
	if err := first.UseKey(t.Context(), mine); err != nil {
		t.Fatal(err)
	}
	sealed, err := first.Seal([]byte("whsec"), "endpoint ep_1")
	if err != nil {
		t.Fatal(err)
	}
	second := plain()
	if err := second.UseKey(t.Context(), mine); err != nil {
		t.Fatal(err)
	}
	if open, err := second.Open(sealed, "endpoint ep_1"); err != nil || string(open) != "whsec" {
		t.Fatalf("got %q, %v", open, err)
	}
	refused := func(path, words string) {
		t.Helper()
		if err := plain().UseKey(t.Context(), path); err == nil || !strings.Contains(err.Error(), words) {
			t.Fatalf("%s: got %v, want %s", path, err, words)
		}
	}
	refused(other, "bring it back")
	if _, err := os.Stat(other); err == nil {
		t.Fatal("a second key was made")
	}
	if _, err := access.KeyFile(other); err != nil {
		t.Fatal(err)
	}
	refused(other, "sealed with another key")
}

// TestKeyFileRace: of many that make the file at once all get one key, and no
// other file stays behind.
func TestKeyFileRace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "key")
	keys := make([][]byte, 16)
	errs := make([]error, len(keys))
	var group sync.WaitGroup
	for i := range keys {
		group.Go(func() { keys[i], errs[i] = access.KeyFile(path) })
	}
	group.Wait()
	for i := range keys {
		if errs[i] != nil || !bytes.Equal(keys[i], keys[0]) {
			t.Fatalf("key %d: %x, %v; the first is %x", i, keys[i], errs[i], keys[0])
		}
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Fatalf("files: %v, %v", files, err)
	}
}
