//go:build unix

package clients

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weftmesh/weft/test/e2e/world"
)

// connectPatience bounds the start of node, the server and the handshake.
const connectPatience = 60 * time.Second

// callPatience bounds one call of the SDK client.
const callPatience = 150 * time.Second

// Server says which MCP server a client talks to.
type Server struct {
	// Argv starts the server on stdio. Either it or URL is set.
	Argv []string
	// URL is a streamable HTTP endpoint, Bearer its token.
	URL, Bearer string
	// Env are further variables of the server, as KEY=VALUE.
	Env []string
	// Node, when set, is where client and server run: its network, its
	// environment.
	Node *world.Node
}

// Client is a running SDK client with its server.
type Client struct {
	// Protocol is the negotiated revision, Name and Version the server's.
	Protocol, Name, Version string

	proc *world.Process

	mu      sync.Mutex // guards below
	nextID  int
	waiting map[int]chan event
	wg      sync.WaitGroup
}

// event is a line of client.mjs.
type event struct {
	ID       int    `json:"id"`
	Event    string `json:"event"`
	Protocol string `json:"protocol"`
	Server   struct{ Name, Version string }
	Progress *Progress       `json:"progress"`
	Result   json.RawMessage `json:"result"`
	Error    *Error          `json:"error"`
}

// Progress is a progress notification.
type Progress struct {
	Progress float64 `json:"progress"`
	Total    float64 `json:"total"`
	Message  string  `json:"message"`
}

// Error is how a call failed as seen by the SDK: a JSON-RPC error, or its own.
type Error struct {
	Name    string          `json:"name"`
	Code    json.RawMessage `json:"code"`
	Message string          `json:"message"`
}

// Block is one block of a result's content.
type Block struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Data     string `json:"data"`
	MIMEType string `json:"mimeType"`
}

// Result is how a call ended.
type Result struct {
	Content           []Block         `json:"content"`
	IsError           bool            `json:"isError"`
	StructuredContent json.RawMessage `json:"structuredContent"`

	// Text is the text of all blocks.
	Text string `json:"-"`
	// Err is set when there was no result.
	Err *Error `json:"-"`
	// Progress are the reports that came before.
	Progress []Progress `json:"-"`
}

// Tool is an entry of tools/list.
type Tool struct {
	Name         string          `json:"name"`
	Description  string          `json:"description"`
	InputSchema  json.RawMessage `json:"inputSchema"`
	OutputSchema json.RawMessage `json:"outputSchema"`
	Annotations  json.RawMessage `json:"annotations"`
}

// SDK starts the SDK client with a server and waits until they are connected.
func (s *Set) SDK(t testing.TB, w *world.World, srv Server) *Client {
	t.Helper()
	proc, first := s.connect(t, w, srv)
	if first.Event != "connected" {
		proc.End()
		t.Fatalf("the SDK client did not connect: %+v\n%s", first.Error, proc.Stderr())
	}
	c := &Client{proc: proc, waiting: map[int]chan event{}}
	c.Protocol, c.Name, c.Version = first.Protocol, first.Server.Name, first.Server.Version
	c.wg.Go(c.pump)
	t.Cleanup(func() {
		c.proc.End()
		c.wg.Wait()
	})
	return c
}

// Refused starts the SDK client with a server that must not take it, and
// returns why it did not; "" when it did.
func (s *Set) Refused(t testing.TB, w *world.World, srv Server) string {
	t.Helper()
	proc, first := s.connect(t, w, srv)
	defer proc.End()
	if first.Error == nil {
		return ""
	}
	return first.Error.Message
}

// connect starts client.mjs and reads its first line.
func (s *Set) connect(t testing.TB, w *world.World, srv Server) (*world.Process, event) {
	t.Helper()
	source := filepath.Join(world.Root(t), "test", "e2e", "testdata", "npm")
	// Beside node_modules, since imports are looked up from the script's place.
	script := s.path("client-" + hashOf(t, source, "client.mjs") + ".mjs")
	copyFile(t, filepath.Join(source, "client.mjs"), script)
	argv := []string{s.node, script}
	switch {
	case srv.URL != "":
		argv = append(argv, "--url", srv.URL)
		if srv.Bearer != "" {
			argv = append(argv, "--bearer", srv.Bearer)
		}
	default:
		argv = append(append(argv, "--"), srv.Argv...)
	}
	env := w.Env(w.Dir, srv.Env...)
	if srv.Node != nil {
		env = srv.Node.Env(srv.Env...)
	}
	proc := w.Start(t, world.Spec{Name: "mcp sdk client", Argv: argv, Env: env, Node: srv.Node})
	line, ok := proc.Line(connectPatience)
	var e event
	if !ok || json.Unmarshal(line, &e) != nil || e.Event == "" {
		proc.End()
		t.Fatalf("the SDK client's first line: %q\n%s", line, proc.Stderr())
	}
	return proc, e
}

// pump hands each line to who waits for it, until the client ends.
func (c *Client) pump() {
	for {
		line, ok := c.proc.Line(callPatience)
		if !ok {
			select {
			case <-c.proc.Done():
				c.end()
				return
			default:
				continue // only quiet
			}
		}
		var e event
		if json.Unmarshal(line, &e) != nil {
			continue
		}
		c.mu.Lock()
		ch := c.waiting[e.ID]
		c.mu.Unlock()
		if ch != nil {
			ch <- e
		}
	}
}

// end tells every waiter that nothing more comes.
func (c *Client) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ch := range c.waiting {
		close(ch)
	}
	c.waiting = nil
}

// Pending is a call that has not ended.
type Pending struct {
	c  *Client
	id int
	ch chan event
}

// request is a line to client.mjs.
type request struct {
	ID     int    `json:"id"`
	Op     string `json:"op"`
	Tool   string `json:"tool,omitempty"`
	Args   any    `json:"args,omitempty"`
	Of     int    `json:"of,omitempty"`
	Method string `json:"method,omitempty"`
	Params any    `json:"params,omitempty"`
}

// maxEvents is room for the progress of one call; the pump must not wait long.
const maxEvents = 1024

func (c *Client) send(t testing.TB, r request) *Pending {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting == nil {
		t.Fatalf("the SDK client has ended\n%s", c.proc.Stderr())
	}
	c.nextID++
	r.ID = c.nextID
	p := &Pending{c: c, id: r.ID, ch: make(chan event, maxEvents)}
	c.waiting[p.id] = p.ch
	line, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.proc.Send(append(line, '\n')); err != nil {
		t.Fatalf("the SDK client has ended: %v\n%s", err, c.proc.Stderr())
	}
	return p
}

// Begin starts a tool call.
func (c *Client) Begin(t testing.TB, tool string, args any) *Pending {
	t.Helper()
	return c.send(t, request{Op: "call", Tool: tool, Args: args})
}

// Call makes a tool call and waits for its end.
func (c *Client) Call(t testing.TB, tool string, args any) Result {
	t.Helper()
	return c.Begin(t, tool, args).Wait(t)
}

// Request makes any request and returns the result as it came.
func (c *Client) Request(t testing.TB, method string, params any) (json.RawMessage, *Error) {
	t.Helper()
	raw, err, _ := c.send(t, request{Op: "request", Method: method, Params: params}).wait(t)
	return raw, err
}

// Tools lists the server's tools.
func (c *Client) Tools(t testing.TB) []Tool {
	t.Helper()
	raw, fail, _ := c.send(t, request{Op: "list"}).wait(t)
	if fail != nil {
		t.Fatalf("tools/list: %s", fail.Message)
	}
	var list struct{ Tools []Tool }
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatal(err)
	}
	return list.Tools
}

// Cancel cancels the call; Wait then gives an Err.
func (p *Pending) Cancel(t testing.TB) {
	t.Helper()
	p.c.send(t, request{Op: "cancel", Of: p.id}).wait(t)
}

// NextProgress waits for the next report. It fails when the call ends first.
func (p *Pending) NextProgress(t testing.TB) Progress {
	t.Helper()
	e := p.next(t)
	if e.Progress == nil {
		t.Fatalf("the call ended without further progress: %s %+v", e.Result, e.Error)
	}
	return *e.Progress
}

// Wait waits for the call's end.
func (p *Pending) Wait(t testing.TB) Result {
	t.Helper()
	raw, fail, progress := p.wait(t)
	r := Result{Err: fail, Progress: progress}
	if fail != nil {
		return r
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatalf("result of a call: %v\n%s", err, raw)
	}
	var parts []string
	for _, b := range r.Content {
		if b.Text != "" {
			parts = append(parts, b.Text)
		}
	}
	r.Text = strings.Join(parts, "\n")
	return r
}

func (p *Pending) wait(t testing.TB) (json.RawMessage, *Error, []Progress) {
	t.Helper()
	var progress []Progress
	for {
		e := p.next(t)
		if e.Progress != nil {
			progress = append(progress, *e.Progress)
			continue
		}
		p.c.mu.Lock()
		delete(p.c.waiting, p.id)
		p.c.mu.Unlock()
		return e.Result, e.Error, progress
	}
}

func (p *Pending) next(t testing.TB) event {
	t.Helper()
	timer := time.NewTimer(callPatience)
	defer timer.Stop()
	select {
	case e, ok := <-p.ch:
		if !ok {
			t.Fatalf("the SDK client ended during a call\n%s", p.c.proc.Stderr())
		}
		return e
	case <-timer.C:
		t.Fatalf("no answer of the SDK client for %v\n%s", callPatience, p.c.proc.Stderr())
	}
	panic("unreachable")
}

// Close ends the input and waits for the client to close the connection and
// end by itself.
func (c *Client) Close(t testing.TB) {
	t.Helper()
	if err := c.proc.CloseInput(); err != nil {
		t.Fatal(err)
	}
	if code := c.proc.Wait(t, connectPatience); code != 0 {
		t.Fatalf("the SDK client ended with %d\n%s", code, c.proc.Stderr())
	}
}
