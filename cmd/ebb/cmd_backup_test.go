package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// asMaya logs a browser in at a server.
func asMaya(t *testing.T, login string) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	maya := &http.Client{Jar: jar}
	fetchPage(t, maya, login)
	return maya
}

// enqueueOver enqueues one job over the API.
func enqueueOver(t *testing.T, c *http.Client, base, body string) (status int, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/v1/jobs", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	got, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(got)
}

// TestBackupOfServer: a server is backed up while it serves, and not restored
// over; from the backup another server has every job that was acknowledged.
func TestBackupOfServer(t *testing.T) {
	dir := t.TempDir()
	db, out := "sqlite:"+filepath.Join(dir, "jobs.db"), filepath.Join(dir, "out.db")
	ebb := func(args ...string) (int, string) {
		var told bytes.Buffer
		code := run(t.Context(), args, strings.NewReader(""), &told, &told, noEnv)
		return code, told.String()
	}
	base, login, stop := served(t, "--db", db)
	maya := asMaya(t, login)
	var ids []string
	for i := range 20 {
		status, text := enqueueOver(t, maya, base, fmt.Sprintf(`{"kind": "k%d"}`, i))
		m := regexp.MustCompile(`"id":"([^"]+)"`).FindStringSubmatch(text)
		if status != http.StatusCreated || m == nil {
			t.Fatalf("%d %s", status, text)
		}
		ids = append(ids, m[1])
	}
	if code, told := ebb("backup", out, "--db", db); code != exitDone || !strings.Contains(told, "20 jobs") || !strings.Contains(told, "jobs.db.key, is not in it") {
		t.Fatalf("exit %d: %s", code, told)
	}
	if code, told := ebb("restore", out, "--db", db, "--force"); code != exitNo || !strings.Contains(told, "a process has it open; nothing was changed") {
		t.Errorf("restored under a server: exit %d: %s", code, told)
	}
	if code := stop(); code != exitDone {
		t.Fatalf("exit %d", code)
	}
	if code, told := ebb("restore", out, "--db", db, "--force"); code != exitDone {
		t.Fatalf("exit %d: %s", code, told)
	}
	base, login, stop = served(t, "--db", db)
	maya = asMaya(t, login)
	for _, id := range ids {
		if status, text := fetchPage(t, maya, base+"/v1/jobs/"+id); status != http.StatusOK {
			t.Errorf("%s: %d %s", id, status, text)
		}
	}
	if code := stop(); code != exitDone {
		t.Errorf("exit %d", code)
	}
}
