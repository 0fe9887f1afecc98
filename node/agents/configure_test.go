package agents

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConfigure(t *testing.T) {
	t.Parallel()
	mcp := []string{"/opt/weft", "--home", "/h o", "mcp", "abc"}
	for name, tc := range map[string]struct {
		argv  []string
		agent string
		want  []string
		env   string
		file  string
	}{
		"claude": {
			argv: []string{"/usr/bin/claude", "-p", "do it"}, agent: "claude",
			want: []string{"/usr/bin/claude", "--mcp-config=/d/mcp.json", "--strict-mcp-config", "--allowedTools=mcp__weft", "-p", "do it"},
			file: `{"mcpServers":{"weft":{"args":["--home","/h o","mcp","abc"],"command":"/opt/weft","type":"stdio"}}}`,
		},
		"codex": {
			argv: []string{"codex", "exec", "x"}, agent: "codex",
			want: []string{"codex", "-c", `mcp_servers.weft.command="/opt/weft"`, "-c", `mcp_servers.weft.args=["--home","/h o","mcp","abc"]`,
				"-c", `mcp_servers.weft.default_tools_approval_mode="approve"`, "-c", "mcp_servers.weft.required=true", "exec", "x"},
		},
		"gemini": {
			argv: []string{"gemini", "-p", "x"}, agent: "gemini", want: []string{"gemini", "-p", "x"},
			env:  "GEMINI_CLI_SYSTEM_SETTINGS_PATH=/d/settings.json",
			file: `{"mcpServers":{"weft":{"args":["--home","/h o","mcp","abc"],"command":"/opt/weft","trust":true}}}`,
		},
		"opencode": {
			argv: []string{"opencode", "run"}, agent: "opencode", want: []string{"opencode", "run"},
			env: `OPENCODE_CONFIG_CONTENT={"mcp":{"weft":{"command":["/opt/weft","--home","/h o","mcp","abc"],"enabled":true,"type":"local"}}}`,
		},
		"unknown": {
			argv: []string{"my-agent"}, want: []string{"my-agent"},
			env: `WEFT_MCP_COMMAND='/opt/weft' '--home' '/h o' 'mcp' 'abc'`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := Configure(tc.argv, mcp, "/d")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, l.Argv); diff != "" {
				t.Errorf("argv (-want +got):\n%s", diff)
			}
			if l.Agent != tc.agent {
				t.Errorf("agent %q, want %q", l.Agent, tc.agent)
			}
			if tc.env != "" && !strings.Contains("\n"+strings.Join(l.Env, "\n")+"\n", "\n"+tc.env+"\n") {
				t.Errorf("env %q lacks %q", l.Env, tc.env)
			}
			var files []string
			for _, raw := range l.Files {
				files = append(files, string(raw))
			}
			if tc.file != "" && (len(files) != 1 || files[0] != tc.file) {
				t.Errorf("files %q, want %q", files, tc.file)
			}
		})
	}
	if _, err := Configure(nil, mcp, "/d"); err == nil {
		t.Error("no command was taken")
	}
}

func TestShellQuote(t *testing.T) {
	t.Parallel()
	if got, want := shellQuote([]string{"a b", "it's"}), `'a b' 'it'\''s'`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
