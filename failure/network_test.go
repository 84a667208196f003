package failure

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Every error here comes from a real socket or file.

// short is long enough for loopback and ends a call that nobody answers.
const short = 50 * time.Millisecond

func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go serve(conn)
		}
	}()
	return l.Addr().String()
}

// readRequest consumes the request, so that a close is a clean one.
func readRequest(conn net.Conn) { conn.Read(make([]byte, 4096)) }

func get(t *testing.T, client *http.Client, url string) error {
	t.Helper()
	resp, err := client.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.ReadAll(resp.Body)
	return err
}

func fresh(change func(*http.Transport)) *http.Client {
	tr := &http.Transport{DisableKeepAlives: true}
	if change != nil {
		change(tr)
	}
	return &http.Client{Transport: tr}
}

func wantClass(t *testing.T, err error, class Class, reason string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %s", class)
	}
	f := Classify(err)
	if f.Class != class || f.Reason != reason {
		t.Errorf("%v: got %s %q, want %s %q", err, f.Class, f.Reason, class, reason)
	}
	if !errors.Is(f.Err, err) {
		t.Errorf("the failure lost its error")
	}
}

func TestRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	wantClass(t, get(t, fresh(nil), "http://"+addr), Refused, "")
}

func TestReset(t *testing.T) {
	addr := listen(t, func(c net.Conn) {
		readRequest(c)
		c.(*net.TCPConn).SetLinger(0)
		c.Close()
	})
	wantClass(t, get(t, fresh(nil), "http://"+addr), Reset, "")
}

func TestClosedBeforeAnswerIsReset(t *testing.T) {
	addr := listen(t, func(c net.Conn) { readRequest(c); c.Close() })
	wantClass(t, get(t, fresh(nil), "http://"+addr), Reset, "")
}

func TestMalformedAnswer(t *testing.T) {
	addr := listen(t, func(c net.Conn) { readRequest(c); io.WriteString(c, "SSH-2.0-x\r\n\r\n"); c.Close() })
	wantClass(t, get(t, fresh(nil), "http://"+addr), Reset, "malformed_response")
}

func TestShortBody(t *testing.T) {
	addr := listen(t, func(c net.Conn) {
		readRequest(c)
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort")
		c.Close()
	})
	wantClass(t, get(t, fresh(nil), "http://"+addr), ShortBody, "")
}

func TestHeaderTimeout(t *testing.T) {
	addr := listen(t, readRequest)
	wantClass(t, get(t, fresh(func(tr *http.Transport) { tr.ResponseHeaderTimeout = short }), "http://"+addr), HeaderTimeout, "")
	client := fresh(nil)
	client.Timeout = short
	wantClass(t, get(t, client, "http://"+addr), HeaderTimeout, "")
}

func TestBodyTimeout(t *testing.T) {
	addr := listen(t, func(c net.Conn) {
		readRequest(c)
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbegun")
	})
	client := fresh(nil)
	client.Timeout = 4 * short
	wantClass(t, get(t, client, "http://"+addr), BodyTimeout, "")
}

func TestHandshakeTimeout(t *testing.T) {
	addr := listen(t, readRequest)
	wantClass(t, get(t, fresh(func(tr *http.Transport) { tr.TLSHandshakeTimeout = short }), "https://"+addr), ConnectTimeout, "")
}

func TestDialTimeout(t *testing.T) {
	d := net.Dialer{Deadline: time.Now().Add(-time.Second)}
	_, err := d.Dial("tcp", "127.0.0.1:1")
	wantClass(t, err, ConnectTimeout, "")
}

func TestTLSFailures(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	wantClass(t, get(t, fresh(nil), "https://"+plain.Listener.Addr().String()), TLS, "not_tls")

	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = nil
	secure.StartTLS()
	defer secure.Close()
	wantClass(t, get(t, fresh(nil), secure.URL), TLS, "unknown_authority")

	pool := x509.NewCertPool()
	pool.AddCert(secure.Certificate())
	wrongName := func(tr *http.Transport) {
		tr.TLSClientConfig = &tls.Config{RootCAs: pool, ServerName: "elsewhere.test"}
	}
	wantClass(t, get(t, fresh(wrongName), secure.URL), TLS, "wrong_host")

	late := func(tr *http.Transport) {
		tr.TLSClientConfig = &tls.Config{RootCAs: pool, Time: func() time.Time { return time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC) }}
	}
	wantClass(t, get(t, fresh(late), secure.URL), TLS, "certificate_expired")
}

func TestDNSBlame(t *testing.T) {
	f := Classify(&net.DNSError{Err: "no such host", Name: "x.test", IsNotFound: true})
	if f.Class != DNS || f.Blame != BlameTarget || f.Reason != "name_not_found" {
		t.Errorf("a missing name: %+v", f)
	}
	f = Classify(&net.DNSError{Err: "i/o timeout", Name: "x.test", IsTimeout: true})
	if f.Class != DNS || f.Blame != BlameUs || f.Reason != "resolver_timeout" {
		t.Errorf("a silent resolver: %+v", f)
	}
	f = Classify(&net.DNSError{Err: "server misbehaving", Name: "x.test", IsTemporary: true})
	if f.Class != DNS || f.Blame != BlameUs {
		t.Errorf("a broken resolver: %+v", f)
	}
}

func TestPhaseTellsTimeoutsApart(t *testing.T) {
	for phase, want := range map[Phase]Class{0: Timeout, PhaseConnect: ConnectTimeout, PhaseHeader: HeaderTimeout, PhaseBody: BodyTimeout} {
		wantClass(t, During(phase, context.DeadlineExceeded), want, "")
	}
	wantClass(t, During(PhaseBody, io.EOF), ShortBody, "")
	if During(PhaseBody, nil) != nil {
		t.Error("During made an error of nil")
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:1", http.NoBody)
	_, err := fresh(nil).Do(req)
	wantClass(t, err, Interrupted, "")
}

func TestTooLarge(t *testing.T) {
	body := http.MaxBytesReader(httptest.NewRecorder(), io.NopCloser(neverEnding{}), 10)
	_, err := io.ReadAll(body)
	wantClass(t, err, TooLarge, "")
}

type neverEnding struct{}

func (neverEnding) Read(p []byte) (int, error) { return len(p), nil }

func TestDiskFull(t *testing.T) {
	f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, err = f.WriteString("x")
	wantClass(t, err, DiskFull, "")
}

// A missing file is the handler's own business, not the machine's fault.
func TestMissingFileIsPlain(t *testing.T) {
	_, err := os.Open(filepath.Join(t.TempDir(), "missing"))
	wantClass(t, err, Plain, "")
}

func TestBadRequests(t *testing.T) {
	wantClass(t, get(t, fresh(nil), "gopher://127.0.0.1"), InvalidInput, "scheme")
	wantClass(t, get(t, fresh(nil), "http:///path"), InvalidInput, "no_host")
}
