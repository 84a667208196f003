package webhook

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

const userAgent = "Ebb-Webhook/1 (+https://www.standardwebhooks.com)"

// The headers of Standard Webhooks, as http.Header has them.
var (
	headerID        = textproto.CanonicalMIMEHeaderKey(standardwebhooks.HeaderWebhookID)
	headerTimestamp = textproto.CanonicalMIMEHeaderKey(standardwebhooks.HeaderWebhookTimestamp)
	headerSignature = textproto.CanonicalMIMEHeaderKey(standardwebhooks.HeaderWebhookSignature)
)

// gzipOnly is what the transport would ask for by itself: as one of the headers
// it costs nothing, there it is a set of headers of its own.
var gzipOnly = []string{"gzip"}

// answer is the body of what a request got, unpacked if it asked for a packed
// one.
func answer(req *http.Request, resp *http.Response) io.Reader {
	if resp.Body == http.NoBody || req.Header["Accept-Encoding"] == nil || !strings.EqualFold(resp.Header.Get("Content-Encoding"), "gzip") {
		return resp.Body
	}
	resp.Header.Del("Content-Encoding")
	resp.Header.Del("Content-Length")
	return &unzipped{from: resp.Body}
}

// unzipped is a packed body, unpacked as it is read.
type unzipped struct {
	from io.Reader
	zip  *gzip.Reader
	err  error
}

func (u *unzipped) Read(p []byte) (int, error) {
	if u.zip == nil && u.err == nil {
		u.zip, u.err = gzip.NewReader(u.from)
	}
	if u.err != nil {
		return 0, u.err
	}
	return u.zip.Read(p)
}

// blank makes what the requests of all attempts to a URL share; it is never
// sent itself.
func blank(url string) (*http.Request, error) {
	return http.NewRequestWithContext(context.Background(), http.MethodPost, url, http.NoBody)
}

// request is that of one attempt.
func (d *destination) request(ctx context.Context, e *envelope, at time.Time, payload []byte) *http.Request {
	req := d.blank.WithContext(ctx)
	req.Header = d.header(e, at, payload)
	if len(payload) > 0 {
		// net/http knows these two, and sends headers and body by one write.
		body := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(payload)), nil }
		req.Body, _ = body()
		req.GetBody = body
		req.ContentLength = int64(len(payload))
	}
	return req
}

// header has the endpoint's own headers and those of Standard Webhooks: the
// same id for every attempt, the attempt's own time, and the signatures.
func (d *destination) header(e *envelope, at time.Time, payload []byte) http.Header {
	seconds := strconv.FormatInt(at.Unix(), 10)
	values := [...]string{e.contentType(), userAgent, e.Event, seconds, signatures(d.signers, e.Event, seconds, at, payload)}
	own := values[:] // one piece of memory for all
	h := make(http.Header, len(own)+1+len(d.headers))
	h["Content-Type"], h["User-Agent"] = own[0:1:1], own[1:2:2]
	for name, value := range d.headers {
		h.Set(name, value)
	}
	if h["Range"] == nil { // of part of an answer nothing can be unpacked
		h["Accept-Encoding"] = gzipOnly
	}
	h[headerID], h[headerTimestamp], h[headerSignature] = own[2:3:3], own[3:4:4], own[4:5:5]
	return h
}
