package webhook

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/worker"
)

func TestGuardOfAddresses(t *testing.T) {
	strict := (&Config{}).guard()
	for _, address := range []string{
		"127.0.0.1", "127.8.9.10", "0.0.0.0", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1",
		"169.254.169.254", "100.64.0.1", "100.127.255.255", "192.0.0.1", "192.0.2.1", "198.18.0.1", "198.51.100.1",
		"203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
		"::", "::1", "fe80::1", "fe80::1%lo", "fc00::1", "fd12:3456::1", "ff02::1", "2001:db8::1", "2001::1",
		"::ffff:127.0.0.1", "::ffff:8.8.8.8", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::1", "2002:7f00:1::", "2002:0a00:0001::1",
		"::7f00:1", "fec0::1", "3fff::1",
	} {
		if err := strict.SafeAddr(netip.MustParseAddr(address)); !denied(err) {
			t.Errorf("%s may be called (%v)", address, err)
		}
	}
	for _, address := range []string{"8.8.8.8", "1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "2a00:1450::1"} {
		if err := strict.SafeAddr(netip.MustParseAddr(address)); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
	some := (&Config{
		AllowNetworks: []netip.Prefix{netip.MustParsePrefix("10.1.2.3/16"), netip.MustParsePrefix("fd00::/8")},
		Ports:         []uint16{443},
	}).guard()
	for address, allowed := range map[string]bool{
		"10.1.255.1:443": true, "10.2.0.1:443": false, "[fd12::1]:443": true, "[fc12::1]:443": false, "8.8.8.8:443": true, "8.8.8.8:22": false,
	} {
		if err := some.SafeAddrPort(netip.MustParseAddrPort(address)); (err == nil) != allowed {
			t.Errorf("%s: %v, allowed %t", address, err, allowed)
		}
	}
}

// Nothing inside is called, however it is named: the guard sees the address
// that is dialled. It is refused for good, not retried.
func TestInsideIsNotCalled(t *testing.T) {
	var called atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called.Add(1) }))
	defer server.Close()
	port := strings.TrimPrefix(server.URL, "http://127.0.0.1:")
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "2130706433.nonesuch.invalid", "localhost.", "0.0.0.0", "[::]", "[::1]", "[fe80::1%25lo]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]"} {
		t.Run(host, func(t *testing.T) {
			r := newRig(t, func(c *Config, _ *worker.Config) { c.AllowNetworks = nil })
			r.add(NewEndpoint{URL: "http://" + host + ":" + port})
			d := r.settled(r.send(Message{Type: "a.b", Payload: []byte(`{}`)}).Deliveries[0].ID)
			switch d.LastClass {
			case "policy_denied":
				if d.State != job.Failed {
					t.Errorf("it is %s, want failed at once", d.State)
				}
			case "dns": // a name that does not resolve here
			default:
				t.Errorf("class %q (%s), want policy_denied", d.LastClass, d.LastError)
			}
		})
	}
	if n := called.Load(); n != 0 {
		t.Errorf("the inside was called %d times", n)
	}
}

// The environment's proxy is not used; a configured one is, and an address
// inside is not asked of it.
func TestProxy(t *testing.T) {
	var proxied atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { proxied.Add(1) }))
	defer proxy.Close()
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "ALL_PROXY"} {
		t.Setenv(name, proxy.URL)
	}
	got := receive(t, status(http.StatusOK))
	r := newRig(t)
	r.add(NewEndpoint{URL: got.URL})
	r.await(r.send(Message{Type: "a.b", Payload: []byte(`{}`)}).Deliveries[0].ID, "succeeded")
	if n := proxied.Load(); n != 0 {
		t.Fatalf("the environment's proxy was called %d times", n)
	}
	through := newRig(t, func(c *Config, _ *worker.Config) {
		c.AllowNetworks = nil
		c.Proxy, _ = url.Parse(proxy.URL)
	})
	through.add(NewEndpoint{URL: "http://hooks.example/", Types: []string{"out"}})
	through.await(through.send(Message{Type: "out", Payload: []byte(`{}`)}).Deliveries[0].ID, "succeeded")
	for i, host := range []string{"10.0.0.1", "[::1]", "[fe80::1%25lo]", "[::ffff:10.0.0.1]"} {
		kind := fmt.Sprint("in-", i)
		through.add(NewEndpoint{URL: "http://" + host + "/", Types: []string{kind}})
		d := through.await(through.send(Message{Type: kind, Payload: []byte(`{}`)}).Deliveries[0].ID, "failed")
		if d.LastClass != "policy_denied" {
			t.Errorf("%s: %s %s", host, d.LastClass, d.LastError)
		}
	}
	if n := proxied.Load(); n != 1 {
		t.Errorf("the proxy was called %d times, want once", n)
	}
	// Endpoints of before hosts were checked: a proxy might read these.
	for _, host := range []string{"2130706433", "0x7f.1", "127.1", "127.0.0.1.", "127。0。0。1"} {
		if err := through.config.literal(host); !denied(err) {
			t.Errorf("%s may be asked of the proxy (%v)", host, err)
		}
	}
}

// Deliveries to one endpoint share connections, by HTTP/2 where it is spoken.
func TestConnections(t *testing.T) {
	var two atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 {
			two.Add(1)
		}
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	r := newRig(t, func(c *Config, _ *worker.Config) {
		c.TLS = server.Client().Transport.(*http.Transport).TLSClientConfig
	})
	r.add(NewEndpoint{URL: server.URL})
	for i := range 20 {
		d := r.await(r.send(Message{Type: "a.b", Payload: fmt.Appendf(nil, "%d", i)}).Deliveries[0].ID, "succeeded")
		if a := d.Log[0].Attempt; a.Reused != (i > 0) || a.Proto != "HTTP/2.0" || i == 0 && (a.TLS <= 0 || a.Connect <= 0) {
			t.Errorf("delivery %d: %+v", i, a)
		}
	}
	if two.Load() != 20 {
		t.Errorf("%d of 20 deliveries by HTTP/2", two.Load())
	}
}

// Secrets and headers are not in the store, nor in what is shown.
func TestSecretsAreSealed(t *testing.T) {
	r := stillRig(t)
	e, secret := r.add(NewEndpoint{URL: "https://a.example/", Headers: map[string]string{"X-Api-Key": "open sesame"}})
	_, second, err := r.Rotate(t.Context(), e.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := r.store.Records(t.Context(), store.RecordFilter{Kind: recordEndpoint, Limit: 10})
	if err != nil || len(rows) != 1 {
		t.Fatalf("%d records: %v", len(rows), err)
	}
	shown, err := r.Show(t.Context(), e.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{secret, second, strings.TrimPrefix(secret, secretPrefix), "open sesame"} {
		if bytes.Contains(rows[0].Body, []byte(word)) || strings.Contains(fmt.Sprintf("%+v", shown), word) {
			t.Errorf("%q can be read", word)
		}
	}
	if len(shown.Headers) != 1 || shown.Headers[0] != "X-Api-Key" {
		t.Errorf("headers %v", shown.Headers)
	}
	// With another key the secret cannot be opened: the delivery waits for a
	// person, and nothing is sent unsigned.
	got := receive(t, status(http.StatusOK))
	other := newRig(t, func(c *Config, _ *worker.Config) { c.Store, c.Seal = r.store, newSealer(2) })
	if _, err := r.Update(t.Context(), e.ID, Change{URL: &got.URL}); err != nil {
		t.Fatal(err)
	}
	d := other.await(other.send(Message{Type: "a.b", Payload: []byte(`{}`)}).Deliveries[0].ID, "parked")
	if d.LastClass != "config" || len(got.calls) != 0 {
		t.Errorf("class %s, %d calls", d.LastClass, len(got.calls))
	}
}
