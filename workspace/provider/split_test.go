package provider

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftmesh/weft/protocols/strict"
	"github.com/weftmesh/weft/workspace/tool"
)

func writeSpec(t testing.TB) *tool.Spec {
	t.Helper()
	spec, ok := tool.Lookup("write_file")
	if !ok {
		t.Fatal("no write_file")
	}
	return spec
}

// TestSplitBody: the raw argument is taken out, nothing else changes, and what
// doesn't parse goes as it is for the requester to refuse.
func TestSplitBody(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		in, args string
		content  string
		taken    bool
		missing  bool
	}{
		"taken":                       {`{"path":"a","content":"x\ny","mode":"create"}`, `{"path":"a","mode":"create"}`, "x\ny", true, false},
		"empty":                       {`{"content":""}`, `{}`, "", true, false},
		"escapes":                     {`{"content":"\u00e9\ud83d\ude00\"\\\/"}`, `{}`, "é😀\"\\/", true, false},
		"numbers keep their form":     {`{"a":1e2,"content":"x","b":1.0,"c":[1, 2]}`, `{"a":1e2,"b":1.0,"c":[1,2]}`, "x", true, false},
		"missing":                     {`{"path":"a"}`, `{"path":"a"}`, "", false, true},
		"empty object":                {`{}`, `{}`, "", false, true},
		"nothing":                     {``, ``, "", false, false},
		"another case is another":     {`{"Content":"x"}`, `{"Content":"x"}`, "", false, true},
		"a number":                    {`{"content":5}`, `{"content":5}`, "", false, false},
		"null":                        {`{"content":null}`, `{"content":null}`, "", false, false},
		"twice":                       {`{"content":"a","content":"b"}`, `{"content":"a","content":"b"}`, "", false, false},
		"twice in two spellings":      {`{"content":"a","c\u006fntent":"b"}`, `{"content":"a","c\u006fntent":"b"}`, "", false, false},
		"spelled with an escape":      {`{"c\u006fntent":"b"}`, `{}`, "b", true, false},
		"another object behind":       {`{"content":"a"}{"path":"b"}`, `{"content":"a"}{"path":"b"}`, "", false, false},
		"cut off":                     {`{"content":"a"`, `{"content":"a"`, "", false, false},
		"an array":                    {`["content","a"]`, `["content","a"]`, "", false, false},
		"half a surrogate":            {`{"content":"\ud800"}`, `{"content":"\ud800"}`, "", false, false},
		"nested is not ours":          {`{"x":{"content":"a"}}`, `{"x":{"content":"a"}}`, "", false, true},
		"space around is not content": {` { "content" : "a" } `, `{}`, "a", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args, content, missing := splitBody(writeSpec(t), []byte(tc.in))
			if diff := cmp.Diff(tc.args, string(args)); diff != "" {
				t.Error(diff)
			}
			if string(content) != tc.content || (content != nil) != tc.taken || missing != tc.missing {
				t.Errorf("content %q (taken %t), missing %t", content, content != nil, missing)
			}
		})
	}
	spec, _ := tool.Lookup("read_file")
	if args, content, missing := splitBody(spec, []byte(`{"content":"x"}`)); string(args) != `{"content":"x"}` || content != nil || missing {
		t.Errorf("a tool without raw content: %s %q %t", args, content, missing)
	}
}

// FuzzSplitBody: whatever an agent sends, what leaves is the same call: the
// requester reads the same members, and the content is the one string that was
// there.
func FuzzSplitBody(f *testing.F) {
	for _, in := range []string{`{"path":"a","content":"x","mode":"create"}`, `{"content":"\ud83d\ude00"}`, `{"content":"a","content":"b"}`, `{}`, ``, `{"c\u006fntent":"x"}`, "{\"content\":\"\xff\"}"} {
		f.Add([]byte(in))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) > 1<<16 {
			return
		}
		given := bytes.Clone(in)
		args, content, missing := splitBody(writeSpec(t), in)
		if !bytes.Equal(in, given) {
			t.Fatal("the agent's bytes were changed")
		}
		var before, after map[string]any
		sound := strict.Unmarshal(in, 1<<20, &before) == nil && before != nil
		if content == nil && !missing {
			if !bytes.Equal(args, in) {
				t.Fatalf("nothing was taken out of %q and %q left", in, args)
			}
			if text, ok := before["content"].(string); sound && ok {
				t.Fatalf("%q was not taken out", text)
			}
			return
		}
		if !sound {
			return // strict is stricter: NUL in strings, depth, big numbers
		}
		if err := json.Unmarshal(args, &after); err != nil {
			t.Fatalf("%q became %q: %v", in, args, err)
		}
		if missing != (before["content"] == nil) {
			t.Fatalf("%q: missing %t", in, missing)
		}
		if text, _ := before["content"].(string); text != string(content) {
			t.Fatalf("%q: content %q", in, content)
		}
		delete(before, "content")
		if diff := cmp.Diff(before, after); diff != "" {
			t.Fatal(diff)
		}
		if strings.Contains(string(args), `"content":`) && !missing {
			var again map[string]any
			if err := json.Unmarshal(args, &again); err == nil && again["content"] != nil {
				t.Fatalf("content is still in %q", args)
			}
		}
	})
}
