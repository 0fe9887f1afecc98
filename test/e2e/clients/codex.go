//go:build unix

package clients

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/weftmesh/weft/test/e2e/model"
)

// codexConfig is Codex's configuration, below HOME.
const codexConfig = ".codex/config.toml"

func (a *Agent) codex(t testing.TB, m *model.Server) {
	t.Helper()
	set := Install(t)
	a.exec = []string{set.path("node_modules", ".bin", "codex")}
	a.env = []string{"E2E_KEY=x"}
	base := fmt.Sprintf(`model = %q
model_provider = "e2e"
approval_policy = "never"
sandbox_mode = "read-only"
[model_providers.e2e]
name = "e2e"
base_url = %q
env_key = "E2E_KEY"
wire_api = "responses"
`, model.Name, m.URL+"/v1")
	a.file(t, codexConfig, []byte(base))
	a.kind = kind{
		argv: func(exec, extra []string, prompt string) []string {
			return append(append(slices.Clone(exec), "exec", "--json", "--skip-git-repo-check"), append(slices.Clone(extra), prompt)...)
		},
		server: func(t testing.TB, a *Agent, s Server, name string) []string {
			env := variables(s.Env)
			var pairs []string
			for _, k := range slices.Sorted(maps.Keys(env)) {
				pairs = append(pairs, quote(k)+" = "+quote(env[k]))
			}
			var args []string
			for _, arg := range s.Argv[1:] {
				args = append(args, quote(arg))
			}
			a.file(t, codexConfig, fmt.Appendf([]byte(base), `[mcp_servers.%s]
command = %s
args = [%s]
env = { %s }
default_tools_approval_mode = "approve"
`, name, quote(s.Argv[0]), strings.Join(args, ", "), strings.Join(pairs, ", ")))
			return nil
		},
		answer: codexAnswer,
	}
}

// quote writes a TOML basic string, whose escapes are JSON's.
func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings always encode
	}
	return string(b)
}

// codexAnswer finds the last agent message among the events of --json.
func codexAnswer(stdout string) string {
	answer := ""
	for line := range strings.SplitSeq(stdout, "\n") {
		var e struct {
			Item struct{ Type, Text string } `json:"item"`
		}
		if json.Unmarshal([]byte(line), &e) == nil && e.Item.Type == "agent_message" {
			answer = e.Item.Text
		}
	}
	return answer
}
