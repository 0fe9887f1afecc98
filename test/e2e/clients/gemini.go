//go:build unix

package clients

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weftmesh/weft/test/e2e/model"
)

// geminiConfig is Gemini CLI's configuration, below HOME.
const geminiConfig = ".gemini/settings.json"

func (a *Agent) gemini(t testing.TB, m *model.Server) {
	t.Helper()
	set := install(t, "npm-more")
	a.exec = []string{set.path("node_modules", ".bin", "gemini")}
	a.env = []string{"GEMINI_API_KEY=e2e", "GOOGLE_GEMINI_BASE_URL=" + m.URL, "GEMINI_CLI_TRUST_WORKSPACE=true",
		// As its users have it: it takes no settings from below a folder that
		// everyone may write to.
		"TMPDIR=" + os.TempDir()}
	config := object{
		"security":  object{"auth": object{"selectedType": "gemini-api-key"}},
		"telemetry": object{"enabled": false},
		"privacy":   object{"usageStatisticsEnabled": false},
		"general":   object{"enableAutoUpdate": false},
	}
	a.json(t, geminiConfig, config)
	a.kind = kind{
		argv: func(exec, extra []string, prompt string) []string {
			// Without a model its router asks another model first, and waits.
			return append(append(slices.Clone(exec), "-m", "gemini-2.5-flash", "--approval-mode", "yolo"), append(slices.Clone(extra), "-p", prompt)...)
		},
		server: func(t testing.TB, a *Agent, s Server, name string) []string {
			config["mcpServers"] = object{name: object{"command": s.Argv[0], "args": s.Argv[1:], "env": variables(s.Env), "trust": true}}
			a.json(t, geminiConfig, config)
			return nil
		},
		answer: func(stdout string) string { return strings.TrimSpace(stdout) },
	}
}
