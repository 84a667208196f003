package oneshot_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/internal/oneshot"
	"github.com/ebbhq/ebb/internal/oneshot/oneshottest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// connect returns a transport to the server that keeps connections.
func connect(t *testing.T, s *oneshottest.Server) *oneshot.Transport {
	t.Helper()
	to := oneshot.New(&http.Transport{TLSClientConfig: s.TLS, ForceAttemptHTTP2: true})
	t.Cleanup(to.CloseIdleConnections)
	return to
}

// call makes one request and reads the answer.
func call(t *testing.T, to http.RoundTripper, req *http.Request) (int, error) {
	t.Helper()
	resp, err := to.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Error(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
	return resp.StatusCode, nil
}

func request(ctx context.Context, t *testing.T, method, url, body string) *http.Request {
	t.Helper()
	var from io.Reader
	if body != "" {
		from = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, from)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// Every way in which net/http sends again: the server gets one request for
// each RoundTrip, and a failure is one that policies retry.
func TestOneRequestPerRoundTrip(t *testing.T) {
	const calls = 4
	requests := map[string]struct{ method, body, header, value string }{
		"GET":                     {method: http.MethodGet},
		"GET with a large header": {method: http.MethodGet, header: "X-Large", value: strings.Repeat("x", 20<<10)},
		"POST":                    {method: http.MethodPost, body: "{}"},
		"POST without a body":     {method: http.MethodPost},
		"POST with a key":         {method: http.MethodPost, body: "{}", header: "Idempotency-Key", value: "1"},
	}
	for _, fault := range oneshottest.Faults() {
		for name, r := range requests {
			t.Run(string(fault)+"/"+name, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // replays may go on for ever
				defer cancel()
				s := oneshottest.Start(t, fault, nil)
				to := connect(t, s)
				failed := 0
				for i := range calls {
					req := request(ctx, t, r.method, s.URL, r.body)
					if r.header != "" {
						req.Header.Set(r.header, r.value)
					}
					status, err := call(t, to, req)
					if n := s.Requests(); n != i+1 {
						t.Fatalf("%d requests after %d calls", n, i+1)
					}
					if err == nil && status == http.StatusOK {
						continue
					}
					failed++
					if f := failure.Classify(err); err != nil && f.Class != failure.Reset {
						t.Errorf("%v is of class %s, want reset", err, f.Class)
					}
				}
				if failed != s.Faults() || failed == 0 {
					t.Errorf("%d calls failed, the server broke %d off", failed, s.Faults())
				}
			})
		}
	}
}

// The failure names what the server did.
func TestReason(t *testing.T) {
	for fault, want := range map[oneshottest.Fault]string{
		oneshottest.GoAway:       oneshot.ReasonRefused,
		oneshottest.RefuseStream: oneshot.ReasonRefused,
		oneshottest.CloseReused:  oneshot.ReasonIdleClosed,
		oneshottest.ResetReused:  oneshot.ReasonIdleClosed,
	} {
		s := oneshottest.Start(t, fault, nil)
		client := &http.Client{Transport: connect(t, s)} // its errors wrap the transport's
		var last error
		for range 2 {
			resp, err := client.Do(request(t.Context(), t, http.MethodGet, s.URL, ""))
			if last = err; err == nil {
				_ = resp.Body.Close()
			}
		}
		if f := failure.Classify(last); f.Reason != want || f.Class != failure.Reset || f.Blame != failure.BlameTarget {
			t.Errorf("%s: %s %q, blame %s (%v), want reset %q", fault, f.Class, f.Reason, f.Blame, last, want)
		}
	}
}

// Connections are kept, the caller's own trace is told, and the answer is the
// base's.
func TestHealthyServer(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			text, _ := io.ReadAll(r.Body)
			_, _ = w.Write(text)
		}))
		server.EnableHTTP2 = h2
		server.StartTLS()
		t.Cleanup(server.Close)
		to := oneshot.New(server.Client().Transport)
		fresh := 0
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) {
			if !c.Reused {
				fresh++
			}
		}})
		for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodHead, http.MethodPost} {
			body := map[bool]string{true: strings.Repeat("x", 100<<10)}[method == http.MethodPost]
			req := request(ctx, t, method, server.URL, body)
			resp, err := to.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(resp.Body)
			if err != nil || string(text) != body || resp.Request != req || resp.ProtoMajor == 2 != h2 {
				t.Errorf("%s: %d bytes by %s, %v", method, len(text), resp.Proto, err)
			}
			if err := resp.Body.Close(); err != nil {
				t.Error(err)
			}
		}
		if fresh != 1 {
			t.Errorf("HTTP/2 %v: 4 calls made %d connections", h2, fresh)
		}
	}
}

// The caller's context ends a call, also while the answer is being read, and
// its cause is what the caller sees.
func TestCallersContext(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/body" {
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
		}
		<-release
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(release) })
	to := oneshot.New(server.Client().Transport)
	why := errors.New("told to stop")

	ctx, cancel := context.WithCancelCause(t.Context())
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { cancel(why) }})
	if _, err := call(t, to, request(traced, t, http.MethodGet, server.URL, "")); !errors.Is(err, why) {
		t.Errorf("before the answer: %v, want %v", err, why)
	}

	ctx, cancel = context.WithCancelCause(t.Context())
	resp, err := to.RoundTrip(request(ctx, t, http.MethodGet, server.URL+"/body", ""))
	if err != nil {
		t.Fatal(err)
	}
	cancel(why)
	if _, err := io.Copy(io.Discard, resp.Body); !errors.Is(err, why) {
		t.Errorf("in the body: %v, want %v", err, why)
	}
	_ = resp.Body.Close()
}

// A transport is not wrapped twice, and none means the default.
func TestNew(t *testing.T) {
	if to := oneshot.New(nil); to.Base != http.DefaultTransport || oneshot.New(to) != to {
		t.Errorf("%+v", to)
	}
}

// Other kept-alive connections to the same server are no way around it: the
// transport would take the next one from the pool.
func TestOtherIdleConnections(t *testing.T) {
	const conns = 8
	var together sync.WaitGroup // of the first requests, so that each has its own connection
	together.Add(conns)
	s := oneshottest.Start(t, oneshottest.CloseReused, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/together" {
			together.Done()
			together.Wait()
		}
	}))
	base := &http.Transport{MaxIdleConnsPerHost: conns}
	t.Cleanup(base.CloseIdleConnections)
	to := oneshot.New(base)
	var group sync.WaitGroup
	for range conns {
		group.Go(func() {
			if _, err := call(t, to, request(t.Context(), t, http.MethodGet, s.URL+"/together", "")); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	for i := range conns {
		if _, err := call(t, to, request(t.Context(), t, http.MethodGet, s.URL, "")); err != nil && failure.Classify(err).Class != failure.Reset {
			t.Errorf("%v, want a reset", err)
		}
		if n := s.Requests(); n != conns+i+1 {
			t.Fatalf("%d requests after %d calls", n, conns+i+1)
		}
	}
	if s.Faults() == 0 {
		t.Error("no connection was used again")
	}
}

// replaying is a transport that writes its request to two connections, as
// net/http does without a look at the context in between.
type replaying struct{ first, second net.Conn }

func (r replaying) RoundTrip(req *http.Request) (*http.Response, error) {
	trace := httptrace.ContextClientTrace(req.Context())
	for _, c := range []net.Conn{r.first, r.second} {
		trace.GotConn(httptrace.GotConnInfo{Conn: c})
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\n\r\n"); err != nil {
			return nil, err
		}
		trace.WroteHeaders()
	}
	return nil, errors.New("two requests were sent")
}

// A second HTTP/1 connection takes nothing, even if nobody heeds the context.
func TestSecondConnectionIsClosed(t *testing.T) {
	first, one := net.Pipe()
	second, other := net.Pipe()
	read := func(c net.Conn) <-chan int64 {
		got := make(chan int64, 1)
		go func() {
			n, _ := io.Copy(io.Discard, c)
			got <- n
		}()
		return got
	}
	toOne, toOther := read(one), read(other)
	_, err := call(t, oneshot.New(replaying{first, second}), request(t.Context(), t, http.MethodGet, "http://a.example/", ""))
	_, _ = first.Close(), second.Close()
	if f := failure.Classify(err); f.Class != failure.Reset || f.Reason != oneshot.ReasonIdleClosed {
		t.Errorf("%v, want a reset", err)
	}
	if n, m := <-toOne, <-toOther; n != 18 || m != 0 {
		t.Errorf("%d bytes went to the first connection and %d to the second", n, m)
	}
}
