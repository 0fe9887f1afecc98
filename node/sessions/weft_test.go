package sessions_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// build makes the real command.
func build(t testing.TB) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "weft")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "github.com/weftmesh/weft/cmd/weft").CombinedOutput(); err != nil {
		t.Fatalf("build weft: %v\n%s", err, out)
	}
	return bin
}

// serving is a weft mcp --http that runs.
type serving struct{ URL, Token string }

// serve runs weft mcp --http for a session.
func (p *pair) serve(t testing.TB, bin, id string) serving {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, bin, "--home", string(p.prov.dir), "mcp", id, "--http", "127.0.0.1:0", "--json")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		cmd.Wait()
	})
	var s serving
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &s)
	}
	if err != nil || s.URL == "" || len(s.Token) < 32 {
		t.Fatalf("first line %q, %v", line, err)
	}
	return s
}

// showing adds a header to every request.
type showing struct {
	token string
	base  http.RoundTripper
}

func (s showing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+s.token)
	return s.base.RoundTrip(r)
}

// TestWeftMCP: the real command between a stock client and the node.
func TestWeftMCP(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds the command")
	}
	p := newPair(t)
	id := p.open(p.commands)
	bin := build(t)

	child := link{"weft mcp", func(t testing.TB, p *pair, id string) mcp.Transport {
		cmd := exec.Command(bin, "--home", string(p.prov.dir), "mcp", id)
		cmd.Stderr = os.Stderr
		return &mcp.CommandTransport{Command: cmd}
	}}
	for _, era := range eras {
		t.Run("stdio "+era, func(t *testing.T) {
			a := p.connect(t, child, era, id)
			if got := a.says("read_file", object{"path": "app/a.txt"}); !strings.HasSuffix(got, "\nalpha\nbeta\n") {
				t.Errorf("read_file: %q", got)
			}
			a.denied("read_file", object{"path": "app/.env"}, "secret_path")
		})
	}

	s := p.serve(t, bin, id)
	for _, era := range eras {
		t.Run("http "+era, func(t *testing.T) {
			transport := &http.Transport{}
			t.Cleanup(transport.CloseIdleConnections)
			a := p.connect(t, link{"weft mcp --http", func(testing.TB, *pair, string) mcp.Transport {
				return &mcp.StreamableClientTransport{Endpoint: s.URL, HTTPClient: &http.Client{Transport: showing{s.Token, transport}}}
			}}, era, id)
			if got := a.says("read_file", object{"path": "app/a.txt"}); !strings.HasSuffix(got, "\nalpha\nbeta\n") {
				t.Errorf("read_file: %q", got)
			}
			a.denied("read_file", object{"path": "app/.env"}, "secret_path")
			params := &mcp.CallToolParams{Name: "run_command", Arguments: object{"argv": []string{"sh", "tick.sh"}, "cwd": "app"}}
			params.SetProgressToken("x")
			if r, err := a.CallTool(t.Context(), params); err != nil || r.IsError {
				t.Errorf("run_command: %+v, %v", r, err)
			}
			if len(a.progress) < 2 {
				t.Errorf("%d pieces of progress came", len(a.progress))
			}
		})
	}

	t.Run("bearer", func(t *testing.T) { bearer(t, p, s) })
	t.Run("another listener has another token", func(t *testing.T) {
		if other := p.serve(t, bin, id); other.Token == s.Token || post(t, other.URL, map[string]string{"Authorization": "Bearer " + s.Token}, discover).status != http.StatusUnauthorized {
			t.Error("a token opens another listener too")
		}
	})
	if v := p.show(p.req, id); v.State != "open" {
		t.Errorf("the session is %+v", v)
	}
}

// discover is a request that every 2026-07-28 client begins with.
const discover = `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`

// reply is an HTTP answer.
type reply struct {
	status int
	header http.Header
	body   string
}

// post sends a request by hand.
func post(t testing.TB, url string, header map[string]string, body string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "server/discover"} {
		req.Header.Set(k, v)
	}
	for k, v := range header {
		if v == "" {
			req.Header.Del(k)
			continue
		}
		req.Header.Set(k, v)
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport, Timeout: patience}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header, string(raw)}
}

// bearer: only who shows the token is served, and no page of a browser ever.
func bearer(t *testing.T, p *pair, s serving) {
	node, err := os.ReadFile(filepath.Join(p.prov.dir.API(), "token"))
	if err != nil {
		t.Fatal(err)
	}
	good := "Bearer " + s.Token
	for name, tc := range map[string]struct {
		header map[string]string
		want   int
	}{
		"the token":                   {map[string]string{"Authorization": good}, http.StatusOK},
		"no token":                    {nil, http.StatusUnauthorized},
		"a wrong token":               {map[string]string{"Authorization": "Bearer " + strings.Repeat("0", len(s.Token))}, http.StatusUnauthorized},
		"the beginning of the token":  {map[string]string{"Authorization": good[:len(good)-1]}, http.StatusUnauthorized},
		"more than the token":         {map[string]string{"Authorization": good + "0"}, http.StatusUnauthorized},
		"another scheme":              {map[string]string{"Authorization": "Basic " + s.Token}, http.StatusUnauthorized},
		"the token alone":             {map[string]string{"Authorization": s.Token}, http.StatusUnauthorized},
		"the node's own token":        {map[string]string{"Authorization": "Bearer " + strings.TrimSpace(string(node))}, http.StatusUnauthorized},
		"a page without the token":    {map[string]string{"Origin": "https://example.org"}, http.StatusForbidden},
		"a page with the token":       {map[string]string{"Origin": "https://example.org", "Authorization": good}, http.StatusForbidden},
		"a page of the same address":  {map[string]string{"Origin": strings.TrimSuffix(s.URL, "/mcp"), "Authorization": good}, http.StatusForbidden},
		"a page with no name":         {map[string]string{"Origin": "null", "Authorization": good}, http.StatusForbidden},
		"a cross-site fetch":          {map[string]string{"Sec-Fetch-Site": "cross-site", "Authorization": good}, http.StatusForbidden},
		"not JSON":                    {map[string]string{"Content-Type": "text/plain", "Authorization": good}, http.StatusUnsupportedMediaType},
		"a client that takes no JSON": {map[string]string{"Accept": "text/html", "Authorization": good}, http.StatusBadRequest},
	} {
		got := post(t, s.URL, tc.header, discover)
		if got.status != tc.want {
			t.Errorf("%s: %d %q, want %d", name, got.status, got.body, tc.want)
		}
		if tc.want == http.StatusUnauthorized && got.header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%s: WWW-Authenticate %q", name, got.header.Get("WWW-Authenticate"))
		}
		if tc.want != http.StatusOK && (strings.Contains(got.body, s.Token) || strings.Contains(got.body, "read_file")) {
			t.Errorf("%s: says %q", name, got.body)
		}
	}
	if got := post(t, s.URL, map[string]string{"Authorization": good}, strings.Repeat(" ", 5<<20)); got.status != http.StatusRequestEntityTooLarge {
		t.Errorf("a request of 5 MiB: %d %.200q", got.status, got.body)
	}
	if got := post(t, s.URL, map[string]string{"Authorization": good}, discover); got.status != http.StatusOK {
		t.Errorf("after that: %d %.200q", got.status, got.body)
	}
}

// TestLineTooLong: a message beyond the limit ends the connection it came on
// and nothing else.
func TestLineTooLong(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	id := p.open(nil)
	agents := []*agent{p.connect(t, stdio, "2025-11-25", id), p.connect(t, overHTTP, "2025-11-25", id), p.connect(t, stdio, "2026-07-28", id)}
	for name, line := range map[string]string{
		"one line":    fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"stat","arguments":{"path":"%s"}}}`+"\n", strings.Repeat("x", 5<<20)),
		"without end": strings.Repeat("x", 5<<20),
		"spaces":      strings.Repeat(" ", 5<<20) + "\n",
	} {
		c := p.upgrade(t, id)
		wrote := make(chan struct{})
		go func() {
			defer close(wrote)
			io.WriteString(c, line) // breaks when the node has had enough
		}()
		if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(c)
		if os.IsTimeout(err) {
			t.Errorf("%s: the connection stays open", name)
		}
		if len(answer) > 4096 {
			t.Errorf("%s: it answers with %d bytes", name, len(answer))
		}
		c.Close()
		<-wrote
		for _, a := range agents {
			if got := a.says("stat", object{"path": "app/a.txt"}); !strings.Contains(got, "size=11") {
				t.Errorf("%s: another agent gets %q", name, got)
			}
		}
	}
	// The same bytes over HTTP.
	url := p.listen(t, id)
	for _, version := range []string{"2026-07-28", "2025-11-25"} {
		if got := post(t, url, map[string]string{"Mcp-Protocol-Version": version}, strings.Repeat(" ", 5<<20)); got.status != http.StatusRequestEntityTooLarge && got.status != http.StatusBadRequest {
			t.Errorf("%s: a request of 5 MiB: %d %.200q", version, got.status, got.body)
		}
	}
	for _, a := range agents {
		a.says("stat", object{"path": "app/a.txt"})
	}
}

// TestGarbage: bytes that are no MCP end at most their own connection.
func TestGarbage(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	id := p.open(nil)
	a := p.connect(t, stdio, "2025-11-25", id)
	for name, text := range map[string]string{
		"not JSON":              "hello\n",
		"HTTP":                  "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"a number":              "5\n",
		"deep":                  strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + "\n",
		"an answer to nothing":  `{"jsonrpc":"2.0","id":77,"result":{}}` + "\n",
		"calls before the rest": `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"stat","arguments":{"path":"app/a.txt"}}}` + "\n",
		"an unknown method":     `{"jsonrpc":"2.0","id":1,"method":"shell/run","params":{}}` + "\n",
		"a version of its own":  `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"1999-01-01","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}` + "\n",
		"nothing":               "",
	} {
		c := p.upgrade(t, id)
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
		if err := c.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(c)
		if os.IsTimeout(err) {
			t.Errorf("%s: the connection stays open", name)
		}
		if strings.Contains(string(got), "size=11") {
			t.Errorf("%s: was served: %q", name, got)
		}
		c.Close()
	}
	a.says("stat", object{"path": "app/a.txt"})
}

// TestStalledAgent: an agent that asks and never reads holds up neither others
// nor the node's end.
func TestStalledAgent(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	if err := os.WriteFile(filepath.Join(p.folder, "big.txt"), []byte(strings.Repeat(strings.Repeat("x", 99)+"\n", 900)), 0o644); err != nil {
		t.Fatal(err)
	}
	id := p.open(nil)
	other := p.connect(t, stdio, "2025-11-25", id)
	c := p.upgrade(t, id)
	const calls = 250 // 22 MiB of answers, more than sockets hold
	text := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}` + "\n" +
		`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"
	for i := range calls {
		text += fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"read_file","arguments":{"path":"app/big.txt","max_bytes":98304},"_meta":{"progressToken":%d}}}`+"\n", i+2, i)
	}
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	p.until("the calls have run", func() bool { return p.show(p.req, id).Calls >= calls })
	for range 20 {
		if got := other.says("stat", object{"path": "app/a.txt"}); !strings.Contains(got, "size=11") {
			t.Errorf("the other agent gets %q", got)
		}
	}
	began := time.Now()
	p.must(p.prov.node.Close())
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the node took %v to stop", took)
	}
}
