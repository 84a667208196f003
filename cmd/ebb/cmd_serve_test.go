package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// served runs `ebb serve` on a free port, and returns its address, the login
// and how to stop it, which returns the exit code.
func served(t *testing.T, args ...string) (base, login string, stop func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	in, out := io.Pipe()
	code := make(chan int, 1)
	var stderr bytes.Buffer
	args = append([]string{"serve", "--listen", "127.0.0.1:0", "--db", "sqlite:" + filepath.Join(t.TempDir(), "ebb.db")}, args...)
	go func() {
		code <- run(ctx, args, strings.NewReader(""), out, &stderr, func(string) (string, bool) { return "", false })
		_ = out.Close()
	}()
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil {
		cancel()
		t.Fatalf("no address: %v, exit %d: %s", err, <-code, stderr.String())
	}
	m := regexp.MustCompile(`^ebb serves (https?://127\.0\.0\.1:\d+); log in once, within 15m: (\S+)\n$`).FindStringSubmatch(line)
	if m == nil {
		cancel()
		t.Fatalf("announced %q", line)
	}
	stop = func() int { cancel(); return <-code }
	t.Cleanup(func() { cancel() })
	return m[1], m[2], stop
}

func fetchPage(t *testing.T, c *http.Client, at string) (status int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

func TestServe(t *testing.T) {
	base, login, stop := served(t)
	stranger := &http.Client{}
	for path, want := range map[string]struct {
		status int
		text   string
	}{
		"/healthz":      {200, `"ok"`},
		"/readyz":       {200, `"ok"`},
		"/metrics":      {200, "ebb_build_info"},
		"/openapi.json": {200, `"openapi"`},
		"/v1/jobs":      {401, ""},
		"/simulate":     {401, "Log in"},
	} {
		if status, body := fetchPage(t, stranger, base+path); status != want.status || !strings.Contains(body, want.text) {
			t.Errorf("%s: %d %.300s", path, status, body)
		}
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	maya := &http.Client{Jar: jar}
	if at, err := url.Parse(login); err != nil || "http://"+at.Host != base {
		t.Fatalf("login %s at %s", login, base)
	}
	fetchPage(t, maya, login)
	if status, body := fetchPage(t, maya, base+"/simulate"); status != 200 || !strings.Contains(body, "in an outage?") {
		t.Errorf("after the login: %d %.300s", status, body)
	}
	if status, _ := fetchPage(t, maya, base+"/v1/jobs"); status != 200 {
		t.Errorf("the session may not read the API: %d", status)
	}
	if status, _ := fetchPage(t, stranger, login); status != 401 {
		t.Errorf("the login opened twice: %d", status)
	}
	if code := stop(); code != exitDone {
		t.Errorf("exit %d", code)
	}
}

// Who waits for work when the server is told to stop is told to ask
// again; the server does not wait for the wait's end.
func TestServeEndsLongPolls(t *testing.T) {
	base, login, stop := served(t)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	maya := &http.Client{Jar: jar}
	fetchPage(t, maya, login)
	answered := make(chan string, 1)
	go func() {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/v1/leases", strings.NewReader(`{"kinds": ["rare"], "wait_s": 60}`))
		if err != nil {
			answered <- err.Error()
			return
		}
		r.Header.Set("Content-Type", "application/json")
		answer, err := maya.Do(r)
		if err != nil {
			answered <- err.Error()
			return
		}
		defer func() { _ = answer.Body.Close() }()
		text, err := io.ReadAll(answer.Body)
		answered <- fmt.Sprint(answer.StatusCode, " ", string(text), err)
	}()
	for waits := false; !waits; { // a claim that waits is a worker of its kinds
		_, body := fetchPage(t, maya, base+"/v1/kinds")
		waits = strings.Contains(body, `"rare"`)
	}
	if code := stop(); code != exitDone {
		t.Errorf("exit %d", code)
	}
	if got := <-answered; !strings.HasPrefix(got, "503 ") || !strings.Contains(got, "the same again in a moment") {
		t.Errorf("the claim was answered %s", got)
	}
}

func TestServeTakenAddress(t *testing.T) {
	base, _, _ := served(t)
	var stderr bytes.Buffer
	code := run(t.Context(), []string{"serve", "--listen", strings.TrimPrefix(base, "http://"), "--db", "sqlite:" + filepath.Join(t.TempDir(), "b.db")},
		strings.NewReader(""), io.Discard, &stderr, func(string) (string, bool) { return "", false })
	if code != exitNo || !strings.Contains(stderr.String(), "address already in use") {
		t.Errorf("exit %d: %s", code, stderr.String())
	}
}

func TestServeTLS(t *testing.T) {
	dir := t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	plan := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	cert, err := x509.CreateCertificate(rand.Reader, plan, plan, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: cert}, "key.pem": {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	base, login, stop := served(t, "--tls-cert", filepath.Join(dir, "cert.pem"), "--tls-key", filepath.Join(dir, "key.pem"))
	known := x509.NewCertPool()
	parsed, err := x509.ParseCertificate(cert)
	if err != nil {
		t.Fatal(err)
	}
	known.AddCert(parsed)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: known, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	maya := &http.Client{Jar: jar, Transport: transport}
	if status, _ := fetchPage(t, maya, login); status != 200 || !strings.HasPrefix(base, "https://") {
		t.Errorf("login over TLS at %s: %d", base, status)
	}
	if code := stop(); code != exitDone {
		t.Errorf("exit %d", code)
	}
}

// The key of a database is made beside it, for its owner alone; a server that
// finds another one in its place does not start.
func TestServeKeyFile(t *testing.T) {
	at := filepath.Join(t.TempDir(), "jobs.db")
	_, _, stop := served(t, "--db", "sqlite:"+at)
	if code := stop(); code != exitDone {
		t.Fatalf("exit %d", code)
	}
	stat, err := os.Stat(at + ".key")
	if err != nil || stat.Mode().Perm() != 0o600 {
		t.Fatalf("the key: %v, %v", stat, err)
	}
	serve := func() (int, string) {
		var stderr bytes.Buffer
		code := run(t.Context(), []string{"serve", "--listen", "127.0.0.1:0", "--db", "sqlite:" + at},
			strings.NewReader(""), io.Discard, &stderr, func(string) (string, bool) { return "", false })
		return code, stderr.String()
	}
	if err := os.WriteFile(at+".key", []byte(strings.Repeat("ab", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, told := serve(); code != exitNo || !strings.Contains(told, "sealed with another key") {
		t.Errorf("another key: exit %d: %s", code, told)
	}
	if err := os.Remove(at + ".key"); err != nil {
		t.Fatal(err)
	}
	if code, told := serve(); code != exitNo || !strings.Contains(told, "bring it back from where its backup is") {
		t.Errorf("no key: exit %d: %s", code, told)
	}
}

// Who asks for /metrics by loopback without a token is on this machine: neither
// a page whose name was made to point here nor a proxy's caller.
func TestMetricsAreLocal(t *testing.T) {
	base, _, stop := served(t)
	for _, c := range []struct {
		host, header string
		want         int
	}{
		{"", "", 200},
		{"localhost:7070", "", 200},
		{"[::1]:7070", "", 200},
		{"evil.example", "", 401},
		{"evil.example:7070", "", 401},
		{"", "X-Forwarded-For", 401},
		{"", "Forwarded", 401},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/metrics", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = c.host
		if c.header != "" {
			r.Header.Set(c.header, "203.0.113.9")
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != c.want {
			t.Errorf("host %q, %s: %d, want %d", c.host, c.header, answer.StatusCode, c.want)
		}
	}
	if code := stop(); code != exitDone {
		t.Errorf("exit %d", code)
	}
}
