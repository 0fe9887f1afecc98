package model

import "encoding/json"

// readResponses reads a request of the responses API. Codex puts the tools of
// an MCP server into a namespace of their own, and wants it named in the call.
func readResponses(body []byte) (turn, error) {
	var in struct {
		Model        string          `json:"model"`
		Stream       bool            `json:"stream"`
		Instructions string          `json:"instructions"`
		Input        json.RawMessage `json:"input"`
		Tools        []struct {
			Type  string `json:"type"`
			Name  string `json:"name"`
			Tools []struct {
				Name string `json:"name"`
			} `json:"tools"`
		} `json:"tools"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return turn{}, err
	}
	t := turn{model: in.Model, stream: in.Stream, prompt: in.Instructions}
	for _, tl := range in.Tools {
		if tl.Type != "namespace" {
			t.tools = append(t.tools, tool{name: tl.Name})
			continue
		}
		for _, sub := range tl.Tools {
			t.tools = append(t.tools, tool{group: tl.Name, name: sub.Name})
		}
	}
	var items []struct {
		Type    string          `json:"type"`
		Content json.RawMessage `json:"content"`
		Output  json.RawMessage `json:"output"`
	}
	if json.Unmarshal(in.Input, &items) != nil {
		t.prompt += "\n" + flatten(in.Input)
		return t, nil
	}
	for _, it := range items {
		switch it.Type {
		case "function_call_output":
			t.results = append(t.results, Result{Text: flatten(it.Output)})
		case "message", "":
			t.prompt += "\n" + flatten(it.Content)
		}
	}
	return t, nil
}

// writeResponses writes a response, whole or as the API's events.
func writeResponses(w *stream, t turn, r reply) {
	item := obj{"type": "message", "id": "m_1", "role": "assistant", "status": "completed",
		"content": []obj{{"type": "output_text", "text": r.text, "annotations": []obj{}}}}
	if c := r.call; c != nil {
		item = obj{"type": "function_call", "id": "fc_" + c.id, "call_id": "call_" + c.id, "name": c.tool.name, "arguments": string(c.args), "status": "completed"}
		if c.tool.group != "" {
			item["namespace"] = c.tool.group
		}
	}
	response := func(status string, output []obj) obj {
		return obj{"id": "resp_1", "object": "response", "created_at": 1, "model": t.model, "status": status, "output": output,
			"usage": obj{"input_tokens": 10, "input_tokens_details": obj{"cached_tokens": 0}, "output_tokens": 5,
				"output_tokens_details": obj{"reasoning_tokens": 0}, "total_tokens": 15}}
	}
	if !t.stream {
		w.whole(response("completed", []obj{item}))
		return
	}
	w.begin()
	n := 0
	event := func(name string, v obj) {
		v["type"], v["sequence_number"] = name, n
		n++
		w.event(name, v)
	}
	event("response.created", obj{"response": response("in_progress", []obj{})})
	event("response.output_item.added", obj{"output_index": 0, "item": item})
	if r.call == nil {
		event("response.output_text.delta", obj{"item_id": "m_1", "output_index": 0, "content_index": 0, "delta": r.text})
	}
	event("response.output_item.done", obj{"output_index": 0, "item": item})
	event("response.completed", obj{"response": response("completed", []obj{item})})
}
