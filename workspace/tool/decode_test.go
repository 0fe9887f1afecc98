package tool

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftmesh/weft/workspace"
	"github.com/weftmesh/weft/workspace/gate"
)

// TestDecodeGood: what the gate learns of a sound call.
func TestDecodeGood(t *testing.T) {
	t.Parallel()
	read, write, exec := workspace.Read, workspace.Write, workspace.Read|workspace.Exec
	sha := strings.Repeat("0f", 32)
	for _, tc := range []struct {
		name, tool, args, content string
		uses                      []gate.Use
		argv                      []string
		writes                    int64
	}{
		{name: "nothing", tool: "workspace_info"},
		{name: "empty object", tool: "workspace_info", args: `{}`},
		{name: "null counts as none", tool: "workspace_info", args: `null`},
		{name: "a path", tool: "read_file", args: `{"path":"app/a.txt"}`, uses: []gate.Use{{Text: "app/a.txt", Want: read}}},
		{name: "lines at their bounds", tool: "read_file", args: `{"path":"p","start_line":2147483648,"max_lines":2000,"max_bytes":98304}`, uses: []gate.Use{{Text: "p", Want: read}}},
		{name: "bytes at their bounds", tool: "read_file", args: `{"path":"p","offset":4503599627370496,"length":262144}`, uses: []gate.Use{{Text: "p", Want: read}}},
		{name: "optional members may be null", tool: "read_file", args: `{"path":"p","start_line":null,"encoding":null}`, uses: []gate.Use{{Text: "p", Want: read}}},
		{name: "a double without a fraction", tool: "read_file", args: `{"path":"p","max_lines":1e2,"start_line":3.0}`, uses: []gate.Use{{Text: "p", Want: read}}},
		{name: "an empty path is the gate's to refuse", tool: "stat", args: `{"path":""}`, uses: []gate.Use{{Text: "", Want: read}}},
		{name: "listing", tool: "list_dir", args: `{"path":"app","depth":5,"limit":1000,"cursor":"x"}`, uses: []gate.Use{{Text: "app", Want: read}}},
		{name: "glob", tool: "glob", args: `{"pattern":"**/*.go","path":"app","sort":"mtime"}`, uses: []gate.Use{{Text: "app", Want: read}}},
		{name: "grep", tool: "grep", args: `{"pattern":"x","path":"app","mode":"count","context":10}`, uses: []gate.Use{{Text: "app", Want: read}}},
		{name: "create", tool: "write_file", args: `{"path":"p","mode":"create"}`, content: "héllo", uses: []gate.Use{{Text: "p", Want: write}}, writes: 6},
		{name: "base64", tool: "write_file", args: `{"path":"p","mode":"overwrite","encoding":"base64","if_sha256":"` + sha + `"}`, content: "AAECAw==", uses: []gate.Use{{Text: "p", Want: write}}, writes: 4},
		{name: "edit", tool: "edit_file", args: `{"path":"p","edits":[{"old":"a","new":""},{"old":"b","new":"ccc","count":2}]}`, uses: []gate.Use{{Text: "p", Want: write}}, writes: 3},
		{name: "command", tool: "run_command", args: `{"argv":["go","test"],"cwd":"app/x","env":{"GOFLAGS":"-v"},"stdin":"in"}`, uses: []gate.Use{{Text: "app/x", Want: exec}}, argv: []string{"go", "test"}},
		{name: "command in the first root", tool: "run_command", args: `{"argv":["make"]}`, argv: []string{"make"}},
		{name: "job", tool: "job_output", args: `{"job":"j-1","after":12,"wait_ms":30000}`},
		{name: "kill", tool: "job_kill", args: `{"job":"j-1","signal":"KILL"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p, r := lookup(t, tc.tool).Decode([]byte(tc.args), []byte(tc.content))
			if r != nil {
				t.Fatal(r)
			}
			if diff := cmp.Diff(tc.uses, p.Uses); diff != "" {
				t.Errorf("uses: %s", diff)
			}
			if diff := cmp.Diff(tc.argv, p.Argv); diff != "" {
				t.Errorf("argv: %s", diff)
			}
			if p.Writes != tc.writes || p.Run == nil {
				t.Errorf("writes %d, want %d; run %t", p.Writes, tc.writes, p.Run != nil)
			}
		})
	}
}

// TestDecodeBad: what is refused before the gate looks at a path.
func TestDecodeBad(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 2000)
	for _, tc := range []struct {
		name, tool, args, content string
		says                      string
	}{
		{"arguments cut off", "read_file", `{"path":"app`, "", ""},
		{"data behind the arguments", "read_file", `{"path":"p"}{}`, "", ""},
		{"an array", "read_file", `["p"]`, "", ""},
		{"no path", "read_file", `{}`, "", "path is missing"},
		{"null where a path belongs", "stat", `{"path":null}`, "", "path is missing"},
		{"null arguments", "list_dir", `null`, "", "path is missing"},
		{"one name twice", "read_file", `{"path":"a","path":"b"}`, "", "duplicate"},
		{"a name in another case", "read_file", `{"path":"a","Max_lines":1}`, "", "unknown"},
		{"an unknown member", "stat", `{"path":"a","follow":true}`, "", "unknown"},
		{"NUL in a path", "stat", `{"path":"a\u0000b"}`, "", "NUL"},
		{"half a surrogate", "stat", `{"path":"\ud800"}`, "", ""},
		{"invalid UTF-8", "stat", "{\"path\":\"\xff\"}", "", ""},
		{"a number as text", "read_file", `{"path":"a","max_lines":"5"}`, "", "number"},
		{"a number with a fraction", "read_file", `{"path":"a","max_lines":1.5}`, "", "whole"},
		{"a number beyond 2^53", "read_file", `{"path":"a","offset":9007199254740993}`, "", ""},
		{"a truth as text", "read_file", `{"path":"a","numbers":"true"}`, "", ""},
		{"lines and bytes at once", "read_file", `{"path":"a","start_line":1,"offset":0}`, "", "not both"},
		{"no lines", "read_file", `{"path":"a","max_lines":0}`, "", "1 to 2000"},
		{"a line before the first", "read_file", `{"path":"a","start_line":0}`, "", "start_line"},
		{"an offset below zero", "read_file", `{"path":"a","offset":-1}`, "", "offset"},
		{"an unknown encoding", "read_file", `{"path":"a","encoding":"rot13"}`, "", "auto, base64"},
		{"too deep", "list_dir", `{"path":"a","depth":6}`, "", "depth"},
		{"a page too long", "list_dir", `{"path":"a","limit":1001}`, "", "limit"},
		{"no pattern", "glob", `{"path":"a"}`, "", "pattern"},
		{"a pattern too long", "grep", `{"path":"a","pattern":"` + long + `"}`, "", "1 to 1024"},
		{"a glob too long", "grep", `{"path":"a","pattern":"x","glob":"` + long + `"}`, "", "glob"},
		{"an unknown order", "glob", `{"path":"a","pattern":"*","sort":"size"}`, "", "sort"},
		{"too much context", "grep", `{"path":"a","pattern":"x","context":11}`, "", "context"},
		{"no mode", "write_file", `{"path":"a"}`, "x", "create, overwrite"},
		{"overwrite blindly", "write_file", `{"path":"a","mode":"overwrite"}`, "x", "if_sha256"},
		{"a hash in capitals", "write_file", `{"path":"a","mode":"overwrite","if_sha256":"` + strings.Repeat("A", 64) + `"}`, "x", "sha256"},
		{"not base64", "write_file", `{"path":"a","mode":"create","encoding":"base64"}`, "!!", "base64"},
		{"content in the arguments", "write_file", `{"path":"a","mode":"create","content":"x"}`, "", "unknown"},
		{"content where none belongs", "stat", `{"path":"a"}`, "x", "no content"},
		{"no edits", "edit_file", `{"path":"a","edits":[]}`, "", "edits"},
		{"an edit that forgot new", "edit_file", `{"path":"a","edits":[{"old":"x"}]}`, "", "new is missing"},
		{"an edit of nothing", "edit_file", `{"path":"a","edits":[{"old":"","new":"x"}]}`, "", "write_file"},
		{"null for an edit", "edit_file", `{"path":"a","edits":[null]}`, "", ""},
		{"count and all", "edit_file", `{"path":"a","edits":[{"old":"x","new":"y","count":1,"all":true}]}`, "", "not both"},
		{"count of none", "edit_file", `{"path":"a","edits":[{"old":"x","new":"y","count":0}]}`, "", "count"},
		{"101 edits", "edit_file", `{"path":"a","edits":[` + strings.TrimSuffix(strings.Repeat(`{"old":"x","new":"y"},`, 101), ",") + `]}`, "", "edits"},
		{"a member in an edit", "edit_file", `{"path":"a","edits":[{"old":"x","new":"y","regex":true}]}`, "", "unknown"},
		{"no argv", "run_command", `{}`, "", "arguments"},
		{"a shell string", "run_command", `{"argv":"go test"}`, "", ""},
		{"129 arguments", "run_command", `{"argv":[` + strings.TrimSuffix(strings.Repeat(`"a",`, 129), ",") + `]}`, "", "128"},
		{"argv too long", "run_command", `{"argv":["` + strings.Repeat("a", maxArgLen+1) + `"]}`, "", "argv"},
		{"stdin too long", "run_command", `{"argv":["a"],"stdin":"` + strings.Repeat("a", maxStdin+1) + `"}`, "", "stdin"},
		{"an env name with =", "run_command", `{"argv":["a"],"env":{"A=B":"c"}}`, "", "variable"},
		{"an env name in small letters", "run_command", `{"argv":["a"],"env":{"path":"c"}}`, "", "variable"},
		{"an env value too long", "run_command", `{"argv":["a"],"env":{"A":"` + strings.Repeat("a", 4097) + `"}}`, "", "4096"},
		{"33 env entries", "run_command", `{"argv":["a"],"env":{` + strings.TrimSuffix(many(33, `"A%d":"",`), ",") + `}}`, "", "32"},
		{"a timeout of an hour", "run_command", `{"argv":["a"],"timeout_ms":3600000}`, "", "timeout_ms"},
		{"a yield of none", "run_command", `{"argv":["a"],"yield_ms":0}`, "", "yield_ms"},
		{"a job that is a path", "job_output", `{"job":"../x"}`, "", "job"},
		{"no job", "job_kill", `{}`, "", "job"},
		{"a cursor below zero", "job_output", `{"job":"j","after":-1}`, "", "after"},
		{"a wait too long", "job_output", `{"job":"j","wait_ms":30001}`, "", "wait_ms"},
		{"an unknown signal", "job_kill", `{"job":"j","signal":"HUP"}`, "", "TERM, KILL"},
		{"arguments for none", "workspace_info", `{"verbose":true}`, "", "unknown"},
		{"nested forty deep", "edit_file", `{"path":"a","edits":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`, "", "nested"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p, r := lookup(t, tc.tool).Decode([]byte(tc.args), []byte(tc.content))
			if r == nil || r.Code != workspace.BadArguments || !strings.Contains(r.Hint, tc.says) {
				t.Fatalf("got %v, want bad_arguments with %q", r, tc.says)
			}
			if p.Run != nil || p.Uses != nil || p.Argv != nil {
				t.Errorf("a refused call left a plan: %+v", p)
			}
			if len(r.Hint) > 400 {
				t.Errorf("the hint has %d bytes", len(r.Hint))
			}
		})
	}
}

func many(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// TestDecodeTooLarge: sizes are looked at before anything is parsed.
func TestDecodeTooLarge(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ args, content int }{
		"arguments": {MaxArguments + 1, 0},
		"content":   {2, MaxContent + 1},
	} {
		for _, s := range All() {
			_, r := s.Decode(make([]byte, tc.args), make([]byte, tc.content))
			if r == nil || r.Code != workspace.TooLarge {
				t.Errorf("%s of %s: %v, want too_large", name, s.Name, r)
			}
		}
	}
	full := lookup(t, "write_file")
	if p, r := full.Decode([]byte(`{"path":"p","mode":"create"}`), make([]byte, MaxContent)); r != nil || p.Writes != MaxContent {
		t.Errorf("a write at the limit: %v, %d bytes", r, p.Writes)
	}
}

// TestNames: what watchers see and the log commits to.
func TestNames(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ tool, args, want string }{
		{"workspace_info", `{}`, ""},
		{"read_file", `{"path":"app/a b.txt"}`, "app/a b.txt"},
		{"run_command", `{"argv":["go","test","./..."],"cwd":"app"}`, "app $ go test ./..."},
		{"run_command", `{"argv":["make"]}`, "$ make"},
	} {
		p, r := lookup(t, tc.tool).Decode([]byte(tc.args), nil)
		if r != nil {
			t.Fatal(r)
		}
		if got := p.Names(); got != tc.want {
			t.Errorf("%s %s: %q, want %q", tc.tool, tc.args, got, tc.want)
		}
	}
	if got := (Plan{}).Names(); got != "" {
		t.Errorf("a plan of nothing names %q", got)
	}
}
