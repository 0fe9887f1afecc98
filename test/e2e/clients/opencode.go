//go:build unix

package clients

import (
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/weftmesh/weft/test/e2e/model"
	"github.com/weftmesh/weft/test/e2e/world"
)

type object = map[string]any

// opencodeConfig is opencode's global configuration, below HOME.
const opencodeConfig = ".config/opencode/opencode.json"

func (a *Agent) opencode(t testing.TB, m *model.Server) {
	t.Helper()
	bin := Install(t).path("node_modules", "opencode-linux-x64", "bin", "opencode")
	if _, err := os.Stat(bin); err != nil {
		world.Missing(t, "a pinned opencode build for %s/%s: %v", runtime.GOOS, runtime.GOARCH, err)
	}
	a.exec = []string{bin}
	a.env = []string{"OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1"}
	config := object{
		"$schema": "https://opencode.ai/config.json", "autoupdate": false, "share": "disabled",
		"provider": object{"e2e": object{"npm": "@ai-sdk/openai-compatible", "name": "e2e",
			"options": object{"baseURL": m.URL + "/v1", "apiKey": "x"},
			"models":  object{model.Name: object{"name": model.Name}}}},
		"model": "e2e/" + model.Name, "small_model": "e2e/" + model.Name,
	}
	a.json(t, opencodeConfig, config)
	a.kind = kind{
		argv: func(exec, extra []string, prompt string) []string {
			return append(append(slices.Clone(exec), "run"), append(slices.Clone(extra), prompt)...)
		},
		server: func(t testing.TB, a *Agent, s Server, name string) []string {
			config["mcp"] = object{name: object{"type": "local", "command": s.Argv, "enabled": true, "environment": variables(s.Env)}}
			a.json(t, opencodeConfig, config)
			return nil
		},
		answer: func(stdout string) string { return strings.TrimSpace(stdout) },
	}
}
