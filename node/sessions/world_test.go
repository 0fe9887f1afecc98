package sessions_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/weftmesh/weft/node"
	"github.com/weftmesh/weft/node/api"
	"github.com/weftmesh/weft/node/home"
	"github.com/weftmesh/weft/node/sessions"
	"github.com/weftmesh/weft/workspace/command"
)

// patience bounds every wait of these tests.
const patience = 60 * time.Second

// secret is what no answer may hold.
const secret = "tk-92f8e1c7b3a64d50"

// pixel is a whole PNG of one pixel.
var pixel, _ = base64.StdEncoding.DecodeString("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")

// party is one running node and a client of its API.
type party struct {
	dir  home.Dir
	node *node.Node
	api  *api.Client
}

func startNode(t testing.TB, dir home.Dir, listen ...string) *party {
	t.Helper()
	if len(listen) == 0 {
		listen = []string{"/ip4/127.0.0.1/udp/0/quic-v1", "/ip4/127.0.0.1/tcp/0"}
	}
	n := node.New(node.Config{Home: dir, Listen: listen, NoMDNS: true})
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	c, err := api.Dial(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return &party{dir: dir, node: n, api: c}
}

// restart ends the node and starts it again where it was, under the same
// addresses.
func (p *party) restart(t testing.TB) *party {
	t.Helper()
	var listen []string
	for _, a := range p.node.Ready().Addrs {
		bare, _, _ := strings.Cut(a, "/p2p/")
		listen = append(listen, bare)
	}
	if err := p.node.Close(); err != nil {
		t.Fatal(err)
	}
	return startNode(t, p.dir, listen...)
}

// pair is two nodes that know each other, and a folder of the first.
type pair struct {
	t      testing.TB
	req    *party // whose folder it is
	prov   *party // whose agent works in it
	folder string
	sleep  string // what long.sh runs, unlike any other test's
}

var sleeps atomic.Int64

// in makes a subtest the one that fails, until the returned function is called.
func (p *pair) in(t testing.TB) func() {
	was := p.t
	p.t = t
	return func() { p.t = was }
}

func newPair(t testing.TB) *pair {
	t.Helper()
	p := &pair{t: t, req: startNode(t, home.Dir(t.TempDir())), prov: startNode(t, home.Dir(t.TempDir())), folder: t.TempDir(),
		sleep: fmt.Sprintf("sleep 600.%d%d", os.Getpid(), sleeps.Add(1))}
	for name, content := range map[string]string{
		"a.txt": "alpha\nbeta\n", ".env": "TOKEN=" + secret + "\n", "pic.png": string(pixel), "raw.bin": "\x00\x01\xfe\xff",
		"tick.sh": "for i in 1 2 3 4 5 6; do echo tick $i; sleep 0.3; done\n",
		"long.sh": "echo begun; " + p.sleep + "\n",
	} {
		if err := os.WriteFile(filepath.Join(p.folder, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p.must(p.req.api.Post(t.Context(), "/v1/peers", node.PeerAdd{Target: p.prov.node.Ready().Addrs[0], Name: "worker"}, nil))
	p.must(p.prov.api.Post(t.Context(), "/v1/peers", node.PeerAdd{Target: p.req.node.Ready().Addrs[0], Name: "owner"}, nil))
	return p
}

func (p *pair) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// offer shares the folder and waits until the offer has come.
func (p *pair) offer(change func(*sessions.ShareRequest)) string {
	p.t.Helper()
	in := sessions.ShareRequest{Roots: []sessions.ShareRoot{{Name: "app", Dir: p.folder}}, With: "worker", Write: true, Rate: 100_000}
	if change != nil {
		change(&in)
	}
	var shared sessions.Shared
	p.must(p.req.api.Post(p.t.Context(), "/v1/share", in, &shared))
	p.until("the offer came", func() bool {
		var offers sessions.Offers
		p.must(p.prov.api.Get(p.t.Context(), "/v1/offers", &offers))
		for _, o := range offers.Offers {
			if o.SessionID == shared.SessionID {
				return true
			}
		}
		return false
	})
	return shared.SessionID
}

// open shares the folder and accepts.
func (p *pair) open(change func(*sessions.ShareRequest)) string {
	p.t.Helper()
	id := p.offer(change)
	var s sessions.Session
	p.must(p.prov.api.Post(p.t.Context(), "/v1/offers/"+id+"/accept", nil, &s))
	if s.State != "open" || s.LogSize == 0 {
		p.t.Fatalf("accepted as %+v", s)
	}
	return id
}

// commands grants the two scripts, in a sandbox where there is one.
func (p *pair) commands(in *sessions.ShareRequest) {
	in.Run = []string{"sh tick.sh", "sh long.sh"}
	in.Unsandboxed = !command.Probe().Available
}

// show is a session as a party sees it.
func (p *pair) show(who *party, id string) (s sessions.Session) {
	p.t.Helper()
	p.must(who.api.Get(p.t.Context(), "/v1/sessions/"+id, &s))
	return s
}

// log reads the whole log as a party sees it.
func (p *pair) log(who *party, id string) (lines []sessions.LogLine) {
	p.t.Helper()
	p.must(who.api.Events(p.t.Context(), "GET", "/v1/sessions/"+id+"/log", nil, func(raw []byte) error {
		var l sessions.LogLine
		lines = append(lines, l)
		return json.Unmarshal(raw, &lines[len(lines)-1])
	}))
	return lines
}

// result waits for the first result among the records from a number on.
func (p *pair) result(id string, from int) (found sessions.LogLine) {
	p.t.Helper()
	p.until("the log has a result", func() bool {
		for _, l := range p.log(p.req, id)[from:] { // records of other things may be among them
			if l.Type == "result" {
				found = l
				return true
			}
		}
		return false
	})
	return found
}

// call makes one call as a script does.
func (p *pair) call(id, tool string, args any) (out sessions.CallResult, err error) {
	p.t.Helper()
	raw, jerr := json.Marshal(args)
	p.must(jerr)
	err = p.prov.api.Post(p.t.Context(), "/v1/sessions/"+id+"/call", sessions.CallRequest{Tool: tool, Args: jsontext.Value(raw)}, &out)
	return out, err
}

// until polls a condition, with a deadline.
func (p *pair) until(what string, ok func() bool) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			p.t.Fatalf("gave up waiting until %s", what)
		case <-tick.C:
		}
	}
}

// link is a way for an agent to reach the tools.
type link struct {
	name string
	dial func(t testing.TB, p *pair, id string) mcp.Transport
}

// stdio is the connection that weft mcp copies to its standard streams.
var stdio = link{"stdio", func(t testing.TB, p *pair, id string) mcp.Transport {
	c := p.upgrade(t, id)
	return &mcp.IOTransport{Reader: c, Writer: c}
}}

// overHTTP is what weft mcp --http puts on a loopback address, but for its
// bearer (see TestBearer).
var overHTTP = link{"http", func(t testing.TB, p *pair, id string) mcp.Transport {
	return &mcp.StreamableClientTransport{Endpoint: p.listen(t, id)}
}}

func (p *pair) upgrade(t testing.TB, id string) *api.Conn {
	t.Helper()
	c, err := p.prov.api.Upgrade(t.Context(), "/v1/sessions/"+id+"/mcp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func (p *pair) listen(t testing.TB, id string) string {
	t.Helper()
	server := httptest.NewServer(p.prov.api.Proxy("/v1/sessions/" + id + "/mcp-http"))
	t.Cleanup(server.Close)
	return server.URL
}

// eras are the protocol revisions that real clients speak (reference agents.md
// section 2.3).
var eras = []string{"2026-07-28", "2025-11-25", "2025-06-18"}

// agent is a connected stock client.
type agent struct {
	*mcp.ClientSession
	t        testing.TB
	progress chan *mcp.ProgressNotificationParams
}

func (p *pair) connect(t testing.TB, l link, era, id string) *agent {
	t.Helper()
	a := &agent{t: t, progress: make(chan *mcp.ProgressNotificationParams, 4096)}
	client := mcp.NewClient(&mcp.Implementation{Name: "test agent", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { a.progress <- r.Params },
	})
	var err error
	if a.ClientSession, err = client.Connect(t.Context(), l.dial(t, p, id), &mcp.ClientSessionOptions{ProtocolVersion: era}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	if got := a.InitializeResult().ProtocolVersion; got != era {
		t.Fatalf("%s: speaks %s", era, got)
	}
	return a
}

// do calls a tool and returns its result.
func (a *agent) do(tool string, args any) *mcp.CallToolResult {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
	defer cancel()
	r, err := a.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		a.t.Fatalf("%s: %v", tool, err)
	}
	if r.StructuredContent != nil {
		a.t.Errorf("%s: structuredContent %v", tool, r.StructuredContent)
	}
	return r
}

// says is the text of a result, which must not be an error.
func (a *agent) says(tool string, args any) string {
	a.t.Helper()
	r := a.do(tool, args)
	if r.IsError {
		a.t.Fatalf("%s: %s", tool, textOf(a.t, r))
	}
	return textOf(a.t, r)
}

// denied checks a refusal.
func (a *agent) denied(tool string, args any, code string) {
	a.t.Helper()
	r := a.do(tool, args)
	got := textOf(a.t, r)
	first, _, _ := strings.Cut(got, "\n")
	if !r.IsError || !strings.HasPrefix(first, "DENIED "+code) {
		a.t.Errorf("%s %v: isError %t, %q, want DENIED %s", tool, args, r.IsError, got, code)
	}
	if len(r.Content) != 1 || strings.Contains(got, secret) {
		a.t.Errorf("%s %v: %d blocks: %q", tool, args, len(r.Content), got)
	}
}

func textOf(t testing.TB, r *mcp.CallToolResult) string {
	t.Helper()
	if len(r.Content) == 0 {
		t.Fatal("a result without content")
	}
	c, ok := r.Content[0].(*mcp.TextContent)
	if !ok {
		t.Fatalf("the first block is %T", r.Content[0])
	}
	return c.Text
}

// running lists this machine's processes whose command line has a text.
func running(text string) (found []string) {
	dirs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, d := range dirs {
		raw, err := os.ReadFile(d)
		if line := strings.ReplaceAll(string(raw), "\x00", " "); err == nil && strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// object is a tool's arguments.
type object = map[string]any
