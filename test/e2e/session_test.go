//go:build unix

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weftmesh/weft/protocols/identity"
	"github.com/weftmesh/weft/test/e2e/fixture"
	"github.com/weftmesh/weft/test/e2e/world"
)

// pair is a requester with a folder and a provider, connected.
type pair struct {
	w    *world.World
	req  *world.Node
	prov *world.Node
	repo *fixture.Repo
}

// newPair starts a relay, a requester and a provider that know each other, and
// makes the repository.
func newPair(t *testing.T, make func(testing.TB, string) *fixture.Repo) *pair {
	t.Helper()
	w := world.New(t)
	relay := w.Node(t, "relay", world.Config{Relay: true})
	p := &pair{w: w,
		req:  w.Node(t, "alice", world.Config{Bootstrap: relay.Addrs()}),
		prov: w.Node(t, "bob", world.Config{Bootstrap: relay.Addrs()}),
		repo: make(t, w.Dir)}
	p.meet(t, p.prov.Addrs()[0], p.req.Addrs()[0])
	return p
}

// meet gives each the other's address and name.
func (p *pair) meet(t *testing.T, prov, req string) {
	t.Helper()
	p.req.Run(t, "peer", "add", prov, "--name", "bob").OK(t)
	p.prov.Run(t, "peer", "add", req, "--name", "alice").OK(t)
}

// shared is what weft share --json prints.
type shared struct {
	SessionID string `json:"sessionId"`
	GrantHash string `json:"grantHash"`
	Provider  string `json:"provider"`
	Roots     []struct {
		Name   string `json:"name"`
		Rights string `json:"rights"`
	} `json:"roots"`
	ExpiresAt string `json:"expiresAt"`
}

// shown is what weft session show --json prints.
type shown struct {
	SessionID    string `json:"sessionId"`
	Role         string `json:"role"`
	State        string `json:"state"`
	Reason       string `json:"reason"`
	Peer         string `json:"peer"`
	Path         string `json:"path"`
	Calls        int    `json:"calls"`
	Allowed      int    `json:"allowed"`
	Refused      int    `json:"refused"`
	BytesRead    int64  `json:"bytesRead"`
	BytesWritten int64  `json:"bytesWritten"`
	LogSize      uint64 `json:"logSize"`
	LogRoot      string `json:"logRoot"`
}

// offer shares the repository and waits until the offer is at the provider.
func (p *pair) offer(t *testing.T, flags ...string) shared {
	t.Helper()
	var s shared
	args := append([]string{"share", p.repo.Dir, "--with", "bob", "--json"}, flags...)
	p.req.Run(t, args...).OK(t).Into(t, &s)
	if s.SessionID == "" || s.GrantHash == "" || len(s.Roots) != 1 {
		t.Fatalf("weft share: %+v", s)
	}
	world.Until(t, world.Patience, "the offer arrives", func() string {
		r := p.prov.Run(t, "offers", "--json").OK(t)
		if !strings.Contains(string(r.Stdout), s.SessionID) {
			return string(r.Stdout)
		}
		return ""
	})
	return s
}

// open is offer, accepted and open on both sides.
func (p *pair) open(t *testing.T, flags ...string) shared {
	t.Helper()
	s := p.offer(t, flags...)
	p.prov.Run(t, "accept", s.SessionID).OK(t)
	p.state(t, s.SessionID, "open")
	return s
}

// state waits until both sides show the session in a state.
func (p *pair) state(t *testing.T, id string, want ...string) {
	t.Helper()
	for _, n := range []*world.Node{p.req, p.prov} {
		stateAt(t, n, id, want...)
	}
}

func stateAt(t *testing.T, n *world.Node, id string, want ...string) shown {
	t.Helper()
	var s shown
	world.Until(t, world.Patience, fmt.Sprintf("session at %s is %v", n.Name, want), func() string {
		s = show(t, n, id)
		if !slices.Contains(want, s.State) {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
	return s
}

func show(t *testing.T, n *world.Node, id string) (s shown) {
	t.Helper()
	n.Run(t, "session", "show", id, "--json").OK(t).Into(t, &s)
	return s
}

// called is how weft call ended.
type called struct {
	world.Result
	// Text is the result's text, or the refusal's.
	Text string
}

// call makes one call from the command line.
func call(t *testing.T, n *world.Node, id, tool string, args any) called {
	t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	c := called{Result: n.Run(t, "call", id, tool, string(raw), "--json")}
	var out struct {
		Text string `json:"text"`
	}
	var fail struct {
		Error world.Problem `json:"error"`
	}
	if len(c.Stdout) > 0 {
		c.Into(t, &out)
	}
	if len(c.Stderr) > 0 && json.Unmarshal(c.Stderr, &fail) != nil {
		t.Fatalf("weft call %s: stderr is not an error document: %s", tool, c.Stderr)
	}
	c.Text = out.Text + fail.Error.Message
	return c
}

type object = map[string]any

// stop ends the session from the requester's side.
func (p *pair) stop(t *testing.T, id string) {
	t.Helper()
	p.req.Run(t, "stop", id).OK(t)
	p.state(t, id, "closed", "killed")
}

// receipt saves a side's receipt, once the other side has signed it too.
func receipt(t *testing.T, n *world.Node, id string) (file string, v verdict) {
	t.Helper()
	file = filepath.Join(n.Home, "..", n.Name+"-"+id+".receipt")
	world.Until(t, world.Patience, "the receipt at "+n.Name+" is cosigned", func() string {
		r := n.Run(t, "receipt", "get", id)
		if r.Code != 0 {
			return string(r.Stderr)
		}
		if err := os.WriteFile(file, r.Stdout, 0o600); err != nil {
			t.Fatal(err)
		}
		if v = verify(t, n, file); !v.Cosigned {
			return fmt.Sprintf("%+v", v)
		}
		return ""
	})
	return file, v
}

// verdict is what weft receipt verify --json prints.
type verdict struct {
	Valid     bool   `json:"valid"`
	Requester string `json:"requester"`
	Provider  string `json:"provider"`
	State     string `json:"state"`
	Records   uint64 `json:"records"`
	Root      string `json:"root"`
	Calls     uint64 `json:"calls"`
	Unknown   uint64 `json:"unknown"`
	Unacked   uint64 `json:"unacked"`
	Cosigned  bool   `json:"cosigned"`
}

func verify(t *testing.T, n *world.Node, file string) (v verdict) {
	t.Helper()
	n.Run(t, "receipt", "verify", file, "--json").OK(t).Into(t, &v)
	if !v.Valid {
		t.Fatalf("exit code 0, but not valid: %+v", v)
	}
	return v
}

// verifyLog is the command that checks an exported log against a receipt.
func verifyLog(receipt, export string) []string {
	return []string{"receipt", "verify", receipt, "--log", export, "--json"}
}

// is reports whether an id of any spelling is the node's.
func is(t *testing.T, id string, n *world.Node) bool {
	t.Helper()
	key, err := identity.ParseID(id)
	return err == nil && string(key.PeerID()) == n.Ready.PeerID
}

// record is a line of an exported log.
type record struct {
	Seq     uint64 `json:"seq"`
	Type    string `json:"type"`
	Call    string `json:"call"`
	Tool    string `json:"tool"`
	Verdict string `json:"verdict"`
	Code    string `json:"code"`
}

// export saves a side's log and decodes it. The first line is a header.
func export(t *testing.T, n *world.Node, id string) (file string, records []record) {
	t.Helper()
	file = filepath.Join(n.Home, "..", n.Name+"-"+id+".log")
	n.Run(t, "session", "export", id, file).OK(t)
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		var r record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("exported log: %v: %s", err, line)
		}
		if r.Type != "" {
			records = append(records, r)
		}
	}
	return file, records
}

// exactlyOnce checks that every call that was allowed has exactly one result,
// that none has two, and returns the results by call id.
func exactlyOnce(t *testing.T, records []record) map[string]record {
	t.Helper()
	allowed, results := map[string]record{}, map[string]record{}
	for i, r := range records {
		if r.Seq != uint64(i) {
			t.Errorf("record %d has seq %d", i, r.Seq)
		}
		switch r.Type {
		case "call":
			if old, twice := allowed[r.Call]; twice {
				t.Errorf("call %s is there twice: %+v and %+v", r.Call, old, r)
			}
			if r.Verdict == "allowed" {
				allowed[r.Call] = r
			}
		case "result":
			if _, twice := results[r.Call]; twice {
				t.Errorf("call %s has two results", r.Call)
			}
			if _, in := allowed[r.Call]; !in {
				t.Errorf("a result without its call: %+v", r)
			}
			results[r.Call] = r
		}
	}
	for id, r := range allowed {
		if _, done := results[id]; !done {
			t.Errorf("call %s (%s, seq %d) has no result", id, r.Tool, r.Seq)
		}
	}
	return results
}
