package model_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/work/document/model"
	"github.com/ebbhq/ebb/work/document/providertest"
)

const schema = `{"type": "object", "properties": {"total": {"type": "number"}}}`

// ask makes one call of a provider that acts so.
func ask(t *testing.T, c model.Config, r model.Request, act providertest.Act) (model.Answer, providertest.Call, error) {
	t.Helper()
	s := providertest.New(func(providertest.Call) providertest.Act { return act })
	defer s.Close()
	c.BaseURL = s.Base() + "/"
	client, err := model.New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if act.Fault == providertest.Hang {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
	}
	a, err := client.Ask(ctx, r)
	calls := s.Calls()
	if len(calls) != 1 {
		t.Fatalf("%d calls; a call is made once", len(calls))
	}
	return a, calls[0], err
}

// TestAnswers: every protocol, whole and streamed, with and without structured
// output.
func TestAnswers(t *testing.T) {
	const text = `{"total": 12, "note": "a longer answer than one piece of a stream"}`
	for _, protocol := range model.Protocols() {
		for _, stream := range []bool{false, true} {
			for _, structured := range []bool{false, true} {
				c := model.Config{Protocol: protocol, Key: "sk-1", Stream: stream, Structured: structured, Idle: time.Minute}
				r := model.Request{Model: "m-1", Prompt: "What is the total?", MaxTokens: 50, Schema: json.RawMessage(schema), Name: "in voice"}
				got, call, err := ask(t, c, r, providertest.Act{Text: text})
				want := model.Usage{Input: providertest.Tokens(call.Prompt), Output: providertest.Tokens(text)}
				var a, b any
				if err != nil || json.Unmarshal([]byte(got.Text), &a) != nil || json.Unmarshal([]byte(text), &b) != nil || got.Usage != want || got.Model != "m-1" || got.Problem != "" {
					t.Errorf("%s stream=%v structured=%v: %+v, %v", protocol, stream, structured, got, err)
				}
				if call.Key != "sk-1" || call.Stream != stream || call.Schema != structured || call.Prompt != r.Prompt {
					t.Errorf("%s: the provider saw %+v", protocol, call)
				}
				if !strings.HasPrefix(got.ID, "req_") {
					t.Errorf("%s: request id %q", protocol, got.ID)
				}
			}
		}
	}
}

// TestNoWholeAnswer: an answer that a limit or a filter ended says so.
func TestNoWholeAnswer(t *testing.T) {
	for _, protocol := range model.Protocols() {
		for _, stream := range []bool{false, true} {
			for stop, want := range map[string]string{"length": model.ReasonTruncated, "refusal": model.ReasonRefused} {
				got, _, err := ask(t, model.Config{Protocol: protocol, Stream: stream}, model.Request{Model: "m", Prompt: "p"}, providertest.Act{Text: `{"a`, Stop: stop})
				if err != nil || got.Problem != want || got.Usage.Output == 0 {
					t.Errorf("%s stream=%v %s: %+v, %v", protocol, stream, stop, got, err)
				}
			}
		}
	}
}

// TestFailures: what becomes of every way to fail.
func TestFailures(t *testing.T) {
	for _, c := range []struct {
		name   string
		act    providertest.Act
		class  failure.Class
		reason string
		wait   time.Duration
	}{
		{"429", providertest.Act{Status: 429, Header: http.Header{"Retry-After": {"7"}}}, failure.Throttled, model.ReasonRateLimit, 7 * time.Second},
		{"429 in ms", providertest.Act{Status: 429, Header: http.Header{"Retry-After-Ms": {"1500"}}}, failure.Throttled, model.ReasonRateLimit, 1500 * time.Millisecond},
		{"429 of OpenAI", providertest.Act{Status: 429, Header: http.Header{
			"X-Ratelimit-Remaining-Requests": {"12"}, "X-Ratelimit-Reset-Requests": {"9h"},
			"X-Ratelimit-Remaining-Tokens": {"0"}, "X-Ratelimit-Reset-Tokens": {"1m3s"},
		}}, failure.Throttled, model.ReasonRateLimit, 63 * time.Second},
		{"429 of Anthropic", providertest.Act{Status: 429, Header: http.Header{
			"Anthropic-Ratelimit-Output-Tokens-Remaining": {"0"}, "Anthropic-Ratelimit-Output-Tokens-Reset": {"2026-01-01T00:00:42Z"},
		}}, failure.Throttled, model.ReasonRateLimit, 42 * time.Second},
		{"quota", providertest.Act{Status: 429, Kind: "insufficient_quota"}, failure.Throttled, model.ReasonQuota, 0},
		{"500", providertest.Act{Status: 500}, failure.Server, model.ReasonProvider, 0},
		{"503", providertest.Act{Status: 503, Header: http.Header{"Retry-After": {"3"}}}, failure.Server, model.ReasonProvider, 3 * time.Second},
		{"529", providertest.Act{Status: 529, Kind: "overloaded_error"}, failure.Server, model.ReasonOverloaded, 0},
		{"400", providertest.Act{Status: 400}, failure.Rejected, model.ReasonBadRequest, 0},
		{"400 too long", providertest.Act{Status: 400, Kind: "context_length_exceeded"}, failure.Rejected, model.ReasonTooLong, 0},
		{"401", providertest.Act{Status: 401}, failure.Rejected, model.ReasonBadKey, 0},
		{"403", providertest.Act{Status: 403}, failure.Rejected, model.ReasonBadKey, 0},
		{"404", providertest.Act{Status: 404}, failure.Rejected, model.ReasonUnknownModel, 0},
		{"408", providertest.Act{Status: 408}, failure.RequestTimeout, model.ReasonBadRequest, 0},
		{"413", providertest.Act{Status: 413}, failure.Rejected, model.ReasonTooLong, 0},
		{"redirect", providertest.Act{Status: 307, Header: http.Header{"Location": {"http://127.0.0.1:1/"}}}, failure.Redirect, model.ReasonBadRequest, 0},
		{"hang", providertest.Act{Fault: providertest.Hang}, failure.HeaderTimeout, "", 0},
		{"reset", providertest.Act{Fault: providertest.Reset}, failure.Reset, "", 0},
		{"cut off", providertest.Act{Fault: providertest.CutOff}, failure.ShortBody, "", 0},
		{"a page", providertest.Act{Fault: providertest.Page}, failure.SoftError, model.ReasonEnvelope, 0},
	} {
		for _, protocol := range model.Protocols() {
			config := model.Config{Protocol: protocol, Now: func() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }}
			c.act.Message = "no\nmore"
			_, _, err := ask(t, config, model.Request{Model: "m", Prompt: "p"}, c.act)
			f := failure.Classify(err)
			if f.Class != c.class || f.Reason != c.reason || f.RetryAfter != c.wait {
				t.Errorf("%s %s: %s %q after %s (%v)", protocol, c.name, f.Class, f.Reason, f.RetryAfter, err)
			}
			if c.act.Status >= 400 && !strings.Contains(err.Error(), "no more") {
				t.Errorf("%s: %v: does not say what the provider said", c.name, err)
			}
		}
	}
}

// TestStreamFailures: a stream fails after its status.
func TestStreamFailures(t *testing.T) {
	for fault, want := range map[providertest.Fault]struct {
		class  failure.Class
		reason string
	}{
		providertest.CutOff:   {failure.ShortBody, ""},
		providertest.Stall:    {failure.BodyTimeout, model.ReasonStalled},
		providertest.MidError: {failure.Server, model.ReasonOverloaded},
	} {
		for _, protocol := range []model.Protocol{model.Chat, model.Messages} {
			act := providertest.Act{Text: strings.Repeat(`{"a": 1} `, 20), Fault: fault}
			_, _, err := ask(t, model.Config{Protocol: protocol, Stream: true, Idle: 50 * time.Millisecond}, model.Request{Model: "m", Prompt: "p"}, act)
			if f := failure.Classify(err); f.Class != want.class || f.Reason != want.reason {
				t.Errorf("%s %s: %s %q (%v)", protocol, fault, f.Class, f.Reason, err)
			}
		}
	}
}

// TestSlowStream: pieces that keep coming keep the call alive, however long it
// takes in all.
func TestSlowStream(t *testing.T) {
	text := strings.Repeat("a piece. ", 30) // 17 pieces, 10 ms apart
	got, _, err := ask(t, model.Config{Protocol: model.Messages, Stream: true, Idle: 100 * time.Millisecond}, model.Request{Model: "m", Prompt: "p"},
		providertest.Act{Text: text, Pause: 10 * time.Millisecond})
	if err != nil || got.Text != text {
		t.Errorf("%q, %v", got.Text, err)
	}
}

func TestMaxAnswer(t *testing.T) {
	for _, stream := range []bool{false, true} {
		got, _, err := ask(t, model.Config{Protocol: model.Chat, Stream: stream, MaxAnswer: 64}, model.Request{Model: "m", Prompt: "p"}, providertest.Act{Text: strings.Repeat("x", 100)})
		if f := failure.Classify(err); f.Class != failure.InvalidOutput || f.Reason != model.ReasonOutputSize || len(got.Text) != 64 {
			t.Errorf("stream=%v: %d bytes, %v", stream, len(got.Text), err)
		}
	}
}

// TestEndedContext: who stops the call hears its own reason.
func TestEndedContext(t *testing.T) {
	s := providertest.New(func(providertest.Call) providertest.Act { return providertest.Act{Fault: providertest.Hang} })
	defer s.Close()
	client, err := model.New(model.Config{Protocol: model.Chat, BaseURL: s.Base()})
	if err != nil {
		t.Fatal(err)
	}
	why := errors.New("the process is stopping")
	ctx, stop := context.WithCancelCause(t.Context())
	stop(why)
	if _, err := client.Ask(ctx, model.Request{Model: "m"}); !errors.Is(err, why) {
		t.Error(err)
	}
}

func TestNewRefuses(t *testing.T) {
	for _, c := range []model.Config{
		{Protocol: "grpc", BaseURL: "https://x/v1"},
		{Protocol: model.Chat},
		{Protocol: model.Chat, BaseURL: "ftp://x"},
		{Protocol: model.Chat, BaseURL: "https://user:pass@x/v1"},
		{Protocol: model.Chat, BaseURL: "https://x/v1?key=secret"},
	} {
		if _, err := model.New(c); err == nil || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "pass@") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestEstimate(t *testing.T) {
	r := model.Request{System: "1234", Prompt: "12345678", MaxTokens: 100}
	if got := r.Estimate(); got != 3+100+1 {
		t.Error(got)
	}
}
