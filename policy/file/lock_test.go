package file_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/policy/file"
)

func allPresets() []policy.Policy {
	var list []policy.Policy
	for _, name := range policy.PresetNames() {
		list = append(list, policy.MustPreset(name))
	}
	return list
}

func writeLock(t *testing.T, policies ...policy.Policy) (path, text string) {
	t.Helper()
	path = file.LockPath(filepath.Join(t.TempDir(), "policies.yaml"))
	if err := file.WriteLock(path, policies); err != nil {
		t.Fatal(err)
	}
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, string(src)
}

func TestLockReadsBack(t *testing.T) {
	path, first := writeLock(t, allPresets()...)
	got, err := file.ReadLock(path)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range got {
		names = append(names, p.Name)
		if diff := cmp.Diff(policy.MustPreset(p.Name), p); diff != "" {
			t.Errorf("%s:\n%s", p.Name, diff)
		}
	}
	want := []string{"annual-crawl", "default", "polite", "processing", "scrape", "webhook"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
	backwards := allPresets()
	for i, j := 0, len(backwards)-1; i < j; i, j = i+1, j-1 {
		backwards[i], backwards[j] = backwards[j], backwards[i]
	}
	if _, second := writeLock(t, backwards...); second != first {
		t.Errorf("the order of the policies changes the lock:\n%s", cmp.Diff(first, second))
	}
}

func TestLockIsWrittenWhole(t *testing.T) {
	path, _ := writeLock(t, policy.MustPreset("webhook"))
	if err := file.WriteLock(path, []policy.Policy{policy.MustPreset("scrape")}); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 1 || files[0].Name() != "policies.yaml.lock" {
		t.Errorf("left behind: %v", files)
	}
}

func TestLockRefusesWhatWasEditedOrTorn(t *testing.T) {
	path, text := writeLock(t, policy.MustPreset("scrape"), policy.MustPreset("webhook"))
	version := policy.MustPreset("webhook").Version
	tests := map[string]struct{ text, want string }{
		"edited body":     {strings.Replace(text, "timeout: 30s", "timeout: 10s", 1), "scrape was edited or torn: its body is version"},
		"edited version":  {strings.Replace(text, version, "000000000000", 1), "accepted was 000000000000"},
		"removed version": {strings.Replace(text, `  webhook: "`+version+"\"\n", "", 1), "webhook has no accepted version"},
		"removed body":    {text[:strings.LastIndex(text, "  webhook:\n")], "the body of webhook is missing"},
		"torn in a body":  {text[:len(text)-200], "edited or torn"},
		"torn early":      {text[:150], "edited or torn"},
		"emptied":         {"", "the file is empty"},
		"unknown key":     {text + "more: 1\n", "unknown key"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if tt.text == text {
				t.Fatal("the lock was not changed")
			}
			if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := file.ReadLock(path)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "policy lock: ") {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestLockRefusesEveryCut(t *testing.T) {
	path, text := writeLock(t, policy.MustPreset("webhook"))
	for n := range len(text) {
		if err := os.WriteFile(path, []byte(text[:n]), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := file.ReadLock(path); err == nil {
			t.Fatalf("cut after %d of %d bytes, the lock is still read:\n%s", n, len(text), text[:n])
		}
	}
}

func TestMissingLock(t *testing.T) {
	_, err := file.ReadLock(filepath.Join(t.TempDir(), "policies.yaml.lock"))
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want fs.ErrNotExist", err)
	}
}

func TestWriteLockRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	changed := policy.MustPreset("webhook")
	changed.Attempts = 9
	broken := policy.MustPreset("webhook")
	broken.Concurrency = 0
	for want, policies := range map[string][]policy.Policy{
		"no policies to accept":  nil,
		"changed after":          {changed},
		"concurrency: 0 lets":    {broken},
		"accept one policy of a": {policy.MustPreset("webhook"), policy.MustPreset("webhook")},
	} {
		if err := file.WriteLock(path, policies); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a refused lock was written: %v", err)
	}
	if err := file.WriteLock(filepath.Join(path, "no", "directory"), allPresets()); err == nil {
		t.Error("a lock in no directory was written")
	}
	if err := file.WriteLock(t.TempDir(), allPresets()); err == nil || !strings.Contains(err.Error(), "is a directory; the lock is a file") {
		t.Errorf("a directory in the lock's place: %v", err)
	}
}

func TestLockForm(t *testing.T) {
	const golden = "testdata/webhook.lock"
	_, text := writeLock(t, policy.MustPreset("webhook"))
	if *update {
		if err := os.WriteFile(golden, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text); diff != "" {
		t.Error(diff)
	}
}
