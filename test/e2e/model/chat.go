package model

import (
	"encoding/json"
	"io"
)

// readChat reads a request of the chat completions API.
func readChat(body []byte) (turn, error) {
	var in struct {
		Model    string `json:"model"`
		Stream   bool   `json:"stream"`
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
		Tools []struct {
			Function struct {
				Name string `json:"name"`
			} `json:"function"`
		} `json:"tools"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return turn{}, err
	}
	t := turn{model: in.Model, stream: in.Stream}
	for _, tl := range in.Tools {
		t.tools = append(t.tools, tool{name: tl.Function.Name})
	}
	for _, m := range in.Messages {
		if m.Role == "tool" {
			t.results = append(t.results, Result{Text: flatten(m.Content)})
			continue
		}
		t.prompt += "\n" + flatten(m.Content)
	}
	return t, nil
}

// writeChat writes a completion, whole or as chunks.
func writeChat(w *stream, t turn, r reply) {
	msg, finish := obj{"role": "assistant", "content": r.text}, "stop"
	if c := r.call; c != nil {
		finish = "tool_calls"
		msg = obj{"role": "assistant", "content": nil, "tool_calls": []obj{{"index": 0, "id": "call_" + c.id, "type": "function",
			"function": obj{"name": c.tool.name, "arguments": string(c.args)}}}}
	}
	usage := obj{"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
	if !t.stream {
		w.whole(obj{"id": "c1", "object": "chat.completion", "created": 1, "model": t.model,
			"choices": []obj{{"index": 0, "message": msg, "finish_reason": finish}}, "usage": usage})
		return
	}
	chunk := func(choices []obj) obj {
		return obj{"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": t.model, "choices": choices}
	}
	w.begin()
	w.event("", chunk([]obj{{"index": 0, "delta": msg, "finish_reason": nil}}))
	w.event("", chunk([]obj{{"index": 0, "delta": obj{}, "finish_reason": finish}}))
	last := chunk([]obj{})
	last["usage"] = usage
	w.event("", last)
	io.WriteString(w.w, "data: [DONE]\n\n")
}
