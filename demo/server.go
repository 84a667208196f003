package demo

import (
	"context"
	"net"
	"net/http"
	"time"
)

// server is a real HTTP server on loopback.
type server struct {
	base string
	http *http.Server
}

func listen(ctx context.Context, serve http.HandlerFunc) (*server, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &server{
		base: "http://" + l.Addr().String(),
		http: &http.Server{Handler: serve, ReadHeaderTimeout: 10 * time.Second},
	}
	go func() { _ = s.http.Serve(l) }() // ends with close
	return s, nil
}

func (s *server) close() { _ = s.http.Close() } // loopback, nothing is left to lose
