package model

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// obj is a JSON object being written.
type obj = map[string]any

// stream writes an answer whole or as server-sent events.
type stream struct{ w http.ResponseWriter }

func (s *stream) whole(v any) { json.NewEncoder(s.w).Encode(v) }

// begin turns the answer into server-sent events.
func (s *stream) begin() { s.w.Header().Set("Content-Type", "text/event-stream") }

// event writes one event; an empty name leaves the event line out.
func (s *stream) event(name string, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // only values made here are written
	}
	if name != "" {
		fmt.Fprintf(s.w, "event: %s\n", name)
	}
	fmt.Fprintf(s.w, "data: %s\n\n", b)
	if f, ok := s.w.(http.Flusher); ok {
		f.Flush()
	}
}

// flatten finds the text in a tool result, whatever wrapper it came in: a
// string, a list of blocks with text, an object with content or output, or a
// string that holds one of these as JSON.
func flatten(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		if in := strings.TrimSpace(s); strings.HasPrefix(in, "[") || strings.HasPrefix(in, "{") {
			if text, ok := blocks([]byte(in)); ok {
				return text
			}
		}
		return s
	}
	if text, ok := blocks(raw); ok {
		return text
	}
	return string(raw)
}

// blocks joins the text of content blocks; ok is false when raw holds none.
func blocks(raw []byte) (text string, ok bool) {
	var list []struct {
		Type string  `json:"type"`
		Text *string `json:"text"`
	}
	if json.Unmarshal(raw, &list) == nil {
		var parts []string
		for _, b := range list {
			if b.Text != nil {
				parts = append(parts, *b.Text)
			}
		}
		return strings.Join(parts, "\n"), len(parts) > 0
	}
	var o struct {
		Content json.RawMessage `json:"content"`
		Output  json.RawMessage `json:"output"`
	}
	if json.Unmarshal(raw, &o) != nil {
		return "", false
	}
	for _, inner := range []json.RawMessage{o.Content, o.Output} {
		if len(inner) > 0 && string(inner) != "null" {
			return flatten(inner), true
		}
	}
	return "", false
}
