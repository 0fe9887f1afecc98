//go:build linux

package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/weftmesh/weft/test/e2e/world"
)

// agent is an MCP client with a server of any kind behind it.
type agent struct {
	session *mcp.ClientSession
	// isWeft says that answers begin with weft's line about the content.
	isWeft bool
	made   atomic.Uint64
}

// connect makes a client for the length of the benchmark.
func connect(tb testing.TB, t mcp.Transport, isWeft bool) *agent {
	tb.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
	ctx, cancel := context.WithTimeout(context.Background(), world.Patience)
	defer cancel()
	s, err := client.Connect(ctx, t, nil)
	if err != nil {
		tb.Fatalf("connect an MCP client: %v", err)
	}
	tb.Cleanup(func() { s.Close() })
	return &agent{session: s, isWeft: isWeft}
}

func (a *agent) call(ctx context.Context, tool string, args []byte) (answer, error) {
	a.made.Add(1)
	res, err := a.session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(args)})
	if err != nil {
		return answer{}, err
	}
	var text []byte
	for _, c := range res.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			text = append(text, t.Text...)
		}
	}
	switch {
	case a.isWeft:
		return split(!res.IsError, text)
	case res.IsError:
		return answer{}, fmt.Errorf("%.300q", text)
	}
	return answer{body: text}, nil
}

// maxLine holds the largest answer of a plain server.
const maxLine = 8 << 20

// plainUnix is a plain server behind a unix socket.
func plainUnix(tb testing.TB, w *world.World, dir string) (*agent, []int) {
	tb.Helper()
	socket := filepath.Join(w.Dir, "plain.sock")
	p, _ := peer(tb, w, "mcp-unix", dir, socket)
	c, err := net.Dial("unix", socket)
	if err != nil {
		tb.Fatal(err)
	}
	return connect(tb, &mcp.IOTransport{Reader: c, Writer: c, MaxLineLength: maxLine}, false), []int{p.PID()}
}

// plainHTTP is a plain server behind streamable HTTP on loopback.
func plainHTTP(tb testing.TB, w *world.World, dir string) (*agent, []int) {
	tb.Helper()
	p, url := peer(tb, w, "mcp-http", dir)
	return connect(tb, httpTransport(tb, url, ""), false), []int{p.PID()}
}

// httpTransport is the SDK's client with connections of its own, which close
// with the benchmark, and no stream for a server that says nothing unasked.
func httpTransport(tb testing.TB, url, token string) mcp.Transport {
	t := &http.Transport{MaxIdleConnsPerHost: large / rangeSize}
	tb.Cleanup(t.CloseIdleConnections)
	return &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: bearer{token, t}}, DisableStandaloneSSE: true}
}

// bearer shows a token with each request.
type bearer struct {
	token string
	next  http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	return b.next.RoundTrip(r)
}

// weftStdio is weft mcp as an agent starts it.
func weftStdio(tb testing.TB, prov *world.Node, id string) (*agent, int) {
	tb.Helper()
	argv := prov.Argv("mcp", id)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = prov.Env()
	a := connect(tb, &mcp.CommandTransport{Command: cmd}, true)
	return a, cmd.Process.Pid
}

// weftHTTP is weft mcp --http.
func weftHTTP(tb testing.TB, prov *world.Node, id string) (*agent, int) {
	tb.Helper()
	p := prov.Start(tb, world.Spec{}, "mcp", id, "--http", "127.0.0.1:0", "--json")
	var ready struct{ URL, Token string }
	readLine(tb, p, &ready)
	return connect(tb, httpTransport(tb, ready.URL, ready.Token), true), p.PID()
}

// peer starts the far side of a contender and returns its address.
func peer(tb testing.TB, w *world.World, args ...string) (*world.Process, string) {
	tb.Helper()
	p := w.Start(tb, world.Spec{Argv: append([]string{world.Build(tb, "test/bench/peer")}, args...), Env: w.Env(w.Dir)})
	var ready struct{ Addr string }
	readLine(tb, p, &ready)
	return p, ready.Addr
}

// readLine reads the JSON line that a process prints when it is ready.
func readLine(tb testing.TB, p *world.Process, into any) {
	tb.Helper()
	line, ok := p.Line(world.Patience)
	if !ok {
		tb.Fatalf("no ready line: %s", p.Stderr())
	}
	if err := json.NewDecoder(bytes.NewReader(line)).Decode(into); err != nil {
		tb.Fatalf("ready line %q: %v", line, err)
	}
}
