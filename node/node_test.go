package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weftmesh/weft/node/api"
	"github.com/weftmesh/weft/node/home"
)

func TestTwoNodes(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	dirA, dirB := home.Dir(t.TempDir()), home.Dir(t.TempDir())
	a, b := start(t, dirA, nil), start(t, dirB, nil)
	ca := dial(t, dirA)
	bID := b.Ready().PeerID

	var p Peer
	if err := ca.Post(ctx, "/v1/peers", PeerAdd{Target: b.Ready().Addrs[0], Name: "bob"}, &p); err != nil {
		t.Fatal(err)
	}
	if p.PeerID != bID || p.Name != "bob" || len(p.Addrs) != 1 {
		t.Errorf("added %+v", p)
	}

	var events []PingEvent
	err := ca.Events(ctx, "POST", "/v1/ping", Ping{Peer: "BOB", Count: 3, Interval: 10}, func(raw []byte) error {
		var e PingEvent
		if err := json.Unmarshal(raw, &e); err != nil {
			return err
		}
		events = append(events, e)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	replies := 0
	for _, e := range events {
		if e.Event == "reply" {
			replies++
			if e.Seq != replies || e.RTT <= 0 || !strings.HasPrefix(e.Path, "direct ") {
				t.Errorf("reply %+v", e)
			}
		}
	}
	if replies != 3 {
		t.Errorf("%d replies of 3: %+v", replies, events)
	}

	var s Status
	if err := ca.Get(ctx, "/v1/status", &s); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(s.Peers, func(p PeerState) bool { return p.PeerID == bID })
	if i < 0 || s.Peers[i].Name != "bob" || !s.Peers[i].Connected || s.Peers[i].RTT <= 0 || s.Peers[i].Via == "" {
		t.Errorf("status of peers %+v", s.Peers)
	}
	if s.PeerID != a.Ready().PeerID || s.PID != os.Getpid() || s.Uptime <= 0 || s.Store.Bytes == 0 || len(s.Addrs) == 0 {
		t.Errorf("status %+v", s)
	}

	// Contacts are kept across a restart, and so is the connection to them.
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	again := start(t, dirA, nil)
	if again.Ready().PeerID != s.PeerID {
		t.Error("another identity after a restart")
	}
	until(t, "bob connected again", func() bool {
		return slices.ContainsFunc(again.Status().Peers, func(p PeerState) bool { return p.Name == "bob" && p.Connected })
	})

	var ids PeerIDs
	ca = dial(t, dirA)
	if err := ca.Get(ctx, "/v1/resolve?peer=bob", &ids); err != nil || ids.PeerID != bID || ids.DID == "" || ids.AgentID == "" {
		t.Errorf("resolve: %+v, %v", ids, err)
	}
	if err := ca.Do(ctx, "PATCH", "/v1/peers/bob", PeerName{Name: "rob"}, &p); err != nil || p.Name != "rob" {
		t.Errorf("rename: %+v, %v", p, err)
	}
	if err := ca.Do(ctx, "DELETE", "/v1/peers/rob", nil, nil); err != nil {
		t.Error(err)
	}
	var left Peers
	if err := ca.Get(ctx, "/v1/peers", &left); err != nil || len(left.Peers) != 0 {
		t.Errorf("left %+v, %v", left, err)
	}
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	dir := home.Dir(t.TempDir())
	n := start(t, dir, nil)
	c := dial(t, dir)
	ping := func(p Ping) func() error {
		return func() error {
			return c.Events(t.Context(), "POST", "/v1/ping", p, func([]byte) error { return nil })
		}
	}
	self := n.Ready().PeerID
	for _, tt := range []struct {
		name string
		do   func() error
		want api.Kind
	}{
		{"ping nobody", ping(Ping{Count: 1, Interval: 1000}), api.Invalid},
		{"ping a stranger's name", ping(Ping{Peer: "bob", Count: 1, Interval: 1000}), api.NotFound},
		{"ping ourselves", ping(Ping{Peer: self, Count: 1, Interval: 1000}), api.Invalid},
		{"ping backwards", ping(Ping{Peer: string(seeded(t, 9).PeerID()), Count: -1, Interval: 1000}), api.Invalid},
		{"ping in a flood", ping(Ping{Peer: string(seeded(t, 9).PeerID()), Count: 1, Interval: 0}), api.Invalid},
		{"ping who isn't there", ping(Ping{Peer: string(seeded(t, 9).PeerID()), Count: 1, Interval: 10}), api.Unreachable},
		{"add a name", func() error { return c.Post(t.Context(), "/v1/peers", PeerAdd{Target: "bob"}, nil) }, api.Invalid},
		{"add ourselves", func() error { return c.Post(t.Context(), "/v1/peers", PeerAdd{Target: self}, nil) }, api.Invalid},
		{"remove nobody", func() error { return c.Do(t.Context(), "DELETE", "/v1/peers/bob", nil, nil) }, api.NotFound},
		{"resolve nothing", func() error { return c.Get(t.Context(), "/v1/resolve", nil) }, api.Invalid},
	} {
		wantKind(t, tt.name, tt.do(), tt.want)
	}
	if len(n.book.All()) != 0 {
		t.Error("a bad request added a contact")
	}
}

func TestSecondNodeOnOneHome(t *testing.T) {
	t.Parallel()
	dir := home.Dir(t.TempDir())
	start(t, dir, nil)
	second := New(Config{Home: dir, Listen: loopback, NoMDNS: true})
	err := second.Start(t.Context())
	wantKind(t, "second start", err, api.Conflict)
	if e := api.From(err); e.Code != "already_running" || !strings.Contains(e.Message, fmt.Sprint("pid ", os.Getpid())) {
		t.Errorf("%#v does not name the process", e)
	}
	if _, err := api.Dial(dir); err != nil {
		t.Errorf("the first node was disturbed: %v", err)
	}
}

// A start that fails leaves nothing running and nothing locked.
func TestFailedStart(t *testing.T) {
	t.Parallel()
	dir := home.Dir(t.TempDir())
	for name, change := range map[string]func(*Config){
		"no such address to listen on": func(c *Config) { c.Listen = []string{"/ip4/192.0.2.77/tcp/1"} },
		"not an address":               func(c *Config) { c.Listen = []string{"127.0.0.1:1"} },
		"bootstrap without id":         func(c *Config) { c.Bootstrap = []string{"/ip4/127.0.0.1/tcp/1"} },
		"API for everyone":             func(c *Config) { c.API = "0.0.0.0:0" },
	} {
		cfg := Config{Home: dir, Listen: loopback, NoMDNS: true}
		change(&cfg)
		n := New(cfg)
		if err := n.Start(t.Context()); err == nil {
			t.Errorf("%s: started", name)
		}
		if err := n.Close(); err != nil {
			t.Errorf("%s: close: %v", name, err)
		}
		if _, running := dir.Running(); running {
			t.Errorf("%s: the home is still taken", name)
		}
	}
	if err := os.WriteFile(dir.Key(), []byte("not a key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := New(Config{Home: dir, NoMDNS: true}).Start(t.Context()); err == nil || api.From(err).Kind != api.Invalid {
		t.Errorf("malformed key: %v", err)
	}
	if raw, _ := os.ReadFile(dir.Key()); string(raw) != "not a key" {
		t.Error("the malformed key was overwritten")
	}
}

func TestDoctorAndNetcheck(t *testing.T) {
	t.Parallel()
	relayDir, dir := home.Dir(t.TempDir()), home.Dir(t.TempDir())
	relay := start(t, relayDir, func(c *Config) { c.Relay = true })
	start(t, dir, func(c *Config) { c.Bootstrap = relay.Ready().Addrs[:1] })
	c := dial(t, dir)

	check := func(name string) Check {
		t.Helper()
		var found Checkup
		if err := c.Get(t.Context(), "/v1/doctor", &found); err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(found.Checks, func(c Check) bool { return c.Name == name })
		if i < 0 {
			t.Fatalf("no check %q in %+v", name, found.Checks)
		}
		return found.Checks[i]
	}
	for _, name := range []string{"home", "store", "disk", "clock", "descriptors", "udp buffers", "listeners", "relays"} {
		if got := check(name); !got.OK || got.Detail == "" {
			t.Errorf("%+v", got)
		}
	}
	if got := check("sandbox"); !got.OK && got.Fix == "" {
		t.Errorf("no sandbox, and no word on how to get one: %+v", got)
	}

	until(t, "a reservation on the relay", func() bool {
		var n Netcheck
		if err := c.Get(t.Context(), "/v1/netcheck", &n); err != nil {
			t.Fatal(err)
		}
		return len(n.Relays) == 1 && n.Relays[0].Reserved && n.Relays[0].RTT > 0 && n.UDP && n.TCP
	})

	// What is wrong is named, with a fix.
	token := dir.API() + "/token"
	if err := os.Chmod(token, 0o644); err != nil {
		t.Fatal(err)
	}
	if got := check("home"); got.OK || !strings.Contains(got.Detail, token) || !strings.Contains(got.Fix, "chmod 600") {
		t.Errorf("readable token: %+v", got)
	}
	if err := relay.Close(); err != nil {
		t.Fatal(err)
	}
	if got := check("relays"); got.OK || got.Fix == "" || !strings.Contains(got.Detail, relay.Ready().PeerID) {
		t.Errorf("dead relay: %+v", got)
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	dir := home.Dir(t.TempDir())
	start(t, dir, nil)
	var text []byte
	c := dial(t, dir)
	for range 2 { // the second sees the first counted
		if err := c.Get(t.Context(), "/metrics", &text); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"libp2p_", "weft_build_info{", "weft_uptime_seconds ", "weft_store_bytes ", "weft_contacts 0",
		"weft_sessions_open 0", "process_resident_memory_bytes ", "go_goroutines ", `weft_api_requests_total{route="GET /metrics",status="200"} 1`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in the metrics", want)
		}
	}
}

// fakePart is a component that writes down what happens to it.
type fakePart struct {
	name string
	fail error
	said *[]string
}

func (f fakePart) Routes(*api.Mux) { *f.said = append(*f.said, f.name+" routes") }
func (f fakePart) Start(context.Context) error {
	*f.said = append(*f.said, f.name+" start")
	return f.fail
}
func (f fakePart) Close() error { *f.said = append(*f.said, f.name+" close"); return nil }

func TestComponentLifecycle(t *testing.T) {
	t.Parallel()
	var said []string
	boom := errors.New("boom")
	n := New(Config{})
	n.parts = []component{fakePart{"a", nil, &said}, fakePart{"b", boom, &said}, fakePart{"c", nil, &said}}
	if err := n.startParts(t.Context(), api.NewMux()); !errors.Is(err, boom) {
		t.Errorf("startParts: %v", err)
	}
	n.Close()
	n.Close()
	want := []string{"a routes", "a start", "b routes", "b start", "b close", "a close"}
	if !slices.Equal(said, want) {
		t.Errorf("order %q, want %q", said, want)
	}
}
