package model

import (
	"encoding/json"
	"net/http"
)

// messagesVersion is the version of the protocol that is spoken.
const messagesVersion = "2023-06-01"

// messagesMaxTokens is sent where a request names no limit: the protocol wants
// one.
const messagesMaxTokens = 8192

// answerTool is the tool by which structured output is asked for: the model
// must call it, with input by the schema.
const answerTool = "answer"

type messagesTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"input_schema"`
}

type messagesRequest struct {
	Model     string         `json:"model"`
	System    string         `json:"system,omitempty"`
	Messages  []message      `json:"messages"`
	MaxTokens int            `json:"max_tokens"`
	Temp      *float64       `json:"temperature,omitempty"`
	Tools     []messagesTool `json:"tools,omitempty"`
	Choice    any            `json:"tool_choice,omitempty"`
	Stream    bool           `json:"stream,omitempty"`
}

type messagesBlock struct {
	Type  string          `json:"type"`
	Text  string          `json:"text"`
	Input json.RawMessage `json:"input"`
}

type messagesAnswer struct {
	Type    string          `json:"type"`
	Model   string          `json:"model"`
	Content []messagesBlock `json:"content"`
	Stop    string          `json:"stop_reason"`
	Usage   *Usage          `json:"usage"`
	Error   *said           `json:"error"`
}

var messagesWire = wire{
	path: "/messages",
	headers: func(h http.Header, key string) {
		h.Set("Anthropic-Version", messagesVersion)
		if key != "" {
			h.Set("X-Api-Key", key)
		}
	},
	body: func(c *Config, r *Request) any {
		q := messagesRequest{
			Model: r.Model, System: r.System, Messages: []message{{"user", r.Prompt}},
			MaxTokens: r.MaxTokens, Temp: r.Temp, Stream: c.Stream,
		}
		if q.MaxTokens == 0 {
			q.MaxTokens = messagesMaxTokens
		}
		if c.Structured && isObject(r.Schema) {
			q.Tools = []messagesTool{{answerTool, "Give the answer.", r.Schema}}
			q.Choice = map[string]string{"type": "tool", "name": answerTool}
		}
		return q
	},
	whole: func(body []byte) (Answer, error) {
		var got messagesAnswer
		if err := json.Unmarshal(body, &got); err != nil {
			return Answer{}, envelope(err)
		}
		a := Answer{Model: got.Model, Problem: stopProblem(got.Stop)}
		if got.Usage != nil {
			a.Usage = *got.Usage
		}
		if got.Error != nil {
			return a, inStream(got.Error)
		}
		if got.Type != "message" {
			return a, envelope(errNoOutput)
		}
		for _, b := range got.Content {
			if b.Type == "tool_use" {
				a.Text += string(b.Input)
			} else {
				a.Text += b.Text
			}
		}
		return a, nil
	},
	event: messagesEvent,
}

// isObject reports whether a schema is of an object, as the input of a tool
// must be.
func isObject(schema json.RawMessage) bool {
	var s struct {
		Type any `json:"type"`
	}
	return json.Unmarshal(schema, &s) == nil && s.Type == "object"
}

func stopProblem(reason string) string {
	switch reason {
	case "max_tokens", "model_context_window_exceeded":
		return ReasonTruncated
	case "refusal":
		return ReasonRefused
	}
	return ""
}

func messagesEvent(a *partial, e event) (bool, error) {
	var got struct {
		Type    string         `json:"type"`
		Message messagesAnswer `json:"message"`
		Delta   struct {
			Text    string `json:"text"`
			Partial string `json:"partial_json"`
			Stop    string `json:"stop_reason"`
		} `json:"delta"`
		Usage *Usage `json:"usage"`
		Error said   `json:"error"`
	}
	if err := json.Unmarshal([]byte(e.data), &got); err != nil {
		return false, envelope(err)
	}
	switch got.Type {
	case "message_start":
		a.Model = got.Message.Model
		if got.Message.Usage != nil {
			a.Usage = *got.Message.Usage
		}
	case "content_block_delta":
		a.text = append(append(a.text, got.Delta.Text...), got.Delta.Partial...)
	case "message_delta":
		if got.Usage != nil {
			a.Usage.Output = got.Usage.Output
			a.Usage.Input = max(a.Usage.Input, got.Usage.Input)
		}
		if p := stopProblem(got.Delta.Stop); p != "" {
			a.Problem = p
		}
	case "message_stop":
		return true, nil
	case "error":
		return false, inStream(&got.Error)
	}
	return false, nil
}
