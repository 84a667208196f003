// Package model asks language models over their HTTP protocols: OpenAI's chat
// completions and responses, which local servers speak too, and Anthropic's
// messages. A call is made once: whether and when it is made again is decided
// by the job's policy, so there is no retry in here to switch off.
//
// Every error is a failure.Error with a class and a reason of the closed set
// below; what a provider says of its limits becomes the failure's RetryAfter.
package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/ebbhq/ebb/internal/oneshot"
)

// Protocol is how a provider is spoken to.
type Protocol string

const (
	Chat      Protocol = "openai"           // POST BASE/chat/completions
	Responses Protocol = "openai-responses" // POST BASE/responses
	Messages  Protocol = "anthropic"        // POST BASE/messages
)

// Protocols lists them all.
func Protocols() []Protocol { return []Protocol{Chat, Responses, Messages} }

// Reasons that failures of a provider have, besides a class. Class rules match
// by them.
const (
	ReasonBadKey       = "bad_key"            // 401, 403
	ReasonUnknownModel = "unknown_model"      // 404, or a code that says so
	ReasonTooLong      = "too_long"           // the prompt does not fit the model
	ReasonBadRequest   = "bad_request"        // any other 4xx
	ReasonQuota        = "insufficient_quota" // 429 that more waiting may not mend
	ReasonRateLimit    = "rate_limit"         // any other 429
	ReasonOverloaded   = "overloaded"         // 529, or an error in a stream that says so
	ReasonProvider     = "provider"           // any other 5xx
	ReasonEnvelope     = "envelope"           // 200, but not in the protocol
	ReasonStalled      = "stalled"            // nothing came for the idle time
	ReasonTruncated    = "truncated"          // the answer reached the most tokens
	ReasonRefused      = "refused"            // the model or a filter declined
	ReasonEmptyAnswer  = "empty_answer"       // the answer holds no text
	ReasonOutputSize   = "output_too_large"   // the answer is beyond MaxAnswer
)

// Config is one provider. BaseURL and Protocol are required.
type Config struct {
	Protocol Protocol
	// BaseURL is what the protocol's path is appended to, such as
	// https://api.openai.com/v1.
	BaseURL string
	// Key is sent as the protocol says; empty = none is.
	Key string
	// Stream asks for the answer piece by piece: a slow one is told from a dead
	// one by Idle.
	Stream bool
	// Idle is the longest time without a byte of the answer while streaming;
	// 0 = the context's end alone.
	Idle time.Duration
	// Structured asks for output by the schema, where the request has one.
	Structured bool
	// MaxAnswer is the most bytes of an answer's text. Default 1 MiB.
	MaxAnswer int
	// HTTP makes the calls; a copy of it that follows no redirect and sends
	// each request once, so that a key goes nowhere else and a call is one
	// request. Default: a client of its own.
	HTTP *http.Client
	// Now is the time that reset headers are measured from. Default: the
	// machine's.
	Now func() time.Time
}

// DefaultMaxAnswer is the most bytes of an answer's text unless Config says
// otherwise.
const DefaultMaxAnswer = 1 << 20

// Request is one question.
type Request struct {
	Model     string
	System    string // instructions before the prompt; empty = none
	Prompt    string
	MaxTokens int      // of the answer; 0 = the provider's own limit where there is one
	Temp      *float64 // nil = the provider's own
	// Schema is the JSON Schema of the answer, Name its name; used where
	// structured output is on.
	Schema json.RawMessage
	Name   string
}

// Usage is what a call cost in tokens, as the provider counts.
type Usage struct {
	Input  int64 `json:"input_tokens"`
	Output int64 `json:"output_tokens"`
}

// Answer is what a model said. Text is as it came.
type Answer struct {
	Text    string
	Usage   Usage
	Model   string // as the provider names it
	ID      string // of the request, for the provider's support
	Problem string // a reason why Text is no whole answer; empty = it is
}

// Client asks one provider. It is safe for use by several goroutines.
type Client struct {
	config Config
	wire   wire
}

// wire is one protocol.
type wire struct {
	path    string
	headers func(h http.Header, key string)
	body    func(c *Config, r *Request) any
	whole   func(body []byte) (Answer, error)
	// event folds one event of a stream into the answer.
	event func(a *partial, e event) (done bool, err error)
}

// partial is an answer whose text is still coming.
type partial struct {
	Answer
	text []byte
}

var wires = map[Protocol]wire{Chat: chatWire, Responses: responsesWire, Messages: messagesWire}

// New returns a client of the provider.
func New(c Config) (*Client, error) {
	w, ok := wires[c.Protocol]
	if !ok {
		return nil, fmt.Errorf("model: protocol %q: must be one of %v", c.Protocol, Protocols())
	}
	u, err := url.Parse(c.BaseURL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" {
		return nil, errors.New("model: base_url: must be an address such as https://api.openai.com/v1, without a password or query")
	}
	c.BaseURL = strings.TrimSuffix(c.BaseURL, "/")
	if c.MaxAnswer <= 0 {
		c.MaxAnswer = DefaultMaxAnswer
	}
	c.HTTP = caller(c.HTTP)
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Client{config: c, wire: w}, nil
}

// caller is the client that makes one request of one call.
func caller(from *http.Client) *http.Client {
	var own http.Client
	if from != nil {
		own = *from
	} else {
		t := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // the standard library's own
		t.MaxIdleConnsPerHost = 128
		t.DisableCompression = true // an answer's size is what is read
		own.Transport = t
	}
	own.Transport = oneshot.New(own.Transport)
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &own
}

// Ask makes one call. With an error of a call that a provider began to answer,
// the answer's Usage tells what is known of its cost.
func (c *Client) Ask(ctx context.Context, r Request) (Answer, error) {
	body, err := json.Marshal(c.wire.body(&c.config, &r))
	if err != nil {
		return Answer{}, fmt.Errorf("model: request: %w", err)
	}
	a, err := c.call(ctx, body)
	if err == nil && a.Text == "" && a.Problem == "" {
		a.Problem = ReasonEmptyAnswer
	}
	return a, err
}

// Estimate is about how many tokens a request will be counted as, before it is
// made: four bytes a token, and the whole answer that it allows.
func (r *Request) Estimate() int64 {
	const bytesAToken = 4
	return int64(len(r.System)+len(r.Prompt)+len(r.Schema))/bytesAToken + int64(r.MaxTokens) + 1
}
