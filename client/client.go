// Package client is engine's interface over HTTP: what can be asked of a
// database can be asked of a server that runs on one, with the same answers
// and the same errors.
package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/internal/oneshot"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
)

// Client asks a server. Make one with New; it is safe for use by several
// goroutines.
type Client struct {
	base   string
	token  string
	http   *http.Client
	policy *policy.Policy
}

var _ engine.Ops = (*Client)(nil)

// Option changes how a client asks.
type Option func(*Client)

// WithHTTPClient asks through a copy of another client than one with a timeout
// of 30 s. The copy sends each request once: retries are the policy's.
func WithHTTPClient(h *http.Client) Option { return func(c *Client) { c.http = h } }

// WithPolicy retries under another policy. Requests that change something have
// an idempotency key, so that all of them may be made again.
func WithPolicy(p policy.Policy) Option { return func(c *Client) { c.policy = &p } }

// patience is how a client waits for its server: three retries within about
// three seconds, for a person who waits too.
var patience = policy.Policy{
	Attempts: 4,
	Backoff: policy.Backoff{
		Base: 200 * time.Millisecond, Factor: 3, Cap: 2 * time.Second,
		Jitter: policy.Jitter{Kind: policy.JitterEqual},
	},
}

// New returns a client of the server at baseURL, such as
// http://127.0.0.1:7070, that shows the token. It does not connect yet.
func New(baseURL, token string, opts ...Option) (*Client, error) {
	u, err := url.Parse(baseURL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("client: %q: want the address of a server, such as http://127.0.0.1:7070", baseURL)
	}
	c := &Client{
		base: strings.TrimSuffix(baseURL, "/"), token: token, policy: &patience,
		http: &http.Client{
			Timeout: 30 * time.Second,
			// A token goes nowhere but to its server.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	for _, o := range opts {
		o(c)
	}
	own := *c.http
	own.Transport = oneshot.New(own.Transport) // the policy alone decides on another request
	c.http = &own
	return c, nil
}

// answer is what came back.
type answer struct {
	status int
	body   []byte
}

// maxAnswer bounds what is read of an answer: a page of 1,000 jobs with args
// of up to 64 KiB each.
const maxAnswer = 64 << 20

// ask makes a request, again if need be, and reads the answer into out.
func (c *Client) ask(ctx context.Context, method, path string, query url.Values, in, out any) error {
	var body []byte
	if in != nil {
		var buffer bytes.Buffer
		e := json.NewEncoder(&buffer)
		e.SetEscapeHTML(false) // payloads stand as they were given
		if err := e.Encode(in); err != nil {
			return invalid(fmt.Sprintf("client: %v", err))
		}
		body = buffer.Bytes()
	}
	target := c.base + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	key := ""
	if method == http.MethodPost {
		key = rand.Text()
	}
	got, err := retry.Do(ctx, c.policy, func(ctx context.Context) (answer, error) { return c.try(ctx, method, target, key, body) })
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("client: %s: %w", c.base, cause(err))
	}
	if got.status >= http.StatusBadRequest {
		return problemOf(got)
	}
	if out == nil || got.status == http.StatusNoContent {
		return nil
	}
	if err := json.Unmarshal(got.body, out); err != nil {
		return fmt.Errorf("client: %s: the answer is not as expected: %w", c.base, err)
	}
	return nil
}

// try makes one request. Its error is worth a retry; a refusal is an answer.
func (c *Client) try(ctx context.Context, method, target, key string, body []byte) (answer, error) {
	r, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return answer{}, failure.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+c.token)
	r.Header.Set("Accept", "application/json")
	if len(body) > 0 {
		r.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	response, err := c.http.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = response.Body.Close() }() // all of it was read, or is not wanted
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return answer{}, err
	case len(text) > maxAnswer:
		return answer{}, failure.Fatal(fmt.Errorf("the answer is larger than %d bytes; ask for less", maxAnswer))
	case response.StatusCode >= 300 && response.StatusCode < 400:
		return answer{}, failure.Fatal(fmt.Errorf("it answered %s: is that an Ebb server?", response.Status))
	}
	got := answer{response.StatusCode, text}
	if p := parse(got); response.StatusCode >= 500 || response.StatusCode == http.StatusTooManyRequests || p.Code == "under_way" {
		f, _ := failure.Response(response, time.Now())
		if p.Code == "under_way" {
			f = failure.Of(failure.Unavailable)
		}
		f.Err = errors.New(p.text(got))
		return answer{}, &failure.Error{Failure: f}
	}
	return got, nil
}

// cause is what the last try said.
func cause(err error) error {
	var named *failure.Error
	if errors.As(err, &named) && named.Failure.Err != nil {
		return named.Failure.Err
	}
	var ended *retry.Error
	if errors.As(err, &ended) && ended.Failure.Err != nil {
		return ended.Failure.Err
	}
	return err
}
