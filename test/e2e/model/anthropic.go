package model

import "encoding/json"

// readAnthropic reads a request of the messages API.
func readAnthropic(body []byte) (turn, error) {
	var in struct {
		Model    string          `json:"model"`
		Stream   bool            `json:"stream"`
		System   json.RawMessage `json:"system"`
		Messages []struct {
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
		Tools []struct {
			Name string `json:"name"`
		} `json:"tools"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return turn{}, err
	}
	t := turn{model: in.Model, stream: in.Stream, prompt: flatten(in.System)}
	for _, tl := range in.Tools {
		t.tools = append(t.tools, tool{name: tl.Name})
	}
	for _, m := range in.Messages {
		var list []struct {
			Type    string          `json:"type"`
			Text    string          `json:"text"`
			Content json.RawMessage `json:"content"`
			IsError bool            `json:"is_error"`
		}
		if json.Unmarshal(m.Content, &list) != nil {
			t.prompt += "\n" + flatten(m.Content)
			continue
		}
		for _, b := range list {
			switch b.Type {
			case "text":
				t.prompt += "\n" + b.Text
			case "tool_result":
				t.results = append(t.results, Result{Text: flatten(b.Content), Failed: b.IsError})
			}
		}
	}
	return t, nil
}

// writeAnthropic writes a message, whole or as the API's events.
func writeAnthropic(w *stream, t turn, r reply) {
	block, empty, delta, stop := obj{"type": "text", "text": r.text}, obj{"type": "text", "text": ""}, obj{"type": "text_delta", "text": r.text}, "end_turn"
	if c := r.call; c != nil {
		block = obj{"type": "tool_use", "id": "toolu_" + c.id, "name": c.tool.name, "input": c.args}
		empty = obj{"type": "tool_use", "id": "toolu_" + c.id, "name": c.tool.name, "input": obj{}}
		delta = obj{"type": "input_json_delta", "partial_json": string(c.args)}
		stop = "tool_use"
	}
	usage := obj{"input_tokens": 10, "output_tokens": 5, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
	msg := obj{"id": "msg_1", "type": "message", "role": "assistant", "model": t.model, "content": []obj{}, "stop_reason": nil, "stop_sequence": nil, "usage": usage}
	if !t.stream {
		msg["content"], msg["stop_reason"] = []obj{block}, stop
		w.whole(msg)
		return
	}
	w.begin()
	w.event("message_start", obj{"type": "message_start", "message": msg})
	w.event("content_block_start", obj{"type": "content_block_start", "index": 0, "content_block": empty})
	w.event("content_block_delta", obj{"type": "content_block_delta", "index": 0, "delta": delta})
	w.event("content_block_stop", obj{"type": "content_block_stop", "index": 0})
	w.event("message_delta", obj{"type": "message_delta", "delta": obj{"stop_reason": stop, "stop_sequence": nil}, "usage": obj{"output_tokens": 5}})
	w.event("message_stop", obj{"type": "message_stop"})
}
