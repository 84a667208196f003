package webhook

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/worker"
)

// speak starts an endpoint that reads a request and then writes what it likes.
func speak(t *testing.T, answer func(c net.Conn)) (url string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			if r, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
				_, _ = io.Copy(io.Discard, r.Body)
				answer(c)
			}
			_ = c.Close()
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-ended
	})
	return "http://" + listener.Addr().String()
}

func words(text string) func(net.Conn) {
	return func(c net.Conn) { _, _ = io.WriteString(c, text) }
}

// Answers that break the protocol are failures of the endpoint, tried again by
// the schedule as any other; none ends a delivery at once, none holds the
// attempt beyond what it says.
func TestHostileAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(net.Conn)
		state  job.State
		class  string
	}{
		"not http":                {words("220 mail.example ESMTP\r\n"), job.Queued, "reset"},
		"nothing":                 {words(""), job.Queued, "reset"},
		"half a status":           {words("HTTP/1.1 2"), job.Queued, "reset"},
		"no such status":          {words("HTTP/1.1 999 What\r\nContent-Length: 0\r\n\r\n"), job.Queued, "server"},
		"negative length":         {words("HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n"), job.Queued, "reset"},
		"two lengths":             {words("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello"), job.Queued, "reset"},
		"more than its length":    {words("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhello"), job.Succeeded, ""},
		"less than its length":    {words("HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nhello"), job.Queued, "short_body"},
		"bad chunk":               {words("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello"), job.Queued, "reset"},
		"unknown coding":          {words("HTTP/1.1 200 OK\r\nTransfer-Encoding: rot13\r\n\r\nuryyb"), job.Queued, "reset"},
		"header without a colon":  {words("HTTP/1.1 200 OK\r\nhello\r\n\r\n"), job.Queued, "reset"},
		"headers without end":     {flood("X-A: " + strings.Repeat("a", 1000) + "\r\n"), job.Queued, "reset"},
		"information without end": {flood("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"), job.Queued, "reset"},
		"100 and then 200":        {words("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), job.Succeeded, ""},
		"another protocol":        {switched, job.Queued, "rejected"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.add(NewEndpoint{URL: speak(t, c.answer)})
			d := r.settled(r.send(Message{Type: "a.b", Payload: []byte(`{}`)}).Deliveries[0].ID)
			if d.State != c.state || d.LastClass != c.class {
				t.Errorf("%s %q (%s), want %s %q", d.State, d.LastClass, d.LastError, c.state, c.class)
			}
		})
	}
}

// flood writes the text for as long as it is heard.
func flood(text string) func(net.Conn) {
	return func(c net.Conn) {
		if !strings.HasPrefix(text, "HTTP") {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n")
		}
		for {
			if _, err := io.WriteString(c, text); err != nil {
				return
			}
		}
	}
}

// switched agrees to another protocol and then waits to be spoken to.
func switched(c net.Conn) {
	_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: chat\r\n\r\n")
	_, _ = io.Copy(io.Discard, c)
}

// What goes wrong before a request is read, over TLS.
func TestHostileTLS(t *testing.T) {
	plain := receive(t, status(http.StatusOK))
	foreign := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(foreign.Close)
	for name, c := range map[string]struct{ url, class string }{
		"plain text where TLS is expected": {strings.Replace(plain.URL, "http:", "https:", 1), "tls"},
		"a certificate of nobody we know":  {foreign.URL, "tls"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.add(NewEndpoint{URL: c.url})
			d := r.settled(r.send(Message{Type: "a.b", Payload: []byte(`{}`)}).Deliveries[0].ID)
			if d.State != job.Queued || d.LastClass != c.class {
				t.Errorf("%s %q (%s), want queued %q", d.State, d.LastClass, d.LastError, c.class)
			}
		})
	}
}

// frames starts an endpoint that speaks HTTP/2 frame by frame: answer is
// called with the number of the connection, from 1, and of the stream.
func frames(t *testing.T, answer func(f *http2.Framer, connection int, stream uint32) (more bool)) (url string, client *tls.Config) {
	t.Helper()
	certified := httptest.NewUnstartedServer(nil)
	certified.EnableHTTP2 = true
	certified.StartTLS()
	t.Cleanup(certified.Close)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: certified.TLS.Certificates, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for n := 1; ; n++ {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			converse(c, func(f *http2.Framer, stream uint32) bool { return answer(f, n, stream) })
			_ = c.Close()
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-ended
	})
	return "https://" + listener.Addr().String(), certified.Client().Transport.(*http.Transport).TLSClientConfig
}

func converse(c net.Conn, answer func(f *http2.Framer, stream uint32) bool) {
	if _, err := io.CopyN(io.Discard, c, int64(len(http2.ClientPreface))); err != nil {
		return
	}
	f := http2.NewFramer(c, c)
	_ = f.WriteSettings()
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return
		}
		if h, ok := frame.(*http2.HeadersFrame); ok && !answer(f, h.StreamID) {
			return
		}
	}
}

// ok answers a stream with 200.
func ok(f *http2.Framer, stream uint32) {
	var block strings.Builder
	_ = hpack.NewEncoder(&block).WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: []byte(block.String()), EndHeaders: true, EndStream: true})
}

// An endpoint that goes away or breaks off is tried again by the schedule,
// also if it says that it has not looked at the delivery: that request was
// sent, and an attempt sends one.
func TestHTTP2GoesAway(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(f *http2.Framer, connection int, stream uint32) bool
		state  job.State
		class  string
	}{
		"away, unseen": {func(f *http2.Framer, connection int, stream uint32) bool {
			if connection == 1 {
				_ = f.WriteGoAway(0, http2.ErrCodeNo, nil)
				return true
			}
			ok(f, stream)
			return true
		}, job.Queued, "reset"},
		"after the answer": {func(f *http2.Framer, _ int, stream uint32) bool {
			ok(f, stream)
			_ = f.WriteGoAway(stream, http2.ErrCodeNo, nil)
			return true
		}, job.Succeeded, ""},
		"away, in anger": {func(f *http2.Framer, _ int, stream uint32) bool {
			_ = f.WriteGoAway(stream, http2.ErrCodeEnhanceYourCalm, []byte("too_many_pings"))
			return false
		}, job.Queued, "reset"},
		"stream reset": {func(f *http2.Framer, _ int, stream uint32) bool {
			_ = f.WriteRSTStream(stream, http2.ErrCodeInternal)
			return true
		}, job.Queued, "reset"},
		"against the protocol": {func(f *http2.Framer, _ int, _ uint32) bool {
			_ = f.WriteRawFrame(http2.FrameData, 0, 0, []byte("data of no stream"))
			return true
		}, job.Queued, "reset"},
	} {
		t.Run(name, func(t *testing.T) {
			url, trust := frames(t, c.answer)
			r := newRig(t, func(to *Config, _ *worker.Config) { to.TLS = trust })
			r.add(NewEndpoint{URL: url})
			d := r.settled(r.send(Message{Type: "a.b", Payload: []byte(`{}`)}).Deliveries[0].ID)
			if d.State != c.state || d.LastClass != c.class || len(d.Log) != 1 {
				t.Errorf("%s %q (%s) after %d starts, want %s %q", d.State, d.LastClass, d.LastError, len(d.Log), c.state, c.class)
			}
			if c.state == job.Succeeded && d.Log[0].Attempt.Proto != "HTTP/2.0" {
				t.Errorf("by %s", d.Log[0].Attempt.Proto)
			}
		})
	}
}

// An endpoint that sends back what it was sent brings no secret into the log.
func TestEchoedSecretsAreNotKept(t *testing.T) {
	const token = "s3cret-of-the-customer"
	for _, code := range []int{200, 500} {
		var calls atomic.Int32
		got := receive(t, func(w http.ResponseWriter, c call) {
			calls.Add(1)
			w.Header().Set("X-You-Sent", c.Header.Get("Authorization"))
			w.WriteHeader(code)
			_, _ = io.WriteString(w, `{"headers": {"authorization": "`+c.Header.Get("Authorization")+`"}} `)
			_, _ = io.WriteString(w, strings.Repeat(".", 1<<10-70)+strings.TrimPrefix(c.Header.Get("Authorization"), "Bearer ")+"!")
		})
		r := newRig(t)
		r.add(NewEndpoint{URL: got.URL, Headers: map[string]string{"Authorization": "Bearer " + token, "X-Tenant": "17"}})
		d := r.settled(r.send(Message{Type: "a.b", Payload: []byte(`{}`)}).Deliveries[0].ID)
		a := d.Log[0].Attempt
		if !strings.HasPrefix(a.Excerpt, `{"headers": {"authorization": "[redacted]"}} .`) || a.Status != code {
			t.Errorf("%d: the excerpt begins with %.60q", a.Status, a.Excerpt)
		}
		for n := len(token); n >= minSecretText; n-- {
			if strings.Contains(a.Excerpt, token[:n]) || strings.Contains(a.ResponseHeaders["x-you-sent"], token[:n]) {
				t.Fatalf("%d: the log has %q: %s", code, token[:n], a.Excerpt)
			}
		}
		if code == 500 && a.ResponseHeaders["x-you-sent"] != Redacted {
			t.Errorf("the header that was sent back is kept: %q", a.ResponseHeaders["x-you-sent"])
		}
	}
}
