package webhook

import (
	"crypto/tls"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/failure"
)

// Attempt is what was seen of one call, beside the row of the job's ledger.
type Attempt struct {
	Start int    `json:"start"` // of the job: the ledger's number
	URL   string `json:"url"`
	// RemoteAddr is the address that was called; empty where none was.
	RemoteAddr string `json:"remote_addr,omitempty"`
	Proto      string `json:"proto,omitempty"` // HTTP/1.1, HTTP/2.0
	Reused     bool   `json:"reused,omitempty"`
	Status     int    `json:"status,omitempty"`
	Class      string `json:"class,omitempty"` // of a failure
	Reason     string `json:"reason,omitempty"`
	Error      string `json:"error,omitempty"`

	RequestHeaders  map[string]string `json:"request_headers,omitempty"`  // of a failure, redacted
	ResponseHeaders map[string]string `json:"response_headers,omitempty"` // of a failure, redacted
	Size            int64             `json:"size,omitempty"`             // of the answer, as far as it was read
	Truncated       bool              `json:"truncated,omitempty"`        // the answer went on
	Excerpt         string            `json:"excerpt,omitempty"`

	// Milliseconds from the attempt's begin to its end, and of its parts: of
	// a part that did not happen, 0.
	DNS       float64 `json:"dns_ms,omitempty"`
	Connect   float64 `json:"connect_ms,omitempty"`
	TLS       float64 `json:"tls_ms,omitempty"`
	FirstByte float64 `json:"first_byte_ms,omitempty"` // from the begin
	Total     float64 `json:"total_ms"`
}

func (a *Attempt) fail(err error) {
	f := failure.Classify(err)
	a.Class, a.Reason, a.Error = f.Class.String(), f.Reason, clip(f.Err.Error())
}

const maxError = 500

func clip(text string) string {
	if len(text) > maxError {
		return strings.ToValidUTF8(text[:maxError], "") + "…"
	}
	return text
}

// Redacted stands for a value that is not kept.
const Redacted = "[redacted]"

// secretWords are parts of names of headers whose values are not kept; nor
// are those of headers that the endpoint set.
var secretWords = []string{"auth", "cookie", "token", "secret", "key", "password", "credential", "session", "signature"}

const (
	maxKeptHeaders = 40
	maxKeptValue   = 256
)

func redact(h http.Header, to *destination, own []string) map[string]string {
	kept := make(map[string]string, len(h))
	for _, name := range slices.Sorted(maps.Keys(h)) {
		if len(kept) == maxKeptHeaders {
			break
		}
		value := strings.Join(h[name], ", ")
		value = to.excerpt(value, len(value))
		low := strings.ToLower(name)
		secret := slices.ContainsFunc(secretWords, func(w string) bool { return strings.Contains(low, w) }) ||
			slices.ContainsFunc(own, func(n string) bool { return strings.EqualFold(n, name) })
		switch {
		case secret:
			value = Redacted
		case len(value) > maxKeptValue:
			value = strings.ToValidUTF8(value[:maxKeptValue], "") + "…"
		}
		kept[low] = value
	}
	return kept
}

// minSecretText is the least length of a header's value that is looked for in
// answers: shorter ones are in every text.
const minSecretText = 6

// learn gathers the secrets of the headers: their values, and of those such as
// "Bearer TOKEN" the second part too.
func (d *destination) learn() {
	for _, value := range d.headers {
		_, part, _ := strings.Cut(value, " ")
		for _, v := range []string{value, part} {
			if len(v) >= minSecretText {
				d.secrets = append(d.secrets, v)
			}
		}
	}
	slices.SortFunc(d.secrets, func(a, b string) int { return len(b) - len(a) })
	if len(d.secrets) > 0 {
		d.longest = len(d.secrets[0])
	}
}

// excerpt is what is kept of an answer's first most bytes: endpoints that send
// back what they were sent do not bring secrets into the log. The text goes on
// for the longest of them, so that none is cut in two.
func (d *destination) excerpt(text string, most int) string {
	if d.longest == 0 {
		return text
	}
	var b strings.Builder
	for i := 0; i < min(len(text), most); {
		if k := slices.IndexFunc(d.secrets, func(v string) bool { return strings.HasPrefix(text[i:], v) }); k >= 0 {
			b.WriteString(Redacted)
			i += len(d.secrets[k])
			continue
		}
		b.WriteByte(text[i])
		i++
	}
	return b.String()
}

// headers keeps those of a failed call, as far as it came.
func (a *Attempt) headers(req *http.Request, resp *http.Response, to *destination) {
	if req != nil {
		a.RequestHeaders = redact(req.Header, to, to.doc.HeaderNames)
	}
	if resp != nil {
		a.ResponseHeaders = redact(resp.Header, to, nil)
	}
}

// tracer notes when the parts of a call happened. Its hooks are called from
// several goroutines.
type tracer struct {
	clock clock.Clock

	mu                      sync.Mutex
	begun                   time.Time
	dnsAt, connectAt, tlsAt time.Time
	dns, connect, handshake time.Duration
	connected               bool
	firstByte               time.Duration
	remote                  string
	reused                  bool

	trace httptrace.ClientTrace // its hooks are this tracer's
}

func newTracer(c clock.Clock) *tracer { return &tracer{clock: c, begun: c.Now()} }

func (t *tracer) note(f func(now time.Time)) {
	now := t.clock.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	f(now)
}

func (t *tracer) hooks(to *destination) *httptrace.ClientTrace {
	t.trace = httptrace.ClientTrace{
		DNSStart: func(httptrace.DNSStartInfo) { t.note(func(now time.Time) { t.dnsAt = now }) },
		DNSDone:  func(httptrace.DNSDoneInfo) { t.note(func(now time.Time) { t.dns = now.Sub(t.dnsAt) }) },
		ConnectStart: func(_, _ string) {
			t.note(func(now time.Time) {
				if t.connectAt.IsZero() { // the first of several addresses
					t.connectAt = now
				}
			})
		},
		ConnectDone: func(_, _ string, err error) {
			t.note(func(now time.Time) {
				if err == nil {
					t.connect = now.Sub(t.connectAt)
				}
			})
		},
		TLSHandshakeStart: func() { t.note(func(now time.Time) { t.tlsAt = now }) },
		TLSHandshakeDone: func(tls.ConnectionState, error) {
			t.note(func(now time.Time) { t.handshake = now.Sub(t.tlsAt) })
		},
		GotConn: func(c httptrace.GotConnInfo) {
			remote := to.remote.text(c.Conn.RemoteAddr())
			t.mu.Lock()
			defer t.mu.Unlock()
			t.connected, t.reused, t.remote = true, c.Reused, remote
		},
		GotFirstResponseByte: func() {
			t.note(func(now time.Time) { t.firstByte = now.Sub(t.begun) })
		},
	}
	return &t.trace
}

// remoteText spells the address that an endpoint's calls go to, which is
// mostly the same for all of them.
type remoteText struct {
	last atomic.Pointer[spelled]
}

type spelled struct {
	addr net.TCPAddr
	text string
}

func (r *remoteText) text(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return addr.String()
	}
	if s := r.last.Load(); s != nil && s.addr.Port == tcp.Port && s.addr.Zone == tcp.Zone && s.addr.IP.Equal(tcp.IP) {
		return s.text
	}
	s := &spelled{*tcp, tcp.String()}
	r.last.Store(s)
	return s.text
}

// phase is how far the call has come.
func (t *tracer) phase() failure.Phase {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.connected {
		return failure.PhaseHeader
	}
	return failure.PhaseConnect
}

func (t *tracer) fill(a *Attempt) {
	t.note(func(now time.Time) {
		a.DNS, a.Connect, a.TLS, a.FirstByte, a.Total = ms(t.dns), ms(t.connect), ms(t.handshake), ms(t.firstByte), ms(now.Sub(t.begun))
		a.RemoteAddr, a.Reused = t.remote, t.reused
	})
}

func ms(d time.Duration) float64 {
	return float64(d.Round(time.Microsecond)) / float64(time.Millisecond)
}
