package demo

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/weftmesh/weft/workspace/requester"
)

// secret is in the folder and must not leave it, from .env or anywhere else.
const secret = "sk-demo-5f1d9c0e7a3b4862"

// shop is the folder: a Go package with a bug, its test, a secret, a link out.
var shop = map[string]string{
	"go.mod":        "module shop\n\ngo 1.24\n",
	"total.go":      "package shop\n\n// Total adds two prices.\nfunc Total(a, b int) int { return a - b }\n",
	"total_test.go": "package shop\n\nimport \"testing\"\n\nfunc TestTotal(t *testing.T) {\n\tif got := Total(40, 2); got != 42 {\n\t\tt.Fatalf(\"Total(40, 2) = %d, want 42\", got)\n\t}\n}\n",
	".env":          "PAYMENT_KEY=" + secret + "\n",
	"notes.md":      "Call the payment service with " + secret + ", never from the browser.\n",
}

func makeFolder(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the folder: %w", err)
	}
	for name, content := range shop {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			return fmt.Errorf("fill the folder: %w", err)
		}
	}
	if err := os.Symlink(os.TempDir(), filepath.Join(dir, "out")); err != nil {
		return fmt.Errorf("fill the folder: %w", err)
	}
	if _, err := exec.LookPath("git"); err != nil {
		return nil // a folder without git is a folder too
	}
	cmd := exec.CommandContext(ctx, "git", "init", "--quiet", dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git init: %w: %s", err, out)
	}
	return nil
}

// agent is a stock MCP client that talks to weft mcp.
type agent struct{ session *mcp.ClientSession }

// agent connects an MCP client for the length of do, and shows each call as
// the requester sees it.
func (p *play) agent(ctx context.Context, do func(*agent) error) error {
	watching, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	seen := make(chan struct{}, 64)
	wg.Go(func() { p.watch(watching, seen) })
	defer wg.Wait()
	defer stop()
	select {
	case <-seen: // the watch has begun
	case <-ctx.Done():
		return ctx.Err()
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "demo-agent", Version: "1"}, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
	cmd := exec.CommandContext(ctx, p.cfg.Weft, "--home", p.prov.home, "mcp", p.id)
	session, err := client.Connect(ctx, &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		return fmt.Errorf("connect the agent: %w", err)
	}
	defer session.Close()
	return do(&agent{session})
}

// watch shows the requester's events until ctx ends.
func (p *play) watch(ctx context.Context, seen chan<- struct{}) {
	p.req.client.Events(ctx, "GET", "/v1/sessions/"+p.id+"/watch", nil, func(raw []byte) error {
		var e requester.Event
		if err := json.Unmarshal(raw, &e); err != nil {
			return err
		}
		if e.Tool != "" {
			p.cfg.Show(Event{Event: "call", Tool: e.Tool, Verdict: e.Verdict, Code: e.Code, Path: e.Path,
				Text: fmt.Sprintf("%d ms, %d bytes", e.MS, e.Bytes)})
		}
		select {
		case seen <- struct{}{}:
		default:
		}
		return nil
	})
}

// expect makes a call and checks how it ended and what it says. The secret
// must be in no answer.
func (a *agent) expect(ctx context.Context, verdict, tool string, args map[string]any, says string) error {
	ctx, cancel := context.WithTimeout(ctx, testPatience)
	defer cancel()
	res, err := a.session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return fmt.Errorf("%s: %w", tool, err)
	}
	text := textOf(res)
	switch {
	case strings.Contains(text, secret):
		return fmt.Errorf("%s let the secret out", tool)
	case res.IsError != (verdict != "ok"):
		return fmt.Errorf("%s: want %s, got: %s", tool, verdict, text)
	case !strings.Contains(text, says):
		return fmt.Errorf("%s: want %q in: %s", tool, says, text)
	}
	return nil
}

func textOf(res *mcp.CallToolResult) string {
	var parts []string
	for _, c := range res.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			parts = append(parts, t.Text)
		}
	}
	return strings.Join(parts, "\n")
}

// work lets the agent find the bug, mend it and run the test, and try what it
// may not do.
func (p *play) work(ctx context.Context) error {
	p.say("step", "The agent works by tool calls; the requester sees and decides each")
	err := p.agent(ctx, func(a *agent) error {
		steps := []struct {
			verdict, tool string
			args          map[string]any
			says          string
		}{
			{"ok", "workspace_info", nil, "shop"},
			{"ok", "list_dir", map[string]any{"path": "shop"}, "total.go"},
			{"ok", "grep", map[string]any{"path": "shop", "pattern": "func Total"}, "total.go"},
			{"ok", "edit_file", map[string]any{"path": "shop/total.go", "edits": []map[string]any{{"old": "a - b", "new": "a + b"}}}, "+func Total"},
			{"ok", "read_file", map[string]any{"path": "shop/notes.md"}, "[REDACTED"},
			{"denied", "read_file", map[string]any{"path": "shop/.env"}, "DENIED secret_path"},
			{"denied", "read_file", map[string]any{"path": "shop/out/passwd"}, "DENIED special_file"},
			{"denied", "write_file", map[string]any{"path": "../evil", "content": "x", "mode": "create"}, "DENIED bad_path"},
			{"denied", "run_command", map[string]any{"argv": []string{"sh", "-c", "id"}}, "DENIED command_not_granted"},
		}
		for _, s := range steps {
			if err := a.expect(ctx, s.verdict, s.tool, s.args, s.says); err != nil {
				return err
			}
		}
		return a.test(ctx)
	})
	if err != nil {
		return err
	}
	raw, err := os.ReadFile(filepath.Join(p.dir, "shop", "total.go"))
	if err != nil || !strings.Contains(string(raw), "a + b") {
		return fmt.Errorf("the edit is not in the folder (%v)", err)
	}
	p.say("fact", "the bug is mended in the real folder, the test passes, four attempts were refused, the secret stayed")
	return nil
}

// test runs the granted test to its end, following the job if it takes long.
func (a *agent) test(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, testPatience)
	defer cancel()
	res, err := a.session.CallTool(ctx, &mcp.CallToolParams{Name: "run_command",
		Arguments: map[string]any{"argv": []string{"go", "test", "./..."}, "cwd": "shop", "yield_ms": 30000}})
	for cursor := 0; err == nil; {
		text := textOf(res)
		header, rest, _ := strings.Cut(text, "\n")
		switch {
		case res.IsError:
			return fmt.Errorf("go test: %s", text)
		case strings.Contains(header, "state=exited"):
			if !strings.Contains(header, "exit=0") {
				return fmt.Errorf("the test fails: %s", rest)
			}
			return nil
		}
		if cursor, err = strconv.Atoi(field(header, "next")); err != nil {
			return fmt.Errorf("go test: no cursor in %q", header)
		}
		res, err = a.session.CallTool(ctx, &mcp.CallToolParams{Name: "job_output",
			Arguments: map[string]any{"job": field(header, "job"), "after": cursor, "wait_ms": 20000}})
	}
	return fmt.Errorf("go test: %w", err)
}

// field reads key=value out of a result's first line.
func field(header, key string) string {
	for w := range strings.FieldsSeq(header) {
		if v, ok := strings.CutPrefix(w, key+"="); ok {
			return v
		}
	}
	return ""
}
