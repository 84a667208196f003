package providertest

import (
	"encoding/json"
	"fmt"
)

type object = map[string]any

// protocol is the answers of one.
type protocol struct {
	whole  func(c *Call, act *Act) object
	stream func(c *Call, act *Act) []string
}

var protocols = map[string]protocol{
	"/chat/completions": {chatWhole, chatStream},
	"/responses":        {responsesWhole, responsesStream},
	"/messages":         {messagesWhole, messagesStream},
}

// Tokens is what a text counts here: one for four bytes, at least one.
func Tokens(text string) int64 { return max(1, int64(len(text)/4)) }

func text(act *Act) string {
	if act.Text == "" {
		return "{}"
	}
	return act.Text
}

func pieces(t string) []string {
	var all []string
	for len(t) > pieceSize {
		all, t = append(all, t[:pieceSize]), t[pieceSize:]
	}
	return append(all, t)
}

func sent(name string, data any) string {
	b, err := json.Marshal(data)
	if err != nil {
		panic(err)
	}
	if name != "" {
		return fmt.Sprintf("event: %s\ndata: %s\n\n", name, b)
	}
	return fmt.Sprintf("data: %s\n\n", b)
}

func chatStop(act *Act) string {
	switch act.Stop {
	case "length":
		return "length"
	case "refusal":
		return "content_filter"
	}
	return "stop"
}

func chatUsage(c *Call, act *Act) object {
	in, out := Tokens(c.Prompt), Tokens(text(act))
	return object{"prompt_tokens": in, "completion_tokens": out, "total_tokens": in + out}
}

func chatWhole(c *Call, act *Act) object {
	return object{
		"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": c.Model,
		"choices": []object{{"index": 0, "message": object{"role": "assistant", "content": text(act)}, "finish_reason": chatStop(act)}},
		"usage":   chatUsage(c, act),
	}
}

func chatStream(c *Call, act *Act) []string {
	chunk := func(choices []object, usage any) string {
		return sent("", object{"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": c.Model, "choices": choices, "usage": usage})
	}
	all := []string{chunk([]object{{"index": 0, "delta": object{"role": "assistant", "content": ""}, "finish_reason": nil}}, nil)}
	for _, p := range pieces(text(act)) {
		all = append(all, chunk([]object{{"index": 0, "delta": object{"content": p}, "finish_reason": nil}}, nil))
	}
	return append(all,
		chunk([]object{{"index": 0, "delta": object{}, "finish_reason": chatStop(act)}}, nil),
		chunk([]object{}, chatUsage(c, act)),
		"data: [DONE]\n\n")
}

func responsesWhole(c *Call, act *Act) object {
	status, details := "completed", any(nil)
	switch act.Stop {
	case "length":
		status, details = "incomplete", object{"reason": "max_output_tokens"}
	case "refusal":
		status, details = "incomplete", object{"reason": "content_filter"}
	}
	return object{
		"id": "resp_1", "object": "response", "status": status, "model": c.Model, "error": nil, "incomplete_details": details,
		"output": []object{{"type": "reasoning"}, {"type": "message", "role": "assistant", "content": []object{{"type": "output_text", "text": text(act)}}}},
		"usage":  object{"input_tokens": Tokens(c.Prompt), "output_tokens": Tokens(text(act))},
	}
}

func responsesStream(c *Call, act *Act) []string {
	all := []string{sent("response.created", object{"type": "response.created", "response": object{"status": "in_progress"}})}
	for _, p := range pieces(text(act)) {
		all = append(all, sent("response.output_text.delta", object{"type": "response.output_text.delta", "delta": p}))
	}
	name := "response.completed"
	if act.Stop != "" {
		name = "response.incomplete"
	}
	return append(all, sent(name, object{"type": name, "response": responsesWhole(c, act)}))
}

func messagesStop(c *Call, act *Act) string {
	switch {
	case act.Stop == "length":
		return "max_tokens"
	case act.Stop == "refusal":
		return "refusal"
	case c.Schema:
		return "tool_use"
	}
	return "end_turn"
}

// messagesContent is a call of the tool where one was asked for and the text
// can be its input.
func messagesContent(c *Call, act *Act) object {
	if t := text(act); c.Schema && json.Valid([]byte(t)) {
		return object{"type": "tool_use", "id": "toolu_1", "name": "answer", "input": json.RawMessage(t)}
	}
	return object{"type": "text", "text": text(act)}
}

func messagesWhole(c *Call, act *Act) object {
	return object{
		"id": "msg_1", "type": "message", "role": "assistant", "model": c.Model, "content": []object{messagesContent(c, act)},
		"stop_reason": messagesStop(c, act), "usage": object{"input_tokens": Tokens(c.Prompt), "output_tokens": Tokens(text(act))},
	}
}

func messagesStream(c *Call, act *Act) []string {
	begun := object{"id": "msg_1", "type": "message", "role": "assistant", "model": c.Model, "content": []object{}, "usage": object{"input_tokens": Tokens(c.Prompt), "output_tokens": 1}}
	all := []string{
		sent("message_start", object{"type": "message_start", "message": begun}),
		sent("ping", object{"type": "ping"}),
	}
	kind, field := "text_delta", "text"
	if messagesContent(c, act)["type"] == "tool_use" {
		kind, field = "input_json_delta", "partial_json"
	}
	for _, p := range pieces(text(act)) {
		all = append(all, sent("content_block_delta", object{"type": "content_block_delta", "index": 0, "delta": object{"type": kind, field: p}}))
	}
	return append(all,
		sent("message_delta", object{"type": "message_delta", "delta": object{"stop_reason": messagesStop(c, act)}, "usage": object{"output_tokens": Tokens(text(act))}}),
		sent("message_stop", object{"type": "message_stop"}))
}
