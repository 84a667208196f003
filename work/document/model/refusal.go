package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/ebbhq/ebb/failure"
)

// said is what a provider says of an error: the protocols agree so far.
type said struct {
	Type    string `json:"type"`
	Code    any    `json:"code"` // a word, a number or null
	Message string `json:"message"`
}

func (s *said) code() string {
	word, _ := s.Code.(string)
	return word
}

// maxSaid is the most that is kept of what a provider says.
const maxSaid = 500

func (s *said) text() string {
	text := strings.Join(strings.Fields(s.Message), " ")
	if len(text) > maxSaid {
		text = strings.ToValidUTF8(text[:maxSaid], "") + "…"
	}
	return text
}

// refused is the failure of an answer whose status is not 200.
func (c *Client) refused(ctx context.Context, resp *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil && resp.StatusCode < 300 {
		return broken(ctx, failure.PhaseBody, err)
	}
	var s struct{ Error said }
	_ = json.Unmarshal(body, &s) // a proxy's page says nothing
	now := c.config.Now()
	f, ok := failure.Response(resp, now)
	if !ok { // a 1xx or 2xx that is not 200
		return failure.New(failure.SoftError, ReasonEnvelope, fmt.Errorf("http status %d", resp.StatusCode))
	}
	f.Reason = reasonOf(resp.StatusCode, &s.Error)
	if f.Class == failure.Throttled || f.Class == failure.Server {
		f.RetryAfter = max(f.RetryAfter, asked(resp.Header, now))
	}
	if text := s.Error.text(); text != "" {
		f.Err = fmt.Errorf("http status %d: %s", resp.StatusCode, text)
	}
	return &failure.Error{Failure: f}
}

func reasonOf(status int, s *said) string {
	word := s.code() + " " + s.Type
	switch {
	case strings.Contains(word, "insufficient_quota") || strings.Contains(word, "billing"):
		return ReasonQuota
	case status == http.StatusTooManyRequests:
		return ReasonRateLimit
	case status == 529 || status >= 500 && strings.Contains(word, "overloaded"):
		return ReasonOverloaded
	case status >= 500:
		return ReasonProvider
	case strings.Contains(word, "model_not_found"), status == http.StatusNotFound:
		return ReasonUnknownModel
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return ReasonBadKey
	case strings.Contains(word, "context_length_exceeded"), strings.Contains(word, "string_above_max_length"),
		status == http.StatusRequestEntityTooLarge, strings.Contains(s.Message, "prompt is too long"):
		return ReasonTooLong
	}
	return ReasonBadRequest
}

// inStream is the failure of an error that comes after the status.
func inStream(s *said) error {
	word := s.code() + " " + s.Type
	class, reason := failure.Server, ReasonProvider
	switch {
	case strings.Contains(word, "insufficient_quota"):
		class, reason = failure.Throttled, ReasonQuota
	case strings.Contains(word, "rate_limit"):
		class, reason = failure.Throttled, ReasonRateLimit
	case strings.Contains(word, "overloaded"):
		reason = ReasonOverloaded
	case strings.Contains(word, "authentication"), strings.Contains(word, "permission"):
		class, reason = failure.Rejected, ReasonBadKey
	case strings.Contains(word, "not_found"):
		class, reason = failure.Rejected, ReasonUnknownModel
	case strings.Contains(word, "invalid_request"), strings.Contains(word, "invalid_prompt"):
		class, reason = failure.Rejected, ReasonBadRequest
	}
	text := s.text()
	if text == "" {
		text = "the provider says no more"
	}
	return failure.New(class, reason, errors.New(text))
}

// asked reads what providers say of their limits besides Retry-After: the wait
// in milliseconds, and when a limit that is used up comes back. A limit with
// something left is no reason to wait.
func asked(h http.Header, now time.Time) time.Duration {
	wait := time.Duration(0)
	if ms, err := time.ParseDuration(strings.TrimSpace(h.Get("Retry-After-Ms")) + "ms"); err == nil {
		wait = max(wait, ms)
	}
	for _, prefix := range []string{"X-Ratelimit-", "Anthropic-Ratelimit-"} {
		for _, of := range []string{"Requests", "Tokens", "Input-Tokens", "Output-Tokens"} {
			left, reset := prefix+"Remaining-"+of, prefix+"Reset-"+of
			if strings.HasPrefix(prefix, "Anthropic") {
				left, reset = prefix+of+"-Remaining", prefix+of+"-Reset"
			}
			if rest := strings.TrimSpace(h.Get(left)); rest != "" && strings.Trim(rest, "0") != "" {
				continue
			}
			wait = max(wait, untilReset(strings.TrimSpace(h.Get(reset)), now))
		}
	}
	return wait
}

// untilReset reads a span such as 6m0s or 200ms, seconds, or an instant.
func untilReset(value string, now time.Time) time.Duration {
	if value == "" {
		return 0
	}
	if at, err := time.Parse(time.RFC3339, value); err == nil {
		return max(0, at.Sub(now))
	}
	if d, err := time.ParseDuration(value); err == nil {
		return max(0, d)
	}
	if d, err := time.ParseDuration(value + "s"); err == nil {
		return max(0, d)
	}
	return 0
}
