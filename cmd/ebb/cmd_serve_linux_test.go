package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ebbhq/ebb/disktest"
)

// TestServeOnFullDisk: a server whose disk is full is read-only, says so, and
// goes on by itself when there is room; nothing acknowledged is lost.
func TestServeOnFullDisk(t *testing.T) { disktest.Run(t, 3<<20, serveOnFullDisk) }

func serveOnFullDisk(t *testing.T, dir string) {
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
