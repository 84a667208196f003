package model

import (
	"encoding/json"
)

type responsesRequest struct {
	Model        string    `json:"model"`
	Instructions string    `json:"instructions,omitempty"`
	Input        []message `json:"input"`
	MaxTokens    int       `json:"max_output_tokens,omitempty"`
	Temp         *float64  `json:"temperature,omitempty"`
	Text         any       `json:"text,omitempty"`
	Stream       bool      `json:"stream,omitempty"`
	Store        bool      `json:"store"` // documents are not left with the provider
}

type responsesAnswer struct {
	Model  string `json:"model"`
	Status string `json:"status"`
	Output []struct {
		Type    string `json:"type"`
		Content []struct {
			Type    string `json:"type"`
			Text    string `json:"text"`
			Refusal string `json:"refusal"`
		} `json:"content"`
	} `json:"output"`
	Incomplete *struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
	Usage *Usage `json:"usage"`
	Error *said  `json:"error"`
}

var responsesWire = wire{
	path: "/responses", headers: bearer,
	body: func(c *Config, r *Request) any {
		q := responsesRequest{
			Model: r.Model, Instructions: r.System, Input: []message{{"user", r.Prompt}},
			MaxTokens: r.MaxTokens, Temp: r.Temp, Stream: c.Stream,
		}
		if c.Structured && len(r.Schema) > 0 {
			q.Text = map[string]any{"format": map[string]any{"type": "json_schema", "name": schemaName(r.Name), "schema": r.Schema, "strict": false}}
		}
		return q
	},
	whole: func(body []byte) (Answer, error) {
		var got responsesAnswer
		if err := json.Unmarshal(body, &got); err != nil {
			return Answer{}, envelope(err)
		}
		return got.answer()
	},
	event: func(a *partial, e event) (bool, error) {
		var got struct {
			Type     string          `json:"type"`
			Delta    string          `json:"delta"`
			Response responsesAnswer `json:"response"`
			said
		}
		if err := json.Unmarshal([]byte(e.data), &got); err != nil {
			return false, envelope(err)
		}
		switch got.Type {
		case "response.output_text.delta":
			a.text = append(a.text, got.Delta...)
		case "response.completed", "response.incomplete", "response.failed":
			whole, err := got.Response.answer()
			a.Answer = whole
			return true, err
		case "error":
			return false, inStream(&got.said)
		}
		return false, nil
	},
}

func (got *responsesAnswer) answer() (Answer, error) {
	a := Answer{Model: got.Model}
	if got.Usage != nil {
		a.Usage = *got.Usage
	}
	if got.Error != nil {
		return a, inStream(got.Error)
	}
	if got.Status == "" {
		return a, envelope(errNoOutput)
	}
	for _, item := range got.Output {
		for _, part := range item.Content {
			if a.Text += part.Text; part.Refusal != "" {
				a.Problem = ReasonRefused
			}
		}
	}
	if got.Incomplete != nil {
		switch got.Incomplete.Reason {
		case "content_filter":
			a.Problem = ReasonRefused
		default:
			a.Problem = ReasonTruncated
		}
	}
	return a, nil
}
