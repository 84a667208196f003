package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"os"
	"strings"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/work/fetch/scope"
)

// maxRedirects is how many redirects are followed for one page.
const maxRedirects = 10

// drainMost is how much of an answer that nobody wants is read, so that the
// connection can be used again.
const drainMost = 256 << 10

// transport makes connections: as many stay open for a host as are used.
func transport(slots int) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // the standard library's own
	t.MaxIdleConns = max(100, 2*slots)
	t.MaxIdleConnsPerHost = max(2, slots)
	t.IdleConnTimeout = 30 * time.Second
	t.DisableCompression = true // bodies are decoded here, within limits
	t.ReadBufferSize, t.WriteBufferSize = 16<<10, 2<<10
	return t
}

// Exchange is one request with its answer, as archives keep it.
type Exchange struct {
	URL        string
	At         time.Time // policy time of the request
	Took       time.Duration
	Remote     string // address
	Request    *http.Request
	Response   *http.Response // without its body
	Body       *Content
	Truncated  bool // not all of it was read
	Profitless bool // a redirect or failure: nothing but the archive keeps it
}

// Content is a body as it came over the wire.
type Content struct{ s *spool }

// Size is in bytes.
func (c *Content) Size() int64 { return c.s.size }

// Reader reads it from its beginning.
func (c *Content) Reader() io.ReadSeeker { return c.s.reader() }

// answer is what a page's last exchange brought.
type answer struct {
	final    string
	resp     *http.Response
	raw      *spool
	hops     []Exchange
	body     *spool // decoded; raw itself where nothing is encoded
	receivAt time.Time
}

func (a *answer) drop() {
	for i := range a.hops {
		a.hops[i].Body.s.drop()
	}
	if a.body != nil && a.body != a.raw {
		a.body.drop()
	}
}

// exchange asks for a page and follows redirects. An answer comes with an
// error where there was one that is no page.
func (r *Runner) exchange(ctx context.Context, url string, header http.Header, part *part) (*answer, error) {
	a := &answer{final: url}
	for hop := 0; ; hop++ {
		resp, err := r.request(ctx, a, header, part) //nolint:bodyclose // it is read and closed there
		if err != nil {
			return a, err
		}
		next := resp.Header.Get("Location")
		if resp.StatusCode < 300 || resp.StatusCode >= 400 || resp.StatusCode == http.StatusNotModified || next == "" {
			return a, nil
		}
		a.hops[len(a.hops)-1].Profitless = true
		if hop == maxRedirects {
			return a, failure.Fatal(failure.New(failure.Redirect, "too_many", fmt.Errorf("more than %d redirects, the last to %s", maxRedirects, next)))
		}
		to, err := scope.Resolve(a.final, next)
		if err != nil {
			return a, failure.Fatal(failure.New(failure.Redirect, "bad_location", fmt.Errorf("redirect to %q: %w", next, err)))
		}
		if r.o.Follow != nil && !r.o.Follow.Ask(to).In {
			return a, failure.Fatal(failure.New(failure.Redirect, "out_of_scope", fmt.Errorf("redirect to %s, which is out of scope; --include %s takes it in", to, scope.Host(to))))
		}
		if _, err := r.rules.allows(ctx, to); err != nil {
			return a, err
		}
		a.final, header, part = to, r.o.Header, nil
	}
}

// request makes one request and reads its answer whole.
func (r *Runner) request(ctx context.Context, a *answer, header http.Header, part *part) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.final, nil)
	if err != nil {
		return nil, failure.Fatal(failure.New(failure.InvalidInput, "url", err))
	}
	maps.Copy(req.Header, header)
	req.Header.Set("User-Agent", r.o.Agent)
	if req.Header.Get("Accept-Encoding") == "" {
		req.Header.Set("Accept-Encoding", "gzip")
	}
	if part != nil {
		part.ask(req.Header)
	}
	began := r.o.clock().Now()
	resp, remote, err := r.send(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // what counts was read
	a.resp, a.raw = resp, &spool{temp: r.o.Sink.Temp}
	if part != nil && resp.StatusCode == http.StatusPartialContent {
		if err := part.resume(resp, a.raw); err != nil {
			return nil, err
		}
	}
	err = r.readBody(resp, a.raw, part)
	a.receivAt = r.o.clock().Now()
	a.hops = append(a.hops, Exchange{
		URL: a.final, At: began, Took: a.receivAt.Sub(began), Remote: remote, Request: req, Response: resp,
		Body: &Content{a.raw}, Truncated: err != nil,
	})
	return resp, err
}

// send sends a request and returns the beginning of its answer, and whose it
// is. An error says how far it came.
func (r *Runner) send(req *http.Request) (resp *http.Response, remote string, err error) {
	connected := false
	ctx := httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) {
		connected = true
		if at := c.Conn.RemoteAddr(); at != nil {
			remote = at.String()
		}
	}})
	resp, err = r.o.Transport.RoundTrip(req.WithContext(ctx))
	if err != nil {
		phase := failure.PhaseHeader
		if !connected {
			phase = failure.PhaseConnect
		}
		return nil, "", failure.During(phase, err)
	}
	return resp, remote, nil
}

// readBody takes the body in, as far as the limit allows. What is no page is
// read only as far as it is cheap.
func (r *Runner) readBody(resp *http.Response, to *spool, part *part) error {
	most := r.o.MaxBody
	if resp.StatusCode >= 300 {
		most = drainMost
	}
	n, err := io.Copy(spoolWriter{to}, io.LimitReader(resp.Body, most-to.size+1))
	var local *localError
	switch {
	case errors.As(err, &local):
		return local.err
	case err != nil && resp.StatusCode < 300:
		part.keep(resp, to)
		return failure.During(failure.PhaseBody, err)
	case to.size > most && resp.StatusCode < 300:
		return failure.Fatal(failure.New(failure.TooLarge, "body", fmt.Errorf("more than %d bytes", r.o.MaxBody)))
	case resp.ContentLength >= 0 && n < resp.ContentLength && resp.StatusCode < 300:
		part.keep(resp, to)
		return failure.New(failure.ShortBody, "", io.ErrUnexpectedEOF)
	}
	return nil
}

// spoolWriter marks errors of our own disk, so that nobody takes them for the
// connection's.
type spoolWriter struct{ *spool }

type localError struct{ err error }

func (e *localError) Error() string { return e.err.Error() }
func (e *localError) Unwrap() error { return e.err }

func (w spoolWriter) Write(p []byte) (int, error) {
	n, err := w.spool.Write(p)
	if err != nil {
		err = &localError{ours("spool", err)}
	}
	return n, err
}

// ours marks an error of our own machine, whatever its number says.
func ours(reason string, err error) error {
	if err == nil {
		return nil
	}
	f := failure.Classify(err)
	if f.Class == failure.DiskFull {
		return failure.New(failure.DiskFull, reason, err)
	}
	var path *os.PathError
	if errors.As(err, &path) && strings.Contains(err.Error(), "file name too long") {
		return failure.Fatal(failure.New(failure.InvalidInput, reason, err))
	}
	return failure.New(failure.LocalIO, reason, err)
}
