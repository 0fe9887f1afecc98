//go:build unix

package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftmesh/weft/test/e2e/clients"
	"github.com/weftmesh/weft/test/e2e/fixture"
	"github.com/weftmesh/weft/test/e2e/world"
)

// TestInspector: the MCP Inspector's command line through weft mcp.
func TestInspector(t *testing.T) {
	t.Parallel()
	p := newPair(t, fixture.Small)
	id := p.open(t, "--for", "1h").SessionID
	set := clients.Install(t)
	srv := clients.Server{Argv: p.prov.Argv("mcp", id), Node: p.prov}
	raw, err := set.Inspect(t, p.w, srv, "tools/list", "", nil)
	if err != nil || !strings.Contains(string(raw), `"read_file"`) || strings.Contains(string(raw), "outputSchema") {
		t.Errorf("tools/list: %s, %v", raw, err)
	}
	raw, err = set.Inspect(t, p.w, srv, "tools/call", "read_file", object{"path": "shop/" + fixture.Chinese})
	if err != nil || !strings.Contains(string(raw), "打九折") {
		t.Errorf("read_file: %s, %v", raw, err)
	}
	raw, err = set.Inspect(t, p.w, srv, "tools/call", "write_file", object{"path": "shop/x", "content": "x", "mode": "create"})
	if err == nil && !strings.Contains(string(raw), "DENIED no_right") {
		t.Errorf("write_file without the right: %s", raw)
	}
}

// TestMCPOverHTTP: the same tools on a loopback address, for those who show
// the token, and nobody else.
func TestMCPOverHTTP(t *testing.T) {
	t.Parallel()
	p := newPair(t, fixture.Small)
	id := p.open(t, "--for", "1h").SessionID
	serve := p.prov.Start(t, world.Spec{}, "mcp", id, "--http", "127.0.0.1:0", "--json")
	line, ok := serve.Line(world.Patience)
	var ready struct{ URL, Token string }
	if !ok || json.Unmarshal(line, &ready) != nil || ready.URL == "" || len(ready.Token) < 32 {
		t.Fatalf("first line: %q", line)
	}
	set := clients.Install(t)
	c := set.SDK(t, p.w, clients.Server{URL: ready.URL, Bearer: ready.Token})
	if r := c.Call(t, "read_file", object{"path": "shop/README.md"}); r.IsError || !strings.Contains(r.Text, "one bug") {
		t.Errorf("read_file: %+v", r)
	}
	if r := c.Call(t, "read_file", object{"path": "shop/.env"}); !r.IsError || !strings.HasPrefix(r.Text, "DENIED secret_path") {
		t.Errorf("read_file of the secrets: %+v", r)
	}
	c.Close(t)
	for _, token := range []string{"", strings.Repeat("0", len(ready.Token))} {
		if why := set.Refused(t, p.w, clients.Server{URL: ready.URL, Bearer: token}); why == "" {
			t.Errorf("a client with token %q was let in", token)
		}
	}
	p.prov.Run(t, "--json", "mcp", id, "--http", "0.0.0.0:0").Fails(t, usage, denied, invalid)
	if code := serve.Stop(t); code != 0 {
		t.Errorf("exit code %d after SIGTERM: %s", code, serve.Stderr())
	}
}

// event is a line of weft watch --json.
type event struct {
	Seq     *uint64 `json:"seq"`
	Tool    string  `json:"tool"`
	Verdict string  `json:"verdict"`
	Code    string  `json:"code"`
	Path    string  `json:"path"`
	MS      *int64  `json:"ms"`
	Bytes   *int64  `json:"bytes"`
}

// nextCall is the next line of watch that is about a call.
func nextCall(t *testing.T, watch *world.Process) (e event) {
	t.Helper()
	for {
		line, ok := watch.Line(world.Patience)
		if !ok {
			t.Fatalf("weft watch ended or is silent: %s", watch.Stderr())
		}
		e = event{}
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("weft watch: %v: %s", err, line)
		}
		if e.Tool != "" {
			return e
		}
	}
}

// TestWatchAndStop: the requester sees each call as it happens; a command can
// be cancelled by the agent, and the kill switch ends what runs within a
// second.
func TestWatchAndStop(t *testing.T) {
	t.Parallel()
	p := newPair(t, fixture.Small)
	id := p.open(t, "--write", "--run", "sleep 4242", "--run", "sleep 4243", "--for", "1h").SessionID
	watch := p.req.Start(t, world.Spec{}, "watch", id, "--json")
	a := &agentDouble{Client: clients.Install(t).SDK(t, p.w, clients.Server{Argv: p.prov.Argv("mcp", id), Node: p.prov})}

	// The watcher may be attached later than the first call, so it is repeated
	// until it shows.
	world.Until(t, world.Patience, "weft watch shows a call", func() string {
		a.ok(t, "stat", object{"path": "shop/README.md"})
		if strings.Contains(watch.Stdout(), `"stat"`) {
			return ""
		}
		return watch.Stdout() + watch.Stderr()
	})
	e := nextCall(t, watch)
	if e.Tool != "stat" || e.Path != "shop/README.md" || e.Seq == nil || e.MS == nil || e.Bytes == nil {
		t.Errorf("watch shows %+v", e)
	}
	a.denied(t, "read_file", object{"path": "shop/.env"}, "secret_path")
	for e.Tool == "stat" {
		e = nextCall(t, watch)
	}
	if e.Tool != "read_file" || e.Verdict != "denied" || e.Code != "secret_path" {
		t.Errorf("watch shows %+v", e)
	}

	running := func(text string) func() string {
		return func() string {
			if len(world.Running(text)) == 0 {
				return "not running"
			}
			return ""
		}
	}
	gone := func(text string) func() string {
		return func() string { return strings.Join(world.Running(text), "; ") }
	}
	first := a.Begin(t, "run_command", object{"argv": []string{"sleep", "4242"}, "cwd": "shop", "yield_ms": 30000})
	world.Until(t, world.Patience, "the command runs", running("sleep 4242"))
	first.Cancel(t)
	if r := first.Wait(t); r.Err == nil {
		t.Errorf("the cancelled call gave a result: %+v", r)
	}
	world.Until(t, world.Patience, "the cancelled command ends", gone("sleep 4242"))

	second := a.Begin(t, "run_command", object{"argv": []string{"sleep", "4243"}, "cwd": "shop", "yield_ms": 30000})
	world.Until(t, world.Patience, "the command runs", running("sleep 4243"))
	var stopped struct {
		State  string `json:"state"`
		TookMS int64  `json:"tookMs"`
	}
	p.req.Run(t, "stop", id, "--json").OK(t).Into(t, &stopped)
	if left := world.Running("sleep 4243"); len(left) > 0 {
		t.Errorf("still running when stop returned: %v", left)
	}
	if stopped.TookMS > 1000 {
		t.Errorf("stop took %d ms", stopped.TookMS)
	}
	if r := second.Wait(t); r.Err == nil && !r.IsError {
		t.Errorf("the stopped call gave a result: %+v", r)
	}
	if r := a.Call(t, "stat", object{"path": "shop/README.md"}); r.Err == nil && !strings.HasPrefix(r.Text, "DENIED killed") {
		t.Errorf("a call after stop: %+v", r)
	}
	if code := watch.Wait(t, world.Patience); code != 0 {
		t.Errorf("weft watch ended with %d: %s", code, watch.Stderr())
	}
	_, records := export(t, p.req, id)
	exactlyOnce(t, records)
	if diff := cmp.Diff("killed", show(t, p.prov, id).State); diff != "" {
		t.Errorf("state at the provider (-want +got):\n%s", diff)
	}
}
