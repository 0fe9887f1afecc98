package model

import "encoding/json"

// readGemini reads a generateContent request. The protocol has no call ids:
// results are told apart by their order.
func readGemini(body []byte) (turn, error) {
	type content struct {
		Parts []struct {
			Text             string `json:"text"`
			FunctionResponse *struct {
				Response json.RawMessage `json:"response"`
			} `json:"functionResponse"`
		} `json:"parts"`
	}
	var in struct {
		System   content   `json:"systemInstruction"`
		Contents []content `json:"contents"`
		Tools    []struct {
			Functions []struct {
				Name string `json:"name"`
			} `json:"functionDeclarations"`
		} `json:"tools"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return turn{}, err
	}
	t := turn{model: Name}
	for _, tl := range in.Tools {
		for _, f := range tl.Functions {
			t.tools = append(t.tools, tool{name: f.Name})
		}
	}
	for _, c := range append([]content{in.System}, in.Contents...) {
		for _, p := range c.Parts {
			if p.FunctionResponse != nil {
				t.results = append(t.results, Result{Text: flatten(p.FunctionResponse.Response)})
				continue
			}
			t.prompt += "\n" + p.Text
		}
	}
	return t, nil
}

// readGeminiStream is readGemini for the path that asks for events.
func readGeminiStream(body []byte) (turn, error) {
	t, err := readGemini(body)
	t.stream = true
	return t, err
}

// writeGemini writes a candidate, whole or as one event.
func writeGemini(w *stream, t turn, r reply) {
	part := obj{"text": r.text}
	if c := r.call; c != nil {
		part = obj{"functionCall": obj{"name": c.tool.name, "args": c.args}}
	}
	v := obj{"candidates": []obj{{"content": obj{"role": "model", "parts": []obj{part}}, "finishReason": "STOP", "index": 0}},
		"usageMetadata": obj{"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}, "modelVersion": t.model}
	if !t.stream {
		w.whole(v)
		return
	}
	w.begin()
	w.event("", v)
}
