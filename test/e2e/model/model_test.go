package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ask posts a body and returns the answer's text.
func ask(t *testing.T, url string, body any) string {
	t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Post(url, "application/json", bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: status %d, %v: %s", url, resp.StatusCode, err, out)
	}
	return string(out)
}

// dialect is how a test speaks one protocol: the body for a history of tool
// results, and what of an answer shows a call or a text.
type dialect struct {
	path, streamPath string
	body             func(prompt string, results []string, stream bool) any
	isCall           string
}

func tools(wrap func(name string) any) []any {
	var list []any
	for _, name := range []string{"read_file", "weft_reread_file", "weft_read_file"} {
		list = append(list, wrap(name))
	}
	return list
}

var dialects = map[string]dialect{
	"anthropic": {path: "/v1/messages", isCall: `"type":"tool_use"`, body: func(prompt string, results []string, stream bool) any {
		msgs := []any{obj{"role": "user", "content": prompt}}
		for _, r := range results {
			msgs = append(msgs, obj{"role": "user", "content": []any{obj{"type": "tool_result", "tool_use_id": "x", "content": []any{obj{"type": "text", "text": r}}}}})
		}
		return obj{"model": "m", "stream": stream, "messages": msgs, "tools": tools(func(n string) any { return obj{"name": n} })}
	}},
	"chat": {path: "/v1/chat/completions", isCall: `"tool_calls":[`, body: func(prompt string, results []string, stream bool) any {
		msgs := []any{obj{"role": "user", "content": prompt}}
		for _, r := range results {
			msgs = append(msgs, obj{"role": "tool", "tool_call_id": "x", "content": r})
		}
		return obj{"model": "m", "stream": stream, "messages": msgs, "tools": tools(func(n string) any { return obj{"type": "function", "function": obj{"name": n}} })}
	}},
	"responses": {path: "/v1/responses", isCall: `"namespace":"mcp__weft"`, body: func(prompt string, results []string, stream bool) any {
		items := []any{obj{"type": "message", "role": "user", "content": []any{obj{"type": "input_text", "text": prompt}}}}
		for _, r := range results {
			items = append(items, obj{"type": "function_call_output", "call_id": "x", "output": `[{"type":"text","text":` + mustJSON(r) + `}]`})
		}
		return obj{"model": "m", "stream": stream, "input": items, "tools": []any{obj{"type": "function", "name": "shell"},
			obj{"type": "namespace", "name": "mcp__weft", "tools": []any{obj{"name": "read_file"}}}}}
	}},
	"gemini": {path: "/v1beta/models/g:generateContent", streamPath: "/v1beta/models/g:streamGenerateContent", isCall: `"functionCall"`,
		body: func(prompt string, results []string, _ bool) any {
			contents := []any{obj{"role": "user", "parts": []any{obj{"text": prompt}}}}
			for _, r := range results {
				contents = append(contents, obj{"role": "user", "parts": []any{obj{"functionResponse": obj{"name": "x", "response": obj{"output": r}}}}})
			}
			return obj{"contents": contents, "tools": []any{obj{"functionDeclarations": tools(func(n string) any { return obj{"name": n} })}}}
		}},
}

func mustJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

var hash = regexp.MustCompile(`sha256=(\w+)`)

// script reads a file twice, the second time with a hash out of the first.
func script() Script {
	return Script{Trigger: "GO-NOW", Server: "weft", Steps: []Step{
		{Tool: "read_file", Args: map[string]string{"path": "a"}},
		{Tool: "read_file", Args: func(r []Result) (any, error) {
			h, err := Quote(r[0], hash)
			return map[string]string{"if": h}, err
		}},
	}, Final: func(r []Result) string { return "FINAL " + r[1].Text }}
}

func TestDialects(t *testing.T) {
	t.Parallel()
	for name, d := range dialects {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/stream=%v", name, stream), func(t *testing.T) {
				t.Parallel()
				s := Start(t, script())
				url := s.URL + d.path
				if stream && d.streamPath != "" {
					url = s.URL + d.streamPath
				}
				first := ask(t, url, d.body("GO-NOW please", nil, stream))
				second := ask(t, url, d.body("GO-NOW please", []string{"a sha256=beef01"}, stream))
				last := ask(t, url, d.body("GO-NOW please", []string{"a sha256=beef01", "nonce N42"}, stream))
				idle := ask(t, url, d.body("a title for this", nil, stream))
				if !strings.Contains(first, d.isCall) || !strings.Contains(first, "path") || strings.Contains(first, "weft_reread_file") {
					t.Errorf("first answer: %s", first)
				}
				if !strings.Contains(second, "beef01") {
					t.Errorf("second answer lacks the computed argument: %s", second)
				}
				if !strings.Contains(last, "FINAL nonce N42") || strings.Contains(last, d.isCall) {
					t.Errorf("last answer: %s", last)
				}
				if !strings.Contains(idle, Idle) {
					t.Errorf("answer without the trigger: %s", idle)
				}
				if events := strings.HasPrefix(first, "data: ") || strings.HasPrefix(first, "event: "); events != stream {
					t.Errorf("stream %v, but the answer is %s", stream, first)
				}
				if !s.Saw("nonce N42") || s.Saw("N43") {
					t.Error("what the model saw is not what was sent")
				}
			})
		}
	}
}

// TestDecide covers the script's own rules.
func TestDecide(t *testing.T) {
	t.Parallel()
	poll := Script{Trigger: "GO", Server: "weft", Steps: []Step{
		{Tool: "run", Again: func(r Result) bool { return strings.Contains(r.Text, "running") }},
		{Tool: "kill", Skip: func(r []Result) bool { return strings.Contains(r[len(r)-1].Text, "done") }},
		{Tool: "fails", Args: func([]Result) (any, error) { return nil, errors.New("nothing there") }},
	}}
	offered := []tool{{name: "run"}, {group: "mcp__weft", name: "run"}, {name: "mcp__weft__kill"}, {name: "weft_fails"}}
	texts := func(s ...string) (r []Result) {
		for _, text := range s {
			r = append(r, Result{Text: text})
		}
		return r
	}
	for _, tc := range []struct {
		name string
		turn turn
		want reply
	}{
		{"no tools", turn{prompt: "GO"}, reply{text: Idle}},
		{"no trigger", turn{prompt: "stop", tools: offered}, reply{text: Idle}},
		{"tool of another server only", turn{prompt: "GO", tools: offered[:1]}, reply{text: NoTool + " run"}},
		{"first call", turn{prompt: "GO", tools: offered}, reply{call: &call{"weft_call_0", offered[1], json.RawMessage("{}")}}},
		{"again", turn{prompt: "GO", tools: offered, results: texts("running")}, reply{call: &call{"weft_call_1", offered[1], json.RawMessage("{}")}}},
		{"next", turn{prompt: "GO", tools: offered, results: texts("running", "stuck")}, reply{call: &call{"weft_call_2", offered[2], json.RawMessage("{}")}}},
		{"skipped, then bad arguments", turn{prompt: "GO", tools: offered, results: texts("done")}, reply{text: BadScript + " step 2 (fails): nothing there"}},
		{"end", turn{prompt: "GO", tools: offered, results: texts("done", "x")}, reply{text: "FINAL x"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := poll.decide(tc.turn)
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(reply{}, call{}, tool{})); diff != "" {
				t.Errorf("reply (-want +got):\n%s", diff)
			}
		})
	}
}

func TestGuard(t *testing.T) {
	t.Parallel()
	s := Start(t, Script{Trigger: "GO", Server: "weft", Limit: 2, Steps: []Step{{Tool: "read_file", Again: func(Result) bool { return true }}}})
	d := dialects["chat"]
	var results []string
	for range 2 {
		if got := ask(t, s.URL+d.path, d.body("GO", results, false)); !strings.Contains(got, d.isCall) {
			t.Fatalf("answer: %s", got)
		}
		results = append(results, "more")
	}
	if got := ask(t, s.URL+d.path, d.body("GO", results, false)); !strings.Contains(got, LoopGuard) {
		t.Fatalf("the guard is silent: %s", got)
	}
}

func TestFlatten(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ raw, want string }{
		"string":                 {`"plain"`, "plain"},
		"blocks":                 {`[{"type":"text","text":"a"},{"type":"image"},{"type":"text","text":"b"}]`, "a\nb"},
		"call result":            {`{"content":[{"type":"text","text":"a"}],"isError":false}`, "a"},
		"call result as string":  {`"{\"content\":[{\"type\":\"text\",\"text\":\"a\"}]}"`, "a"},
		"output":                 {`{"output":"a"}`, "a"},
		"text that is JSON":      {`"[1,2]"`, "[1,2]"},
		"object of another kind": {`{"x":1}`, `{"x":1}`},
		"number":                 {`7`, "7"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := flatten(json.RawMessage(tc.raw)); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
