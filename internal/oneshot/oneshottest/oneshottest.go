// Package oneshottest has servers on loopback that end requests in the ways
// that make Go's http.Transport send them again. They count what arrives.
package oneshottest

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"
)

// Fault is how a server ends requests.
type Fault string

const (
	// GoAway ends every request by GOAWAY with NO_ERROR and last stream 0: the
	// server says that it did not look at it.
	GoAway Fault = "GOAWAY"
	// RefuseStream ends every request by RST_STREAM with REFUSED_STREAM.
	RefuseStream Fault = "REFUSED_STREAM"
	// ProtocolError ends every request by RST_STREAM with PROTOCOL_ERROR, which
	// net/http takes for a reason to send again too.
	ProtocolError Fault = "PROTOCOL_ERROR"
	// CloseReused answers the first request of each connection and closes the
	// connection when the second has arrived.
	CloseReused Fault = "close of a reused connection"
	// ResetReused does so with a TCP reset.
	ResetReused Fault = "reset of a reused connection"
	// CloseFirst closes every connection when its first request has arrived.
	CloseFirst Fault = "close before the first byte"
	// Misdirected answers every request with 421, over HTTP/1.1.
	Misdirected Fault = "421"
	// MisdirectedHTTP2 answers every request with 421, over HTTP/2.
	MisdirectedHTTP2 Fault = "421 over HTTP/2"
)

// Faults lists them all.
func Faults() []Fault {
	return []Fault{GoAway, RefuseStream, ProtocolError, CloseReused, ResetReused, CloseFirst, Misdirected, MisdirectedHTTP2}
}

// limit is how many requests an HTTP/2 server answers by its fault before it
// only hangs up: net/http sends again after GOAWAY without an end.
const limit = 100

// Server is a server with a fault.
type Server struct {
	URL string
	// TLS trusts the server; nil where it speaks plain HTTP.
	TLS *tls.Config

	requests, faults atomic.Int64
}

// Requests is how many requests have arrived, each counted when its header was
// read.
func (s *Server) Requests() int { return int(s.requests.Load()) }

// Faults is how many of them ended by the fault.
func (s *Server) Faults() int { return int(s.faults.Load()) }

// Start starts a server that ends with the test. healthy answers the requests
// that the fault spares; nil answers 200.
func Start(t testing.TB, f Fault, healthy http.Handler) *Server {
	t.Helper()
	s := &Server{}
	if healthy == nil {
		healthy = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	}
	switch f {
	case GoAway, RefuseStream, ProtocolError:
		s.frames(t, f)
	default:
		s.serve(t, f, healthy)
	}
	return s
}

// serve runs net/http's server, which gives a connection up where the fault
// wants that.
func (s *Server) serve(t testing.TB, f Fault, healthy http.Handler) {
	type connKey struct{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		nth := r.Context().Value(connKey{}).(*atomic.Int64).Add(1) //nolint:forcetypeassert // set below
		misdirected := f == Misdirected || f == MisdirectedHTTP2
		if !misdirected && f != CloseFirst && nth == 1 {
			healthy.ServeHTTP(w, r)
			return
		}
		s.faults.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		if misdirected {
			w.WriteHeader(http.StatusMisdirectedRequest)
			return
		}
		hangUp(w, f == ResetReused)
	}))
	server.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, new(atomic.Int64))
	}
	stop(t, server)
	if f != MisdirectedHTTP2 {
		server.Start()
		s.URL = server.URL
		return
	}
	server.EnableHTTP2 = true
	server.StartTLS()
	s.URL, s.TLS = server.URL, trust(server)
}

// hangUp ends the connection without an answer.
func hangUp(w http.ResponseWriter, reset bool) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err) // HTTP/1 connections can all be taken over
	}
	if tcp, ok := conn.(*net.TCPConn); ok && reset {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// stop ends the server with the test, whatever connections clients still hold.
func stop(t testing.TB, server *httptest.Server) {
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
}

func trust(server *httptest.Server) *tls.Config {
	return server.Client().Transport.(*http.Transport).TLSClientConfig //nolint:forcetypeassert // httptest's own
}

// frames runs a server that speaks HTTP/2 frame by frame.
func (s *Server) frames(t testing.TB, f Fault) {
	server := httptest.NewUnstartedServer(nil)
	server.EnableHTTP2 = true
	server.Config.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){
		"h2": func(_ *http.Server, c *tls.Conn, _ http.Handler) { s.converse(c, f) },
	}
	stop(t, server)
	server.StartTLS()
	s.URL, s.TLS = server.URL, trust(server)
}

// converse reads requests and ends each by its fault, until the client hangs
// up.
func (s *Server) converse(c net.Conn, f Fault) {
	if _, err := io.CopyN(io.Discard, c, int64(len(http2.ClientPreface))); err != nil {
		return
	}
	framer := http2.NewFramer(c, c)
	if framer.WriteSettings() != nil {
		return
	}
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return
		}
		headers, ok := frame.(*http2.HeadersFrame)
		if !ok {
			continue
		}
		if s.requests.Add(1) > limit {
			return
		}
		s.faults.Add(1)
		switch f {
		case GoAway:
			err = framer.WriteGoAway(0, http2.ErrCodeNo, nil)
		case RefuseStream:
			err = framer.WriteRSTStream(headers.StreamID, http2.ErrCodeRefusedStream)
		default:
			err = framer.WriteRSTStream(headers.StreamID, http2.ErrCodeProtocol)
		}
		if err != nil {
			return
		}
	}
}
