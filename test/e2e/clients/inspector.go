//go:build unix

package clients

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/weftmesh/weft/test/e2e/world"
)

// Inspect makes one request with the MCP Inspector's command line, which
// starts the server, asks once and ends both. Method is such as "tools/list"
// or "tools/call"; tool and args are for the latter. The result comes as the
// Inspector prints it.
func (s *Set) Inspect(t testing.TB, w *world.World, srv Server, method, tool string, args map[string]any) (json.RawMessage, error) {
	t.Helper()
	argv := []string{s.node, s.path("node_modules", "@modelcontextprotocol", "inspector", "cli", "build", "cli.js"), "--cli"}
	for _, kv := range srv.Env {
		argv = append(argv, "-e", kv)
	}
	// The Inspector is two programs, and each takes one "--" off: options for
	// the second come after the first, the server's flags after the second.
	argv = append(argv, "--")
	if tool != "" {
		argv = append(argv, "--tool-name", tool)
	}
	for _, name := range slices.Sorted(maps.Keys(args)) {
		v, ok := args[name].(string)
		if !ok {
			b, err := json.Marshal(args[name])
			if err != nil {
				t.Fatal(err)
			}
			v = string(b)
		}
		argv = append(argv, "--tool-arg", name+"="+v)
	}
	argv = append(argv, "--method", method, srv.Argv[0], "--")
	argv = append(argv, srv.Argv[1:]...)
	env := w.Env(w.Dir)
	if srv.Node != nil {
		env = srv.Node.Env()
	}
	p := w.Start(t, world.Spec{Name: "mcp inspector", Argv: argv, Env: env, Node: srv.Node, Stdin: strings.NewReader("")})
	code := p.Wait(t, callPatience)
	if code != 0 {
		return nil, fmt.Errorf("inspector: exit code %d: %s%s", code, p.Stdout(), p.Stderr())
	}
	return json.RawMessage(p.Stdout()), nil
}
