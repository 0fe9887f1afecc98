//go:build unix

package clients

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weftmesh/weft/test/e2e/model"
	"github.com/weftmesh/weft/test/e2e/world"
)

// agentPatience bounds one headless run; the slowest takes 12 s on a loaded
// machine.
const agentPatience = 240 * time.Second

// Agent is a coding agent with a home of its own, configured for one scripted
// model and nothing else.
type Agent struct {
	// Name is opencode, codex, claude or gemini.
	Name string
	// Version is what the agent says of itself.
	Version string
	// Dir is the empty folder it runs in.
	Dir string

	w     *world.World
	home  string
	env   []string
	kind  kind
	exec  []string
	extra []string // arguments that name its MCP configuration
}

// kind is what differs between agents.
type kind struct {
	// argv makes the headless command; extra goes where flags go.
	argv func(exec, extra []string, prompt string) []string
	// server writes the agent's own configuration of an MCP server and
	// returns arguments to add.
	server func(t testing.TB, a *Agent, s Server, name string) []string
	// answer finds the agent's final text in its output.
	answer func(stdout string) string
}

// Names are the agents that every run drives.
func Names() []string { return []string{"opencode", "codex"} }

// Asked are the agents that WEFT_E2E_AGENTS asks for in addition.
func Asked() []string {
	var asked []string
	for name := range strings.SplitSeq(os.Getenv("WEFT_E2E_AGENTS"), ",") {
		if name == "claude" || name == "gemini" {
			asked = append(asked, name)
		}
	}
	return asked
}

// NewAgent makes an agent that asks the model.
func NewAgent(t testing.TB, w *world.World, name string, m *model.Server) *Agent {
	t.Helper()
	a := &Agent{Name: name, w: w}
	var err error
	if a.home, err = os.MkdirTemp(w.Dir, name+"-"); err != nil {
		t.Fatal(err)
	}
	a.Dir = filepath.Join(a.home, "work")
	if err := os.Mkdir(a.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	switch name {
	case "opencode":
		a.opencode(t, m)
	case "codex":
		a.codex(t, m)
	case "claude":
		a.claude(t, m)
	case "gemini":
		a.gemini(t, m)
	default:
		t.Fatalf("no agent named %q", name)
	}
	a.Version = a.version(t)
	return a
}

// version runs the agent with --version.
func (a *Agent) version(t testing.TB) string {
	t.Helper()
	p := a.w.Start(t, world.Spec{Argv: append(slices.Clone(a.exec), "--version"), Env: a.Env(), Dir: a.Dir, Stdin: strings.NewReader("")})
	if code := p.Wait(t, agentPatience); code != 0 {
		t.Fatalf("%s --version: exit code %d\n%s", a.Name, code, p.Stderr())
	}
	return strings.TrimSpace(p.Stdout())
}

// Env is the agent's whole environment.
func (a *Agent) Env() []string { return a.w.Env(a.home, a.env...) }

// Argv is the command of a headless run.
func (a *Agent) Argv(prompt string) []string { return a.kind.argv(a.exec, a.extra, prompt) }

// Use writes the agent's own configuration of an MCP server, as its user
// would. weft work does this by itself.
func (a *Agent) Use(t testing.TB, name string, s Server) {
	t.Helper()
	a.extra = a.kind.server(t, a, s, name)
}

// Turn is a finished headless run.
type Turn struct {
	// Answer is the agent's final text, Output everything it printed.
	Answer, Output string
	// Code is the exit code, Took the wall time.
	Code int
	Took time.Duration
}

// Run lets the agent answer a prompt.
func (a *Agent) Run(t testing.TB, prompt string) Turn {
	t.Helper()
	return a.RunAs(t, a.Argv(prompt), nil)
}

// RunAs runs a command that ends in the agent's, such as weft work, in the
// network of a node.
func (a *Agent) RunAs(t testing.TB, argv []string, n *world.Node) Turn {
	t.Helper()
	began := time.Now()
	p := a.w.Start(t, world.Spec{Name: a.Name, Argv: argv, Env: a.Env(), Dir: a.Dir, Node: n, Stdin: strings.NewReader("")})
	code := p.Wait(t, agentPatience)
	return Turn{Answer: a.kind.answer(p.Stdout()), Output: p.Stdout() + p.Stderr(), Code: code, Took: time.Since(began)}
}

// file writes a file below the agent's home.
func (a *Agent) file(t testing.TB, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(a.home, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// json writes a value as a file below the agent's home.
func (a *Agent) json(t testing.TB, name string, v any) string {
	t.Helper()
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return a.file(t, name, b)
}

// variables turns KEY=VALUE pairs into a map, as configurations want them.
func variables(env []string) map[string]string {
	m := map[string]string{}
	for _, kv := range env {
		k, v, _ := strings.Cut(kv, "=")
		m[k] = v
	}
	return m
}
