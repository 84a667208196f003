// Package oneshot sends a request at most once.
//
// Go's http.Transport sends a request again by itself when a kept-alive
// connection breaks before an answer comes, and when an HTTP/2 server refuses
// the request by GOAWAY or RST_STREAM. Where a policy counts attempts, such a
// replay is a request that no ledger shows.
package oneshot

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"

	"github.com/ebbhq/ebb/failure"
)

// Reasons of a request that was sent, got no answer and was not sent again.
// Their class is failure.Reset, which policies retry.
const (
	// ReasonIdleClosed: the server closed a connection that had been kept open
	// between two requests.
	ReasonIdleClosed = "idle_closed"
	// ReasonRefused: an HTTP/2 server refused the request by GOAWAY or
	// RST_STREAM.
	ReasonRefused = "http2_refused"
)

var (
	errIdleClosed = failure.New(failure.Reset, ReasonIdleClosed,
		errors.New("the server closed the kept-alive connection before it answered; an attempt sends its request once"))
	errRefused = failure.New(failure.Reset, ReasonRefused,
		errors.New("the server refused the request by HTTP/2 GOAWAY or RST_STREAM; an attempt sends its request once"))
)

// Transport puts a request on the wire at most once per RoundTrip: after its
// header was written to one connection, it is never written to another.
//
// Until then the request may change connections. If a kept-alive connection
// was closed and that is noticed before the header is written, the request
// goes out on the next connection and nothing is lost.
type Transport struct {
	// Base makes the calls. It must call the hooks of net/http/httptrace, as
	// *http.Transport does.
	Base http.RoundTripper
}

// New returns a transport over base. Nil means http.DefaultTransport; a base
// that sends once already is returned as it is.
func New(base http.RoundTripper) *Transport {
	if base == nil {
		base = http.DefaultTransport
	}
	if t, ok := base.(*Transport); ok {
		return t
	}
	return &Transport{Base: base}
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	s := &sending{cancel: cancel}
	s.trace = httptrace.ClientTrace{GetConn: s.getConn, GotConn: s.gotConn, WroteHeaders: s.wroteHeaders}
	resp, err := t.Base.RoundTrip(req.WithContext(httptrace.WithClientTrace(ctx, &s.trace)))
	if err != nil {
		cancel(nil)
		if refused := s.refusal(); refused != nil {
			return nil, refused
		}
		return nil, err
	}
	resp.Request = req
	switch {
	case resp.Body == http.NoBody:
		cancel(nil)
	case resp.StatusCode == http.StatusSwitchingProtocols:
		// The body is written to as well, so it stays what it is. The end of
		// the caller's context releases ours.
	default:
		resp.Body = &body{ReadCloser: resp.Body, release: cancel}
	}
	return resp, nil
}

// CloseIdleConnections closes those of Base.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.Base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// sending is one request on its way. Its methods are hooks, called by the
// transport's goroutines.
type sending struct {
	cancel context.CancelCauseFunc
	trace  httptrace.ClientTrace

	mu      sync.Mutex
	conn    net.Conn       // that the request was given to
	sent    bool           // the header was written to conn
	refused *failure.Error // the transport wanted to send again
}

// wroteHeaders runs before the end of an HTTP/1 header can leave the buffer of
// its connection. HTTP/2 calls it after the write, and waits for that before
// it considers a replay.
func (s *sending) wroteHeaders() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = true
}

// getConn runs before the transport looks for a connection. Refusing here
// saves the wait for one that may not be used.
func (s *sending) getConn(string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sent {
		s.refuse()
	}
}

// gotConn runs before the transport writes to the connection. To cancel the
// context is enough for HTTP/2, which checks it before it writes a header.
// HTTP/1 writes without a check, but nobody shares the connection: close it.
func (s *sending) gotConn(c httptrace.GotConnInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.sent {
		s.conn = c.Conn
		return
	}
	s.refuse()
	if !isHTTP2(c.Conn) {
		_ = c.Conn.Close() // unused: there is nothing to lose
	}
}

func (s *sending) refuse() {
	s.refused = errIdleClosed
	if isHTTP2(s.conn) {
		s.refused = errRefused
	}
	s.cancel(s.refused)
}

func (s *sending) refusal() *failure.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused
}

func isHTTP2(c net.Conn) bool {
	t, ok := c.(interface{ ConnectionState() tls.ConnectionState })
	return ok && t.ConnectionState().NegotiatedProtocol == "h2"
}

// body releases the request's context when it is closed.
type body struct {
	io.ReadCloser
	release context.CancelCauseFunc
}

func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.release(nil)
	return err
}
