package webhook

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/worker"
)

// deliver is one attempt of one delivery.
func (s *Service) deliver(ctx context.Context, t *worker.Task) error {
	j := t.Job()
	e, payload, err := unpack(t.Args())
	if err != nil {
		return failure.Fatal(failure.New(failure.InvalidInput, "args", fmt.Errorf("webhook: delivery: %s: args: %w", j.ID(), err)))
	}
	if err := s.checkPolicy(j.Policy); err != nil {
		return failure.Park(failure.New(failure.Config, "policy", fmt.Errorf("webhook: delivery: %s: %w", j.ID(), err)))
	}
	to, err := s.cache.destination(ctx, j.Target)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx) // the worker knows what that means
	}
	if err != nil {
		return unready(err)
	}
	a := &Attempt{Start: t.Start(), URL: to.doc.URL}
	err = s.attempt(ctx, a, to, &e, payload)
	if err == nil || counts(ctx, err) {
		s.health.saw(to.doc.ID, err, s.now())
	}
	if err != nil {
		a.fail(err)
		s.log.add(ctx, j.ID(), a)
		return err
	}
	t.SetResult(a.encode())
	return nil
}

// unready is a delivery that could not begin.
func unready(err error) error {
	var sealed *sealError
	switch {
	case errors.Is(err, ErrNotFound):
		return failure.Fatal(failure.New(failure.InvalidInput, "endpoint_removed", err))
	case errors.As(err, &sealed):
		return failure.New(failure.Config, "secret", err)
	}
	return failure.New(failure.LocalIO, "store", err) // the endpoint is not to blame
}

// attempt makes the call and judges the answer. What was seen is in a.
func (s *Service) attempt(ctx context.Context, a *Attempt, to *destination, e *envelope, payload []byte) (err error) {
	trace := newTracer(s.config.Machine)
	defer trace.fill(a)
	var req *http.Request
	var resp *http.Response
	defer func() { // a success is kept with little
		if err != nil {
			a.headers(req, resp, to)
		}
	}()
	if to.wrong != nil {
		return failure.New(failure.InvalidInput, "url", to.wrong)
	}
	req = to.request(httptrace.WithClientTrace(ctx, trace.hooks(to)), e, trace.begun, payload)
	if err := s.config.literal(req.URL.Hostname()); err != nil {
		return failure.New(failure.PolicyDenied, "address", err)
	}
	resp, err = s.call.RoundTrip(req)
	if err != nil {
		if denied(err) {
			return failure.New(failure.PolicyDenied, "address", fmt.Errorf("%w; if that is meant, let it through by allow_networks or ports of the webhook settings", err))
		}
		return broken(trace.phase(), err)
	}
	defer func() { _ = resp.Body.Close() }()
	a.Status, a.Proto = resp.StatusCode, resp.Proto
	if resp.StatusCode >= http.StatusOK { // what follows a 101 is no answer
		err = s.read(a, answer(req, resp), to)
	}
	if f, failed := failure.Response(resp, s.config.Machine.Now()); failed {
		return &failure.Error{Failure: judge(f)}
	}
	if resp.StatusCode < http.StatusOK { // the endpoint wants to talk about something else
		f := failure.Of(failure.Rejected)
		f.Status, f.Err = resp.StatusCode, fmt.Errorf("http status %d", resp.StatusCode)
		return &failure.Error{Failure: f}
	}
	if err != nil && !garbled(err) {
		return broken(failure.PhaseBody, err)
	}
	return nil
}

// broken is a call that failed on its way. What nobody knows better is an
// answer against the protocol: the endpoint's fault, as a hang-up is.
func broken(phase failure.Phase, err error) error {
	err = failure.During(phase, err)
	if failure.Classify(err).Class == failure.Plain {
		return failure.New(failure.Reset, "protocol", err)
	}
	return err
}

// garbled reports whether the answer came whole and could not be unpacked: the
// status has decided, and nobody needs the text.
func garbled(err error) bool {
	var corrupt flate.CorruptInputError
	return errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) || errors.As(err, &corrupt)
}

// judge keeps a Retry-After only of the answers that mean "later".
func judge(f failure.Failure) failure.Failure {
	if f.Status != http.StatusTooManyRequests && f.Status != http.StatusServiceUnavailable {
		f.RetryAfter, f.RetryAfterIgnored = 0, ""
	}
	return f
}

// read takes in the answer up to its limits: an excerpt to keep, the rest so
// that the connection can be used again. The body is decompressed already.
// What is over the limit is not waited for: the status has decided.
func (s *Service) read(a *Attempt, body io.Reader, to *destination) error {
	if body == http.NoBody {
		return nil
	}
	var excerpt bytes.Buffer
	limited := io.LimitReader(body, s.config.MaxResponse)
	n, err := io.Copy(&excerpt, io.LimitReader(limited, int64(s.config.Excerpt+to.longest)))
	if err == nil {
		var rest int64
		rest, err = io.Copy(io.Discard, limited)
		n += rest
	}
	a.Size, a.Excerpt = n, to.excerpt(excerpt.String(), s.config.Excerpt)
	if err == nil && n == s.config.MaxResponse {
		var one [1]byte
		more, _ := body.Read(one[:])
		a.Truncated = more > 0
	}
	return err
}
