package model

import (
	"encoding/json"
	"net/http"
	"strings"
)

func bearer(h http.Header, key string) {
	if key != "" {
		h.Set("Authorization", "Bearer "+key)
	}
}

// schemaName is the name of a schema that the protocol accepts.
func schemaName(name string) string {
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, name)
	if clean == "" {
		return "answer"
	}
	return clean[:min(len(clean), 64)]
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

func conversation(r *Request) []message {
	var all []message
	if r.System != "" {
		all = append(all, message{"system", r.System})
	}
	return append(all, message{"user", r.Prompt})
}

type schemaFormat struct {
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"schema"`
	Strict bool            `json:"strict"`
}

type chatRequest struct {
	Model     string    `json:"model"`
	Messages  []message `json:"messages"`
	MaxTokens int       `json:"max_completion_tokens,omitempty"`
	// MaxTokensOld is the name that many compatible servers know alone.
	MaxTokensOld  int            `json:"max_tokens,omitempty"`
	Temp          *float64       `json:"temperature,omitempty"`
	Format        any            `json:"response_format,omitempty"`
	Stream        bool           `json:"stream,omitempty"`
	StreamOptions map[string]any `json:"stream_options,omitempty"`
}

type chatUsage struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
}

type chatChoice struct {
	Message chatText `json:"message"`
	Delta   chatText `json:"delta"`
	Finish  string   `json:"finish_reason"`
}

type chatText struct {
	Content string `json:"content"`
	Refusal string `json:"refusal"`
}

type chatAnswer struct {
	Model   string       `json:"model"`
	Choices []chatChoice `json:"choices"`
	Usage   *chatUsage   `json:"usage"`
	Error   *said        `json:"error"`
}

var chatWire = wire{
	path: "/chat/completions", headers: bearer,
	body: func(c *Config, r *Request) any {
		q := chatRequest{Model: r.Model, Messages: conversation(r), Temp: r.Temp, Stream: c.Stream}
		if strings.HasPrefix(c.BaseURL, "https://api.openai.com/") {
			q.MaxTokens = r.MaxTokens
		} else {
			q.MaxTokensOld = r.MaxTokens
		}
		if c.Structured && len(r.Schema) > 0 {
			q.Format = map[string]any{"type": "json_schema", "json_schema": schemaFormat{schemaName(r.Name), r.Schema, false}}
		}
		if c.Stream {
			q.StreamOptions = map[string]any{"include_usage": true}
		}
		return q
	},
	whole: func(body []byte) (Answer, error) {
		var got chatAnswer
		if err := json.Unmarshal(body, &got); err != nil {
			return Answer{}, envelope(err)
		}
		a := Answer{Model: got.Model}
		if err := got.fold(&a); err != nil {
			return a, err
		}
		if len(got.Choices) == 0 {
			return a, envelope(errNoChoice)
		}
		a.Text = got.Choices[0].Message.Content
		if got.Choices[0].Message.Refusal != "" {
			a.Problem = ReasonRefused
		}
		return a, nil
	},
	event: func(a *partial, e event) (bool, error) {
		if e.data == "[DONE]" {
			return true, nil
		}
		var got chatAnswer
		if err := json.Unmarshal([]byte(e.data), &got); err != nil {
			return false, envelope(err)
		}
		if got.Model != "" {
			a.Model = got.Model
		}
		if len(got.Choices) > 0 {
			a.text = append(a.text, got.Choices[0].Delta.Content...)
			if got.Choices[0].Delta.Refusal != "" {
				a.Problem = ReasonRefused
			}
		}
		return false, got.fold(&a.Answer)
	},
}

// fold takes what whole answers and pieces share.
func (got *chatAnswer) fold(a *Answer) error {
	if got.Usage != nil {
		a.Usage = Usage{got.Usage.Prompt, got.Usage.Completion}
	}
	if got.Error != nil {
		return inStream(got.Error)
	}
	if len(got.Choices) > 0 {
		switch got.Choices[0].Finish {
		case "length":
			a.Problem = ReasonTruncated
		case "content_filter":
			a.Problem = ReasonRefused
		}
	}
	return nil
}

type protocolError string

func (e protocolError) Error() string { return string(e) }

const (
	errNoChoice = protocolError("it has no choices")
	errNoOutput = protocolError("it has no output")
)
