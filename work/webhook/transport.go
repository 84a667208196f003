package webhook

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"code.dny.dev/ssrf"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/policy"
)

const (
	// keepAlive is how long an idle connection is kept for the next delivery.
	keepAlive = 90 * time.Second
	// maxResponseHeader bounds what an answer's headers may take, in bytes.
	maxResponseHeader = 64 << 10
	// pingAfter is how long an HTTP/2 connection may be silent before it is
	// asked whether it lives, pingWait how long it may take to answer.
	pingAfter = 15 * time.Second
	pingWait  = 10 * time.Second
	// fallbackDelay is how long IPv4 waits for IPv6, or the other way round.
	fallbackDelay = 300 * time.Millisecond
)

// guard judges the concrete address that is about to be dialled, whatever a
// name resolved to before: it runs between the resolver and the connect.
func (c *Config) guard() *ssrf.Guardian {
	options := []ssrf.Option{ssrf.WithPorts(c.Ports...)}
	if len(c.Ports) == 0 {
		options[0] = ssrf.WithAnyPort()
	}
	var v4, v6 []netip.Prefix
	for _, p := range c.AllowNetworks {
		if p = p.Masked(); p.Addr().Is4() {
			v4 = append(v4, p)
		} else {
			v6 = append(v6, p)
		}
	}
	return ssrf.New(append(options, ssrf.WithAllowedV4Prefixes(v4...), ssrf.WithAllowedV6Prefixes(v6...))...)
}

// Refuses reports whether a delivery to the address would be refused.
func (c *Config) Refuses(addr netip.Addr) bool { return c.guard().SafeAddr(addr) != nil }

// denied reports whether our own guard refused the call.
func denied(err error) bool {
	return errors.Is(err, ssrf.ErrProhibitedIP) || errors.Is(err, ssrf.ErrProhibitedPort) ||
		errors.Is(err, ssrf.ErrProhibitedNetwork) || errors.Is(err, ssrf.ErrInvalidHostPort)
}

// transport calls endpoints. It follows nothing: it is no client. The
// attempt's context is the one deadline, of connect, headers and body.
func (c *Config) transport(policies map[string]*policy.Policy) *http.Transport {
	pool := 0
	for _, p := range policies {
		if p.Name != PolicyName && (!c.EndpointPolicies || p.Target != policy.Endpoint) {
			continue
		}
		pool = max(pool, p.Concurrency)
	}
	guard := c.guard()
	dialer := &net.Dialer{FallbackDelay: fallbackDelay, KeepAlive: keepAlive / 3, Control: guard.Safe}
	t := &http.Transport{
		DialContext:            dialer.DialContext,
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           pool, // as many as can be at work
		MaxIdleConnsPerHost:    pool, // many endpoints may share a host
		IdleConnTimeout:        keepAlive,
		MaxResponseHeaderBytes: maxResponseHeader,
		// A connection whose other end has vanished is found out by a ping, not
		// by the time-outs of all that is sent over it.
		HTTP2: &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingWait},
	}
	if c.TLS != nil {
		t.TLSClientConfig = c.TLS.Clone()
	}
	if c.Proxy == nil {
		return t
	}
	// The proxy is the operator's own and may be anywhere. Names are resolved
	// by it; literal addresses are judged here.
	t.Proxy = http.ProxyURL(c.Proxy)
	t.DialContext = (&net.Dialer{FallbackDelay: fallbackDelay, KeepAlive: keepAlive / 3}).DialContext
	t.OnProxyConnectResponse = func(_ context.Context, _ *url.URL, _ *http.Request, r *http.Response) error {
		if r.StatusCode != http.StatusOK {
			return failure.New(failure.Unreachable, "proxy", errors.New("the proxy answered "+r.Status))
		}
		return nil
	}
	return t
}

// literal judges an endpoint that is named by an address, where a proxy would
// dial it for us.
func (c *Config) literal(host string) error {
	if c.Proxy == nil {
		return nil
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return c.guard().SafeAddr(addr)
	}
	if numeric(host) {
		return fmt.Errorf("%w: %q is an address in a form that cannot be judged", ssrf.ErrProhibitedIP, host)
	}
	return nil
}
