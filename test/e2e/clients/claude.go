//go:build unix

package clients

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/weftmesh/weft/test/e2e/model"
)

func (a *Agent) claude(t testing.TB, m *model.Server) {
	t.Helper()
	a.exec = []string{install(t, "npm-more").path("node_modules", "@anthropic-ai", "claude-code-linux-x64", "claude")}
	a.env = []string{"ANTHROPIC_BASE_URL=" + m.URL, "ANTHROPIC_API_KEY=sk-ant-e2e-000",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1", "DISABLE_TELEMETRY=1"}
	a.kind = kind{
		argv: func(exec, extra []string, prompt string) []string {
			return append(append(slices.Clone(exec), "-p", prompt, "--max-turns", "40", "--output-format", "json"), extra...)
		},
		server: func(t testing.TB, a *Agent, s Server, name string) []string {
			file := a.json(t, "mcp.json", object{"mcpServers": object{name: object{"type": "stdio",
				"command": s.Argv[0], "args": s.Argv[1:], "env": variables(s.Env)}}})
			return []string{"--mcp-config", file, "--strict-mcp-config", "--allowedTools", "mcp__" + name}
		},
		answer: func(stdout string) string {
			var r struct {
				Result string `json:"result"`
			}
			if json.Unmarshal([]byte(stdout), &r) != nil {
				return ""
			}
			return r.Result
		},
	}
}
