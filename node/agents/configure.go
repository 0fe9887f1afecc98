package agents

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/weftmesh/weft/protocols/strict"
)

// serverName is what the agent calls the MCP server; its tools show as
// mcp__weft__read_file and the like.
const serverName = "weft"

// Launch says how to start an agent.
type Launch struct {
	Argv []string
	// Env holds what is added to the environment, as KEY=VALUE.
	Env []string
	// Files are written, owner-only, before the start: name to content.
	Files map[string][]byte
	// Agent is the known agent, or "" if it isn't one.
	Agent string
}

// Configure says how to start argv with the MCP server that mcp runs. Files
// go below dir, which the caller removes afterwards.
func Configure(argv, mcp []string, dir string) (Launch, error) {
	if len(argv) == 0 || len(mcp) == 0 {
		return Launch{}, fmt.Errorf("no command to run")
	}
	l := Launch{Argv: argv, Env: []string{"WEFT_MCP_COMMAND=" + shellQuote(mcp)}, Files: map[string][]byte{}}
	name := strings.TrimSuffix(filepath.Base(argv[0]), filepath.Ext(argv[0]))
	known, ok := map[string]func(*Launch, []string, string) error{
		"claude": claude, "codex": codex, "gemini": gemini, "opencode": opencode,
	}[name]
	if !ok {
		return l, nil
	}
	l.Agent = name
	return l, known(&l, mcp, dir)
}

// claude takes a file with the servers, and only those. allowedTools names the
// server, so that the agent doesn't ask for each call: the requester's gate
// decides.
func claude(l *Launch, mcp []string, dir string) error {
	file := filepath.Join(dir, "mcp.json")
	raw, err := strict.Marshal(map[string]any{"mcpServers": map[string]any{
		serverName: map[string]any{"type": "stdio", "command": mcp[0], "args": mcp[1:]}}})
	if err != nil {
		return err
	}
	l.Files[file] = raw
	l.insert("--mcp-config="+file, "--strict-mcp-config", "--allowedTools=mcp__"+serverName)
	return nil
}

// codex takes settings as TOML values in arguments.
func codex(l *Launch, mcp []string, _ string) error {
	var args []string
	for _, a := range mcp[1:] {
		args = append(args, strconv.Quote(a))
	}
	prefix := "mcp_servers." + serverName + "."
	l.insert(
		"-c", prefix+"command="+strconv.Quote(mcp[0]),
		"-c", prefix+"args=["+strings.Join(args, ",")+"]",
		"-c", prefix+`default_tools_approval_mode="approve"`,
		"-c", prefix+"required=true", // wait for the server; without tools the agent has nothing to do
	)
	return nil
}

// gemini reads system settings from a file that a variable names; they come on
// top of the user's own.
func gemini(l *Launch, mcp []string, dir string) error {
	file := filepath.Join(dir, "settings.json")
	raw, err := strict.Marshal(map[string]any{"mcpServers": map[string]any{
		serverName: map[string]any{"command": mcp[0], "args": mcp[1:], "trust": true}}})
	if err != nil {
		return err
	}
	l.Files[file] = raw
	l.Env = append(l.Env, "GEMINI_CLI_SYSTEM_SETTINGS_PATH="+file)
	return nil
}

// opencode merges settings from a variable over the user's own.
func opencode(l *Launch, mcp []string, _ string) error {
	raw, err := strict.Marshal(map[string]any{"mcp": map[string]any{
		serverName: map[string]any{"type": "local", "command": mcp, "enabled": true}}})
	if err != nil {
		return err
	}
	l.Env = append(l.Env, "OPENCODE_CONFIG_CONTENT="+string(raw))
	return nil
}

// insert puts arguments right behind the program's name, before the user's.
func (l *Launch) insert(args ...string) {
	l.Argv = append(append([]string{l.Argv[0]}, args...), l.Argv[1:]...)
}

// shellQuote writes argv as one POSIX shell command.
func shellQuote(argv []string) string {
	var words []string
	for _, a := range argv {
		words = append(words, "'"+strings.ReplaceAll(a, "'", `'\''`)+"'")
	}
	return strings.Join(words, " ")
}
