package model

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/ebbhq/ebb/failure"
)

// maxEnvelope bounds an answer's protocol around its text.
const maxEnvelope = 1 << 20

// errStalled is the cause of a stream that was given up.
var errStalled = errors.New("nothing came for the idle time")

// call makes one HTTP request.
func (c *Client) call(ctx context.Context, body []byte) (Answer, error) {
	var phase atomic.Int32
	phase.Store(int32(failure.PhaseConnect))
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) { phase.Store(int32(failure.PhaseHeader)) },
	})
	req, err := http.NewRequestWithContext(traced, http.MethodPost, c.config.BaseURL+c.wire.path, bytes.NewReader(body))
	if err != nil {
		return Answer{}, fmt.Errorf("model: request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "ebb")
	if c.config.Stream {
		req.Header.Set("Accept", "text/event-stream")
	}
	c.wire.headers(req.Header, c.config.Key)
	resp, err := c.config.HTTP.Do(req)
	if err != nil {
		return Answer{}, broken(ctx, failure.Phase(phase.Load()), err)
	}
	defer func() { _ = resp.Body.Close() }() // what is not read is not wanted
	id := requestID(resp.Header)
	if resp.StatusCode != http.StatusOK {
		return Answer{ID: id}, c.refused(ctx, resp)
	}
	var a Answer
	if c.config.Stream && isStream(resp.Header) {
		a, err = c.stream(ctx, stop, resp.Body)
	} else {
		a, err = c.whole(ctx, resp.Body)
	}
	a.ID = id
	return a, err
}

func isStream(h http.Header) bool {
	kind, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	return kind == "text/event-stream"
}

func requestID(h http.Header) string {
	for _, name := range []string{"X-Request-Id", "Request-Id"} {
		if id := h.Get(name); id != "" {
			return id[:min(len(id), 128)]
		}
	}
	return ""
}

// broken classifies a call that had no answer. The context's own end has the
// first word: a cancelled call breaks in any way.
func broken(ctx context.Context, phase failure.Phase, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		if errors.Is(cause, errStalled) {
			return failure.New(failure.BodyTimeout, ReasonStalled, cause)
		}
		if errors.Is(cause, context.DeadlineExceeded) {
			return failure.During(phase, fmt.Errorf("model: %w", cause))
		}
		return fmt.Errorf("model: %w", cause)
	}
	return failure.During(phase, fmt.Errorf("model: %w", err))
}

// whole reads an answer that comes at once.
func (c *Client) whole(ctx context.Context, from io.Reader) (Answer, error) {
	most := int64(6*c.config.MaxAnswer + maxEnvelope) // \u00xx is six bytes for one
	body, err := io.ReadAll(io.LimitReader(from, most+1))
	switch {
	case err != nil:
		return Answer{}, broken(ctx, failure.PhaseBody, err)
	case int64(len(body)) > most:
		return Answer{}, failure.New(failure.InvalidOutput, ReasonOutputSize, fmt.Errorf("the answer is larger than %d bytes", most))
	case !json.Valid(body):
		// A page of a proxy, or a body that broke off where nobody counts.
		return Answer{}, failure.New(failure.SoftError, ReasonEnvelope, errors.New("the provider answered 200 without its protocol's JSON"))
	}
	a, err := c.wire.whole(body)
	if err == nil {
		err = c.fits(&a)
	}
	return a, err
}

func (c *Client) fits(a *Answer) error {
	if len(a.Text) > c.config.MaxAnswer {
		size := len(a.Text)
		a.Text = a.Text[:c.config.MaxAnswer]
		return failure.New(failure.InvalidOutput, ReasonOutputSize, fmt.Errorf("the answer has %d bytes or more; the limit is %d", size, c.config.MaxAnswer))
	}
	return nil
}

// stream reads an answer piece by piece.
func (c *Client) stream(ctx context.Context, stop context.CancelCauseFunc, from io.Reader) (Answer, error) {
	if c.config.Idle > 0 {
		watch := time.AfterFunc(c.config.Idle, func() { stop(errStalled) })
		defer watch.Stop()
		from = &watched{from, watch, c.config.Idle}
	}
	var p partial
	events := newEvents(from)
	for {
		e, err := events.next()
		switch {
		case errors.Is(err, io.EOF):
			return p.Answer, failure.New(failure.ShortBody, "", errors.New("the stream ended before the answer did"))
		case err != nil:
			return p.Answer, broken(ctx, failure.PhaseBody, err)
		}
		done, err := c.wire.event(&p, e)
		if err != nil {
			return p.Answer, err
		}
		if done || len(p.text) > c.config.MaxAnswer {
			if p.Text == "" {
				p.Text = string(p.text)
			}
			return p.Answer, c.fits(&p.Answer)
		}
	}
}

// watched sets its watch anew with every piece.
type watched struct {
	io.Reader
	watch *time.Timer
	idle  time.Duration
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if n > 0 {
		w.watch.Reset(w.idle)
	}
	return n, err
}

// envelope is an answer's JSON that is not as the protocol says.
func envelope(err error) error {
	return failure.New(failure.SoftError, ReasonEnvelope, fmt.Errorf("the answer is not in the protocol: %w", err))
}
