package webhook

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/ebbhq/ebb/internal/oneshot"
)

// piped is a listener whose connections are pipes: under synctest they block
// as channels do, so virtual time passes them by.
type piped struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

// transport is what makes the rig's connections.
func (r *rig) transport() *http.Transport { return r.call.(*oneshot.Transport).Base.(*http.Transport) }

// pipe lets the rig call the handler, whatever the host, through pipes.
func (r *rig) pipe(h http.Handler) {
	p := &piped{conns: make(chan net.Conn), done: make(chan struct{})}
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Hour}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(p) }()
	r.t.Cleanup(func() {
		_ = server.Close()
		<-ended
	})
	transport := r.transport()
	transport.DialContext = func(ctx context.Context, _, addr string) (net.Conn, error) {
		near, far := net.Pipe()
		select {
		case p.conns <- &namedConn{far, addr}:
			return &namedConn{near, addr}, nil
		case <-p.done:
			return nil, net.ErrClosed
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (p *piped) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *piped) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *piped) Addr() net.Addr { return pipeAddr("pipe") }

type pipeAddr string

func (a pipeAddr) Network() string { return "pipe" }
func (a pipeAddr) String() string  { return string(a) }

type namedConn struct {
	net.Conn
	name string
}

func (c *namedConn) RemoteAddr() net.Addr { return pipeAddr(c.name) }

func status(code int) func(http.ResponseWriter, call) {
	return func(w http.ResponseWriter, _ call) { w.WriteHeader(code) }
}

// pass lets virtual time pass: it is called inside synctest's bubbles alone.
func pass(d time.Duration) { <-time.After(d) }
