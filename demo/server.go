package demo

import (
	"context"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/ebbhq/ebb/failure"
)

// server is a real HTTP server on loopback with a client of its own.
type server struct {
	base   string
	client *http.Client
	http   *http.Server
}

func listen(ctx context.Context, serve http.HandlerFunc) (*server, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &server{
		base:   "http://" + l.Addr().String(),
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 20}},
		http:   &http.Server{Handler: serve, ReadHeaderTimeout: 10 * time.Second},
	}
	go func() { _ = s.http.Serve(l) }() // ends with close
	return s, nil
}

func (s *server) close() {
	s.client.CloseIdleConnections()
	_ = s.http.Close() // loopback, nothing is left to lose
}

// call gets a path and classifies what goes wrong.
func (s *server) call(ctx context.Context, path string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+path, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // read to its end below
	if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20)); err != nil {
		return failure.During(failure.PhaseBody, err)
	}
	if f, bad := failure.Response(resp, time.Now()); bad {
		return &failure.Error{Failure: f}
	}
	return nil
}
