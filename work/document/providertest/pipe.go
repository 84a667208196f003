package providertest

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
)

// pipes is a listener whose connections are pipes in memory: they stand still
// with a fake clock, as sockets do not.
type pipes struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "provider.test" }

func (p *pipes) Addr() net.Addr { return pipeAddr{} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-p.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// NewPiped starts a provider that only the returned client reaches, without a
// network: for tests on a fake clock.
func NewPiped(script func(Call) Act) (*Server, *http.Client) {
	s := newServer(script)
	p := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	s.Server = &httptest.Server{Listener: p, Config: &http.Server{Handler: s}} //nolint:gosec // no stranger reaches it
	s.Start()
	return s, &http.Client{Transport: &http.Transport{DialContext: p.dial, DisableKeepAlives: true}}
}
