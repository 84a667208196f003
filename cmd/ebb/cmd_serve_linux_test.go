package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

const fullDiskVariable = "EBB_SERVE_FULL_DISK"

// TestServeOnFullDisk: a server whose disk is full is read-only, says so, and
// goes on by itself when there is room; nothing acknowledged is lost. It runs
// in a mount namespace of its own (and, for anybody but root, a user
// namespace), so that its small disk is seen by nobody else and gone with it.
func TestServeOnFullDisk(t *testing.T) {
	if os.Getenv(fullDiskVariable) != "" {
		serveOnFullDisk(t)
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestServeOnFullDisk$", "-test.v")
	cmd.Env = append(os.Environ(), fullDiskVariable+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func serveOnFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=3m"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	base, login, stop := served(t, "--db", "sqlite:"+filepath.Join(dir, "ebb.db"))
	maya := asMaya(t, login)
	body := fmt.Sprintf(`{"kind": "k", "args": %q}`, strings.Repeat("x", 8000))
	idOf := regexp.MustCompile(`"id":"([^"]+)"`)
	var acknowledged []string
	enqueue := func(body string) (int, string) {
		status, text := enqueueOver(t, maya, base, body)
		if m := idOf.FindStringSubmatch(text); status == http.StatusCreated && m != nil {
			acknowledged = append(acknowledged, m[1])
		}
		return status, text
	}
	status, text := enqueue(body)
	for status == http.StatusCreated {
		status, text = enqueue(body)
	}
	if status != http.StatusInsufficientStorage || !strings.Contains(text, `"code":"full"`) || !strings.Contains(text, "free space on that disk") {
		t.Fatalf("refused with %d %s", status, text)
	}
	if len(acknowledged) < 20 {
		t.Errorf("only %d jobs fitted", len(acknowledged))
	}
	if status, text := fetchPage(t, maya, base+"/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(text, "the disk of the database is full") {
		t.Errorf("/readyz: %d %s", status, text)
	}
	everything := func() {
		t.Helper()
		for _, id := range acknowledged {
			if status, text := fetchPage(t, maya, base+"/v1/jobs/"+id); status != http.StatusOK {
				t.Fatalf("%s was acknowledged: %d %s", id, status, text)
			}
		}
	}
	everything()
	for _, path := range []string{"/", "/jobs", "/v1/jobs", "/healthz", "/metrics"} {
		if status, text := fetchPage(t, maya, base+path); status != http.StatusOK {
			t.Errorf("%s while the disk is full: %d %.200s", path, status, text)
		}
	}
	if status, text := enqueue(body); status != http.StatusInsufficientStorage {
		t.Errorf("still full: %d %s", status, text)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	for ready := false; !ready; {
		status, _ := fetchPage(t, maya, base+"/readyz")
		ready = status == http.StatusOK
	}
	if status, text := enqueue(body); status != http.StatusCreated {
		t.Errorf("after space was freed: %d %s", status, text)
	}
	if status, text := enqueue(`{"kind": "ebb.check"}`); status != http.StatusCreated {
		t.Errorf("after space was freed: %d %s", status, text)
	}
	for done := false; !done; { // the server's own worker goes on too
		_, text := fetchPage(t, maya, base+"/v1/jobs/"+acknowledged[len(acknowledged)-1])
		done = strings.Contains(text, `"state":"succeeded"`)
	}
	everything()
	if code := stop(); code != exitDone {
		t.Errorf("exit %d", code)
	}
}
