package webhook

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/ebbhq/ebb/worker"
)

// resolve answers every question for an IPv4 address with what answer says,
// on loopback, for as long as the test runs.
func resolve(t *testing.T, answer func() [][4]byte) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		buffer := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buffer[:n]) != nil {
				continue
			}
			m.Response, m.Additionals = true, nil
			if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
				for _, a := range answer() {
					m.Answers = append(m.Answers, dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class}, Body: &dnsmessage.AResource{A: a}})
				}
			}
			if packed, err := m.Pack(); err == nil {
				_, _ = conn.WriteTo(packed, from)
			}
		}
	}()
	before := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
	t.Cleanup(func() {
		net.DefaultResolver = before
		_ = conn.Close()
		<-ended
	})
}

// A name that points outside when it is looked at and inside when it is
// called, or to both at once, does not lead inside. 127.0.0.2 plays the
// outside.
func TestRebindingLeadsNowhere(t *testing.T) {
	inside, outside := [4]byte{127, 0, 0, 1}, [4]byte{127, 0, 0, 2}
	var leaked, called atomic.Int32
	count := func(n *atomic.Int32) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			n.Add(1)
			w.Header().Set("Connection", "close") // the next call asks for the name again
		})
	}
	listen := func(address string, h http.Handler) string {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		s := &httptest.Server{Listener: l, Config: &http.Server{Handler: h}} //nolint:gosec // it ends with the test
		s.Start()
		t.Cleanup(s.Close)
		return l.Addr().String()
	}
	_, port, _ := strings.Cut(listen("127.0.0.2:0", count(&called)), ":")
	listen("127.0.0.1:"+port, count(&leaked))
	var answers atomic.Pointer[[][4]byte]
	resolve(t, func() [][4]byte { return *answers.Load() })
	r := newRig(t, func(c *Config, _ *worker.Config) {
		c.AllowNetworks = []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}
	})
	r.add(NewEndpoint{URL: "http://rebound.example:" + port})
	for i, c := range []struct {
		points [][4]byte
		state  string
		class  string
	}{
		{[][4]byte{outside}, "succeeded", ""},
		{[][4]byte{inside}, "failed", "policy_denied"},
		{[][4]byte{inside, outside}, "succeeded", ""},
		{[][4]byte{outside, inside}, "succeeded", ""},
	} {
		answers.Store(&c.points)
		d := r.settled(r.send(Message{Type: "a.b", Payload: []byte(`{}`)}).Deliveries[0].ID)
		if string(d.State) != c.state || d.LastClass != c.class {
			t.Errorf("case %d: %s %q (%s), want %s %q", i, d.State, d.LastClass, d.LastError, c.state, c.class)
		}
	}
	if called.Load() != 3 || leaked.Load() != 0 {
		t.Errorf("the outside was called %d times, want 3; the inside %d times", called.Load(), leaked.Load())
	}
}
