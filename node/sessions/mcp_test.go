package sessions_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/weftmesh/weft/node/sessions"
)

// eachWay runs a test for each way to the tools and each protocol revision,
// with one session for all.
func eachWay(t *testing.T, p *pair, id string, test func(t *testing.T, a *agent)) {
	for _, l := range []link{stdio, overHTTP} {
		for _, era := range eras {
			t.Run(l.name+" "+era, func(t *testing.T) {
				defer p.in(t)()
				test(t, p.connect(t, l, era, id))
			})
		}
	}
}

// TestTools: what an agent sees of a session, by every way and revision.
func TestTools(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	id := p.open(nil)
	var first []byte
	eachWay(t, p, id, func(t *testing.T, a *agent) {
		init := a.InitializeResult()
		if init.ServerInfo == nil || init.ServerInfo.Name != "weft" || !strings.Contains(init.Instructions, "app (read,write)") {
			t.Errorf("server %+v, instructions %q", init.ServerInfo, init.Instructions)
		}
		//lint:ignore SA1019 that it is not offered is what is tested
		if c := init.Capabilities; c.Tools == nil || c.Tools.ListChanged || c.Logging != nil || c.Prompts != nil || c.Resources != nil || c.Completions != nil {
			t.Errorf("capabilities %+v", c)
		}
		var names []string
		for range 2 { // deterministic, whoever asks
			list, err := a.ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := json.Marshal(list.Tools)
			if err != nil {
				t.Fatal(err)
			}
			if first == nil {
				first = raw
			}
			if !bytes.Equal(first, raw) {
				t.Errorf("another list: %s", cmp.Diff(string(first), string(raw)))
			}
			if list.NextCursor != "" {
				t.Errorf("a second page: %q", list.NextCursor)
			}
			names = nil
			for _, tool := range list.Tools {
				names = append(names, tool.Name)
				if tool.OutputSchema != nil || tool.Annotations == nil || tool.Annotations.OpenWorldHint == nil || *tool.Annotations.OpenWorldHint {
					t.Errorf("%s: output schema %v, annotations %+v", tool.Name, tool.OutputSchema, tool.Annotations)
				}
			}
		}
		want := []string{"edit_file", "glob", "grep", "list_dir", "read_file", "stat", "workspace_info", "write_file"}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Error(diff)
		}

		if got := a.says("read_file", object{"path": "app/a.txt"}); !strings.HasPrefix(got, "app/a.txt size=11 ") || !strings.HasSuffix(got, "\nalpha\nbeta\n") {
			t.Errorf("read_file: %q", got)
		}
		if got := a.says("workspace_info", nil); !strings.Contains(got, "root app rights=read,write") || strings.Contains(got, p.folder) {
			t.Errorf("workspace_info: %q", got)
		}

		pic := a.do("read_file", object{"path": "app/pic.png"})
		if len(pic.Content) != 2 {
			t.Fatalf("an image in %d blocks", len(pic.Content))
		}
		if img, ok := pic.Content[1].(*mcp.ImageContent); !ok || img.MIMEType != "image/png" || !bytes.Equal(img.Data, pixel) {
			t.Errorf("image block %+v", pic.Content[1])
		}
		if head := textOf(t, pic); !strings.HasPrefix(head, "app/pic.png size=") || strings.Contains(head, "\n") {
			t.Errorf("header of the image %q", head)
		}
		raw := a.says("read_file", object{"path": "app/raw.bin", "encoding": "base64"})
		if _, body, _ := strings.Cut(raw, "\n"); body != base64.StdEncoding.EncodeToString([]byte("\x00\x01\xfe\xff")) {
			t.Errorf("base64: %q", raw)
		}
		if r := a.do("read_file", object{"path": "app/none.txt"}); !r.IsError || !strings.HasPrefix(textOf(t, r), "FAILED not_found") {
			t.Errorf("a file that isn't there: %q", textOf(t, r))
		}

		a.denied("read_file", object{"path": "app/.env"}, "secret_path")
		a.denied("read_file", object{"path": "/etc/passwd"}, "bad_path")
		a.denied("read_file", object{"path": "app/../x"}, "bad_path")
		a.denied("read_file", object{"path": "other/x"}, "outside_grant")
	})
	if v := p.show(p.req, id); v.State != "open" || v.Calls == 0 {
		t.Errorf("the session is %+v", v)
	}
}

// TestRights: a tool that the grant doesn't cover is not listed, and naming it
// all the same is an error of the protocol that reaches nobody.
func TestRights(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	id := p.open(func(in *sessions.ShareRequest) { in.Write = false })
	before := p.show(p.req, id).Calls
	eachWay(t, p, id, func(t *testing.T, a *agent) {
		list, err := a.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, tool := range list.Tools {
			if strings.Contains("write_file edit_file run_command job_output job_kill", tool.Name) || !tool.Annotations.ReadOnlyHint {
				t.Errorf("%s is offered without the right", tool.Name)
			}
		}
		for _, name := range []string{"write_file", "run_command", "shell", "../read_file"} {
			_, err := a.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: object{}})
			var werr *jsonrpc.Error
			if !errors.As(err, &werr) || werr.Code != jsonrpc.CodeInvalidParams {
				t.Errorf("tool %q: %v", name, err)
			}
		}
		if r, err := a.ListResources(t.Context(), nil); err == nil && len(r.Resources) > 0 {
			t.Error("there are resources")
		}
		if _, err := a.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "x"}); err == nil {
			t.Error("there are prompts")
		}
	})
	if after := p.show(p.req, id).Calls; after != before {
		t.Errorf("%d calls reached the requester", after-before)
	}
}

// TestMalformedArguments: what a model gets wrong is refused where it is
// logged, and the connection goes on.
func TestMalformedArguments(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	id := p.open(nil)
	eachWay(t, p, id, func(t *testing.T, a *agent) {
		// Fifty refusals pause a session for its owner, who looks and goes on.
		look := func() {
			if p.show(p.req, id).State == "paused" {
				p.must(p.req.api.Post(t.Context(), "/v1/sessions/"+id+"/resume", sessions.StopRequest{}, nil))
			}
		}
		for name, tc := range map[string]struct{ tool, args, says string }{
			"unknown member":    {"read_file", `{"path":"app/a.txt","follow":true}`, "follow"},
			"another case":      {"read_file", `{"Path":"app/a.txt"}`, "Path"},
			"one name twice":    {"read_file", `{"path":"app/a.txt","path":"app/.env"}`, "path"},
			"no path":           {"read_file", `{}`, "path is missing"},
			"a number as text":  {"read_file", `{"path":"app/a.txt","max_lines":"5"}`, ""},
			"out of bounds":     {"read_file", `{"path":"app/a.txt","max_lines":100000}`, "1 to 2000"},
			"NUL":               {"read_file", `{"path":"app/a\u0000.txt"}`, "NUL"},
			"no content":        {"write_file", `{"path":"app/x","mode":"create"}`, "content is missing"},
			"content twice":     {"write_file", `{"path":"app/x","mode":"create","content":"a","content":"b"}`, "content"},
			"content as number": {"write_file", `{"path":"app/x","mode":"create","content":5}`, "content"},
			"edit without new":  {"edit_file", `{"path":"app/a.txt","edits":[{"old":"alpha"}]}`, "new is missing"},
		} {
			r := a.do(tc.tool, json.RawMessage(tc.args))
			got := textOf(t, r)
			if !r.IsError || !strings.HasPrefix(got, "DENIED bad_arguments") || !strings.Contains(got, tc.says) {
				t.Errorf("%s: %q", name, got)
			}
			look()
		}
		for _, args := range []string{`[]`, `"x"`, `5`} {
			if r, err := a.CallTool(t.Context(), &mcp.CallToolParams{Name: "stat", Arguments: json.RawMessage(args)}); err == nil && !r.IsError {
				t.Errorf("arguments %s were taken", args)
			}
			look()
		}
		if got := a.says("stat", object{"path": "app/a.txt"}); !strings.Contains(got, "size=11") {
			t.Errorf("after that: %q", got)
		}
	})
	if got, err := os.ReadFile(filepath.Join(p.folder, "a.txt")); err != nil || string(got) != "alpha\nbeta\n" {
		t.Errorf("a.txt is %q, %v", got, err)
	}
	if _, err := os.Stat(filepath.Join(p.folder, "x")); !errors.Is(err, os.ErrNotExist) {
		t.Error("a malformed call wrote")
	}
}

// TestWrites: an agent changes files, up to the largest write, byte for byte.
func TestWrites(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	id := p.open(nil)
	n := 0
	eachWay(t, p, id, func(t *testing.T, a *agent) {
		n++
		name := fmt.Sprintf("new%d.txt", n)
		content := strings.Repeat("tab\t\"quoted\" 文字 \\ line\r\n", 1<<20/30)
		content += strings.Repeat("x", 1<<20-len(content))
		a.says("write_file", object{"path": "app/" + name, "content": content, "mode": "create"})
		if got, err := os.ReadFile(filepath.Join(p.folder, name)); err != nil || string(got) != content {
			t.Errorf("wrote %d bytes, the file has %d, %v", len(content), len(got), err)
		}
		a.denied("write_file", object{"path": "app/" + name + "x", "content": content + "y", "mode": "create"}, "too_large")
		if r := a.do("write_file", object{"path": "app/" + name, "content": "", "mode": "create"}); !r.IsError || !strings.HasPrefix(textOf(t, r), "FAILED exists") {
			t.Errorf("create again: %q", textOf(t, r))
		}
		small := fmt.Sprintf("small%d.txt", n)
		a.says("write_file", object{"path": "app/" + small, "content": base64.StdEncoding.EncodeToString([]byte("\x00\xff")), "encoding": "base64", "mode": "create"})
		if got, err := os.ReadFile(filepath.Join(p.folder, small)); err != nil || string(got) != "\x00\xff" {
			t.Errorf("base64 wrote %q, %v", got, err)
		}
		a.says("write_file", object{"path": "app/empty" + small, "content": "", "mode": "create"})
		edit := fmt.Sprintf("edit%d.txt", n)
		if err := os.WriteFile(filepath.Join(p.folder, edit), []byte("one\r\ntwo\r\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := a.says("edit_file", object{"path": "app/" + edit, "edits": []object{{"old": "one\ntwo", "new": "one\n2"}}}); !strings.Contains(got, "+2") {
			t.Errorf("the diff is %q", got)
		}
		if got, err := os.ReadFile(filepath.Join(p.folder, edit)); err != nil || string(got) != "one\r\n2\r\n" {
			t.Errorf("edited to %q, %v", got, err)
		}
		a.denied("write_file", object{"path": "app/.git/hooks/x", "content": "x", "mode": "create"}, "secret_path")
	})
}

// TestProgress: what a running command prints reaches the agent while it runs.
func TestProgress(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	id := p.open(p.commands)
	eachWay(t, p, id, func(t *testing.T, a *agent) {
		params := &mcp.CallToolParams{Name: "run_command", Arguments: object{"argv": []string{"sh", "tick.sh"}, "cwd": "app"}}
		params.SetProgressToken("tok-" + t.Name())
		done := make(chan *mcp.CallToolResult, 1)
		go func() {
			r, err := a.CallTool(t.Context(), params)
			if err != nil {
				t.Error(err)
			}
			done <- r
		}()
		timeout := time.NewTimer(patience)
		defer timeout.Stop()
		var n float64
		early, shown := 0, ""
		for r := (*mcp.CallToolResult)(nil); r == nil; {
			select {
			case pr := <-a.progress:
				if pr.ProgressToken != "tok-"+t.Name() || pr.Progress <= n {
					t.Errorf("progress %+v after %v", pr, n)
				}
				n = pr.Progress
				shown += pr.Message
				early++
			case r = <-done:
				if r == nil {
					return
				}
				if got := textOf(t, r); r.IsError || !strings.Contains(got, "tick 1\n") || !strings.Contains(got, "tick 6") || !strings.Contains(got, "exit=0") {
					t.Errorf("the command gave %q", got)
				}
			case <-timeout.C:
				t.Fatal("the command did not end")
			}
		}
		if early < 2 || !strings.Contains(shown, "tick") {
			t.Errorf("%d pieces of progress came before the end: %q", early, shown)
		}
	})
}

// TestCancel: an agent that gives up a call stops its command on the
// requester's machine within a second, and the log says how it ended.
func TestCancel(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	id := p.open(p.commands)
	eachWay(t, p, id, func(t *testing.T, a *agent) {
		before := len(p.log(p.req, id))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		params := &mcp.CallToolParams{Name: "run_command", Arguments: object{"argv": []string{"sh", "long.sh"}, "cwd": "app", "yield_ms": 30000}}
		params.SetProgressToken("cancel-" + t.Name())
		done := make(chan error, 1)
		go func() {
			_, err := a.CallTool(ctx, params)
			done <- err
		}()
		select { // it runs: its first line is here
		case <-a.progress:
		case err := <-done:
			t.Fatalf("the command ended: %v", err)
		case <-time.After(patience):
			t.Fatal("the command did not begin")
		}
		began := time.Now()
		cancel()
		if err := <-done; err == nil {
			t.Error("the cancelled call gave a result")
		}
		last := p.result(id, before)
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %v until the command had ended", took)
		}
		if last.Tool != "run_command" || last.Verdict == "unknown" {
			t.Errorf("logged as %+v", last)
		}
		if left := running(p.sleep); len(left) > 0 {
			t.Errorf("it still runs: %q", left)
		}
		if got := a.says("stat", object{"path": "app/a.txt"}); got == "" {
			t.Error("the connection does not go on")
		}
	})
}

// TestAgentVanishes: an agent whose connection breaks leaves no command
// running.
func TestAgentVanishes(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	id := p.open(p.commands)
	for _, era := range eras {
		t.Run(era, func(t *testing.T) {
			defer p.in(t)()
			c := p.upgrade(t, id)
			a := p.connect(t, link{"broken", func(testing.TB, *pair, string) mcp.Transport { return &mcp.IOTransport{Reader: c, Writer: c} }}, era, id)
			before := len(p.log(p.req, id))
			params := &mcp.CallToolParams{Name: "run_command", Arguments: object{"argv": []string{"sh", "long.sh"}, "cwd": "app", "yield_ms": 30000}}
			params.SetProgressToken("x")
			done := make(chan error, 1)
			go func() {
				_, err := a.CallTool(t.Context(), params)
				done <- err
			}()
			<-a.progress
			c.Close()
			if err := <-done; err == nil {
				t.Error("the call gave a result over a closed connection")
			}
			p.result(id, before)
			if left := running(p.sleep); len(left) > 0 {
				t.Errorf("it still runs: %q", left)
			}
		})
	}
}

// TestStopped: when the requester stops, what runs ends and every later call
// says so, by the connection that is there; a new one is refused.
func TestStopped(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	id := p.open(p.commands)
	var agents []*agent
	var names []string
	for _, l := range []link{stdio, overHTTP} {
		for _, era := range eras {
			agents = append(agents, p.connect(t, l, era, id))
			names = append(names, l.name+" "+era)
		}
	}
	params := &mcp.CallToolParams{Name: "run_command", Arguments: object{"argv": []string{"sh", "long.sh"}, "cwd": "app", "yield_ms": 30000}}
	params.SetProgressToken("x")
	done := make(chan *mcp.CallToolResult, 1)
	go func() {
		r, err := agents[0].CallTool(t.Context(), params)
		if err != nil {
			t.Error(err)
		}
		done <- r
	}()
	<-agents[0].progress
	var stopped sessions.Stopped
	p.must(p.req.api.Post(t.Context(), "/v1/sessions/"+id+"/stop", sessions.StopRequest{Reason: "enough"}, &stopped))
	if stopped.TookMS > 1000 || stopped.State != "killed" {
		t.Errorf("stopped: %+v", stopped)
	}
	if r := <-done; r == nil || !r.IsError || !strings.Contains(textOf(t, r), "killed") {
		t.Errorf("the command that ran: %+v", r)
	}
	p.until("the provider knows", func() bool { return p.show(p.prov, id).State == "killed" })
	for i, a := range agents {
		t.Run(names[i], func(t *testing.T) {
			a.t = t
			a.denied("stat", object{"path": "app/a.txt"}, "killed")
		})
	}
	if _, err := p.prov.api.Upgrade(t.Context(), "/v1/sessions/"+id+"/mcp"); err == nil {
		t.Error("a new agent was let in")
	}
	p.until("both have signed", func() bool { return p.show(p.prov, id).Cosigned && p.show(p.req, id).Cosigned })
	for i, a := range agents {
		t.Run("settled "+names[i], func(t *testing.T) {
			a.t = t
			a.denied("stat", object{"path": "app/a.txt"}, "killed")
		})
	}
}
