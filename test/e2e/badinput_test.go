//go:build unix

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftmesh/weft/protocols/identity"
	"github.com/weftmesh/weft/test/e2e/fixture"
	"github.com/weftmesh/weft/test/e2e/world"
)

// The exit codes of the command contract.
const (
	usage    = 2
	down     = 3
	denied   = 4
	notFound = 5
	conflict = 6
	invalid  = 7
)

// unknownID is an id that no session has.
const unknownID = "aaaaaaaaaaaaaaaaaaaaaaaaaa"

// withID are the verbs that take a session's id, with what else they need; dir
// is where the export would go.
func withID(id, dir string) map[string][]string {
	return map[string][]string{
		"session show":   {"session", "show", id},
		"session log":    {"session", "log", id},
		"session export": {"session", "export", id, filepath.Join(dir, "exported")},
		"watch":          {"watch", id},
		"stop":           {"stop", id},
		"pause":          {"pause", id},
		"resume":         {"resume", id},
		"accept":         {"accept", id},
		"decline":        {"decline", id},
		"mcp":            {"mcp", id},
		"work":           {"work", id, "--", "/bin/true"},
		"call":           {"call", id, "workspace_info", "{}"},
		"receipt get":    {"receipt", "get", id},
		"receipt prove":  {"receipt", "prove", id, "--seq", "0"},
	}
}

// asJSON asks for errors as documents, before any "--".
func asJSON(args []string) []string { return append([]string{"--json"}, args...) }

// unchanged wants the sessions of a node to be the same after fn. How the peer
// is connected may change by itself.
func unchanged(t *testing.T, n *world.Node, fn func()) {
	t.Helper()
	list := func() (out struct{ Sessions []map[string]any }) {
		n.Run(t, "sessions", "--json").OK(t).Into(t, &out)
		for _, s := range out.Sessions {
			// A path that lasts is measured, recorded and signed beside the verbs;
			// calls, bytes and state are what a verb could have changed.
			for _, k := range []string{"path", "rttMs", "logSize", "logRoot", "acked"} {
				delete(s, k)
			}
		}
		return out
	}
	before := list()
	fn()
	if diff := cmp.Diff(before, list()); diff != "" {
		t.Errorf("the sessions of %s changed (-before +after):\n%s", n.Name, diff)
	}
}

// TestDeadDaemon: every verb that needs the daemon says that none runs, with a
// home that had one and with a folder that never existed.
func TestDeadDaemon(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	once := w.Node(t, "once", world.Config{})
	once.Kill9(t)
	never := w.Node(t, "never", world.Config{Stopped: true})
	verbs := withID(unknownID, w.Dir)
	for name, args := range map[string][]string{
		"share":     {"share", w.Dir, "--with", once.Ready.PeerID},
		"sessions":  {"sessions"},
		"offers":    {"offers"},
		"status":    {"status"},
		"peer add":  {"peer", "add", once.Addrs()[0]},
		"peer list": {"peer", "list"},
		"ping":      {"ping", once.Ready.PeerID},
	} {
		verbs[name] = args
	}
	for name, args := range verbs {
		t.Run(name, func(t *testing.T) {
			for _, n := range []*world.Node{once, never} {
				if p := n.Run(t, asJSON(args)...).Fails(t, down); !strings.Contains(p.Hint, "weft up") {
					t.Errorf("the hint does not say how to start it: %+v", p)
				}
			}
		})
	}
	if _, err := os.Stat(never.Home); err == nil {
		t.Error("a verb made the home")
	}
}

// TestBadSessionID: malformed and unknown ids, on every verb that takes one.
func TestBadSessionID(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	n := w.Node(t, "alice", world.Config{})
	for what, id := range map[string]string{
		"unknown":   unknownID,
		"dots":      "..",
		"slashes":   "../../etc/passwd",
		"spaces":    "a b",
		"control":   "\x1b[31mred",
		"not UTF-8": "\xff\xfe",
		"Chinese":   "会话",
		"long":      strings.Repeat("a", 5000),
		"query":     "x?y=z#f",
	} {
		for name, args := range withID(id, w.Dir) {
			t.Run(what+"/"+name, func(t *testing.T) {
				unchanged(t, n, func() {
					p := n.Run(t, asJSON(args)...).Fails(t, notFound, invalid)
					if what == "unknown" && p.Code != "not_found" {
						t.Errorf("code %q", p.Code)
					}
					if strings.ContainsAny(p.Message+p.Hint, "\x1b") || len(p.Message) > 1000 {
						t.Errorf("the message repeats what it should not: %.200q", p.Message)
					}
				})
			})
		}
	}
	if _, err := os.Stat(filepath.Join(w.Dir, "exported")); err == nil {
		t.Error("a refused export left a file")
	}
	for _, args := range [][]string{{"session", "show"}, {"accept"}, {"call", "x"}, {"watch", "a", "b"}, {"share"}, {"no-such-verb"}, {"sessions", "--no-such-flag"}} {
		n.Run(t, asJSON(args)...).Fails(t, usage)
	}
}

// TestBadShare: wrong peers, folders, rights and bounds open no session.
func TestBadShare(t *testing.T) {
	t.Parallel()
	p := newPair(t, fixture.Small)
	dir := p.repo.Dir
	for name, tc := range map[string]struct {
		args  []string
		codes []int
	}{
		"nobody":              {[]string{dir}, []int{usage}},
		"unknown name":        {[]string{dir, "--with", "mallory"}, []int{notFound}},
		"malformed peer":      {[]string{dir, "--with", "12D3KooWnotapeer!"}, []int{notFound, invalid}},
		"short prefix":        {[]string{dir, "--with", p.prov.Ready.PeerID[:5]}, []int{notFound, invalid}},
		"oneself":             {[]string{dir, "--with", p.req.Ready.PeerID}, []int{conflict, invalid}},
		"small-order key":     {[]string{dir, "--with", "did:key:z6MkeTG3bFFSLYVU7VqhgZxqr6YzpaGrQtFMh1uvqGy1vDnP"}, []int{notFound, invalid}},
		"missing folder":      {[]string{dir + "-none", "--with", "bob"}, []int{notFound, invalid}},
		"a file":              {[]string{filepath.Join(dir, "README.md"), "--with", "bob"}, []int{invalid}},
		"empty folder name":   {[]string{"", "--with", "bob"}, []int{usage, notFound, invalid}},
		"weft's own home":     {[]string{p.req.Home, "--with", "bob"}, []int{denied, invalid}},
		"above weft's home":   {[]string{p.w.Dir, "--with", "bob"}, []int{denied, invalid}},
		"two roots, one name": {[]string{"a=" + dir, "a=" + p.repo.Outside, "--with", "bob"}, []int{usage, conflict, invalid}},
		"bad root name":       {[]string{"../x=" + dir, "--with", "bob"}, []int{usage, notFound, invalid}},
		"unknown profile":     {[]string{dir, "--with", "bob", "--run", "no-such-profile"}, []int{usage, notFound, invalid}},
		"shell string":        {[]string{dir, "--with", "bob", "--run", "sh -c 'rm -rf x' | y"}, []int{usage, denied, invalid}},
		"past":                {[]string{dir, "--with", "bob", "--for", "-1h"}, []int{usage, invalid}},
		"no time":             {[]string{dir, "--with", "bob", "--for", "0s"}, []int{usage, invalid}},
		"not a time":          {[]string{dir, "--with", "bob", "--for", "soon"}, []int{usage}},
		"no calls":            {[]string{dir, "--with", "bob", "--calls", "-1"}, []int{usage, invalid}},
		"bad glob":            {[]string{dir, "--with", "bob", "--include", "[a-"}, []int{usage, invalid}},
	} {
		t.Run(name, func(t *testing.T) {
			unchanged(t, p.req, func() {
				p.req.Run(t, asJSON(append([]string{"share"}, tc.args...))...).Fails(t, tc.codes...)
			})
		})
	}
	if r := p.prov.Run(t, "offers", "--json").OK(t); strings.Contains(string(r.Stdout), "sessionId") {
		t.Errorf("a refused share reached the provider: %s", r.Stdout)
	}

	// A key that nobody answers for can't be told from a peer that is away:
	// the offer waits, or is refused, but nothing is open.
	r := p.req.Run(t, "share", dir, "--with", string(identity.Generate().Public().PeerID()), "--json")
	if r.Code != 0 {
		r.Fails(t, down, notFound)
		return
	}
	var s shared
	r.Into(t, &s)
	if got := show(t, p.req, s.SessionID); got.State != "offered" {
		t.Errorf("session with nobody: %+v", got)
	}
}

// TestBadPeer: verbs that take a peer.
func TestBadPeer(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	n := w.Node(t, "alice", world.Config{})
	stranger := string(identity.Generate().Public().PeerID())
	for name, tc := range map[string]struct {
		args  []string
		codes []int
	}{
		"ping nobody":         {[]string{"ping", "mallory"}, []int{notFound}},
		"ping out of reach":   {[]string{"ping", stranger, "-c", "1"}, []int{down, notFound}},
		"ping oneself":        {[]string{"ping", n.Ready.PeerID}, []int{conflict, invalid}},
		"add no address":      {[]string{"peer", "add", "/ip4/127.0.0.1"}, []int{invalid}},
		"add without id":      {[]string{"peer", "add", "/ip4/127.0.0.1/tcp/1"}, []int{invalid}},
		"add garbage":         {[]string{"peer", "add", "\x1b]0;x"}, []int{invalid, notFound}},
		"rm nobody":           {[]string{"peer", "rm", "mallory"}, []int{notFound}},
		"name nobody":         {[]string{"peer", "name", "mallory", "eve"}, []int{notFound}},
		"add with a bad name": {[]string{"peer", "add", "/ip4/127.0.0.1/tcp/1/p2p/" + stranger, "--name", "a\nb"}, []int{usage, invalid}},
	} {
		t.Run(name, func(t *testing.T) {
			before := string(n.Run(t, "peer", "list", "--json").OK(t).Stdout)
			r := n.Run(t, asJSON(tc.args)...)
			if strings.HasPrefix(name, "ping") {
				r.Stdout = nil // a stream: lines may come before the error
			}
			r.Fails(t, tc.codes...)
			if diff := cmp.Diff(before, string(n.Run(t, "peer", "list", "--json").OK(t).Stdout)); diff != "" {
				t.Errorf("the peers changed (-before +after):\n%s", diff)
			}
		})
	}
}

// TestWrongMoment: verbs of the other side, of a third, too early and twice.
func TestWrongMoment(t *testing.T) {
	t.Parallel()
	p := newPair(t, fixture.Small)
	third := p.w.Node(t, "carol", world.Config{})
	id := p.offer(t, "--for", "1h").SessionID
	fails := func(n *world.Node, codes []int, args ...string) {
		t.Helper()
		unchanged(t, n, func() { n.Run(t, asJSON(args)...).Fails(t, codes...) })
	}
	fails(p.prov, []int{denied, conflict}, "call", id, "workspace_info", "{}")
	fails(p.req, []int{denied, notFound, conflict}, "accept", id)
	fails(third, []int{notFound}, "accept", id)
	fails(third, []int{notFound}, "call", id, "workspace_info", "{}")
	p.prov.Run(t, "accept", id).OK(t)
	p.state(t, id, "open")
	fails(p.prov, []int{conflict}, "accept", id)
	fails(p.prov, []int{conflict}, "decline", id)
	fails(p.req, []int{denied, notFound, conflict}, "call", id, "workspace_info", "{}")
	fails(p.req, []int{conflict}, "resume", id)

	// Calls that can't be read are refused and logged; the session goes on.
	for tool, args := range map[string]string{"read_file": `{"path":`, "no_such_tool": `{}`, "stat": `[]`, "glob": `{"path":"shop","pattern":7}`} {
		r := p.prov.Run(t, asJSON([]string{"call", id, tool, args})...)
		r.Stdout = nil // the refusal is the result, and shown as one
		r.Fails(t, denied, invalid)
	}
	call(t, p.prov, id, "workspace_info", object{}).OK(t)

	p.stop(t, id)
	fails(p.req, []int{conflict}, "stop", id)
	fails(p.req, []int{conflict}, "pause", id)
	fails(p.prov, []int{denied, conflict}, "call", id, "workspace_info", "{}")
	fails(p.prov, []int{denied, conflict}, "mcp", id)
	fails(p.prov, []int{denied, conflict}, "work", id, "--", "/bin/true")
	p.prov.Run(t, asJSON([]string{"receipt", "prove", id, "--seq", "99999"})...).Fails(t, notFound, invalid)
	p.prov.Run(t, asJSON([]string{"receipt", "prove", id, "--seq", "-1"})...).Fails(t, usage, invalid)
}

// TestExpired: when the time is up nothing more is done, and it can be proved.
func TestExpired(t *testing.T) {
	t.Parallel()
	p := newPair(t, fixture.Small)
	late := p.offer(t, "--for", "4s").SessionID
	id := p.open(t, "--write", "--for", "4s").SessionID
	before := p.repo.Snapshot(t)
	p.state(t, id, "expired")
	write := `{"path":"shop/late.txt","content":"x","mode":"create"}`
	if pr := p.prov.Run(t, asJSON([]string{"call", id, "write_file", write})...).Fails(t, denied, conflict); !strings.Contains(pr.Code+pr.Message, "expired") {
		t.Errorf("the refusal does not say why: %+v", pr)
	}
	for _, args := range [][]string{{"accept", late}, {"mcp", id}, {"work", id, "--", "/bin/true"}} {
		p.prov.Run(t, asJSON(args)...).Fails(t, denied, notFound, conflict)
	}
	for _, args := range [][]string{{"pause", id}, {"resume", id}, {"stop", id}} {
		p.req.Run(t, asJSON(args)...).Fails(t, conflict)
	}
	if diff := before.Changed(p.repo.Snapshot(t)); len(diff) > 0 {
		t.Errorf("changed after the end: %v", diff)
	}
	if _, v := receipt(t, p.req, id); v.State != "expired" {
		t.Errorf("receipt: %+v", v)
	}
}

// TestBadReceiptFile: offline verbs on what is no receipt.
func TestBadReceiptFile(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	n := w.Node(t, "nobody", world.Config{Stopped: true})
	file := func(name string, content []byte) string {
		path := filepath.Join(w.Dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, tc := range map[string]struct {
		file  string
		codes []int
	}{
		"missing":         {filepath.Join(w.Dir, "none"), []int{notFound}},
		"folder":          {w.Dir, []int{invalid}},
		"empty":           {file("empty", nil), []int{invalid}},
		"text":            {file("text", []byte("hello\n")), []int{invalid}},
		"JSON":            {file("json", []byte(`{"payload":"e30=","payloadType":"x","signatures":[]}`)), []int{invalid}},
		"huge":            {file("huge", make([]byte, 64<<20)), []int{invalid}},
		"deep":            {file("deep", []byte(strings.Repeat("[", 100_000))), []int{invalid}},
		"endless numbers": {"/dev/zero", []int{invalid}},
	} {
		for _, verb := range []string{"verify", "show", "check"} {
			t.Run(fmt.Sprintf("%s/%s", verb, name), func(t *testing.T) {
				t.Parallel()
				n.Run(t, asJSON([]string{"receipt", verb, tc.file})...).Fails(t, tc.codes...)
			})
		}
	}
}

// diskSize is enough for a node's store and an hour of calls.
const diskSize = 256 << 20

// TestFullDisk: a requester whose disk is full executes nothing that it can't
// log, says so, loses nothing acknowledged, and goes on when there is room.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	p := &pair{w: w, repo: fixture.Small(t, w.Dir), prov: w.Node(t, "bob", world.Config{})}
	p.req = w.Node(t, "alice", world.Config{Stopped: true})
	disk := p.req.OnDisk(t, diskSize)
	p.req.Up(t)
	p.meet(t, p.prov.Addrs()[0], p.req.Addrs()[0])
	p.req.PinPorts(t)
	id := p.open(t, "--write", "--for", "1h").SessionID
	write := func(i int) called {
		return call(t, p.prov, id, "write_file", object{"path": fmt.Sprintf("shop/w%d.txt", i), "content": "x", "mode": "create"})
	}
	exists := func(i int) bool {
		_, err := os.Stat(filepath.Join(p.repo.Dir, fmt.Sprintf("w%d.txt", i)))
		return err == nil
	}
	write(0).OK(t)

	disk.Fill(t)
	// What was allocated before may still take some records.
	acknowledged, i := 1, 1
	for ; i < 5000; i++ {
		c := write(i)
		if c.Code != 0 {
			if c.Code != denied || !strings.Contains(string(c.Stderr)+c.Text, "log_unavailable") {
				t.Errorf("call on a full disk: exit code %d: %s%s", c.Code, c.Stdout, c.Stderr)
			}
			break
		}
		acknowledged++
	}
	if i == 5000 {
		t.Fatal("5000 calls were logged on a full disk")
	}
	if exists(i) {
		t.Error("a call was executed without its record")
	}
	share := p.req.Run(t, "share", p.repo.Dir, "--with", "bob", "--json")
	if share.Code == 0 {
		t.Errorf("a session was opened on a full disk: %s", share.Stdout)
	}
	if !p.req.Running() {
		t.Fatalf("the daemon died of the full disk\n%s", p.req.Log())
	}

	disk.Free(t)
	p.req.Restart(t)
	for k := range acknowledged {
		if !exists(k) {
			t.Errorf("acknowledged write %d is not there", k)
		}
	}
	stateAt(t, p.req, id, "open", "aborted", "closed", "paused")
	p.req.Run(t, "stop", id) // it may have ended as aborted
	_, v := receipt(t, p.req, id)
	_, records := export(t, p.req, id)
	ok := 0
	for _, r := range exactlyOnce(t, records) {
		if r.Verdict == "ok" {
			ok++
		}
	}
	if ok < acknowledged {
		t.Errorf("%d acknowledged, %d in the log; receipt %+v", acknowledged, ok, v)
	}
}
