//go:build unix

package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weftmesh/weft/protocols/identity"
	"github.com/weftmesh/weft/test/e2e/world"
)

// status is the part of weft status that tests look at.
type status struct {
	PeerID   string   `json:"peerId"`
	Addrs    []string `json:"addrs"`
	Relays   []string `json:"relays"`
	Sessions int      `json:"sessions"`
	Version  string   `json:"version"`
	Peers    []struct {
		PeerID string `json:"peerId"`
		Name   string `json:"name"`
		Path   string `json:"path"`
	} `json:"peers"`
}

func statusOf(t *testing.T, n *world.Node) (s status) {
	t.Helper()
	n.Run(t, "status", "--json").OK(t).Into(t, &s)
	return s
}

// pathTo is the path to a peer as weft status shows it, "" when there is none.
func pathTo(t *testing.T, n *world.Node, peer string) string {
	t.Helper()
	for _, p := range statusOf(t, n).Peers {
		if p.PeerID == peer {
			return p.Path
		}
	}
	return ""
}

// TestNodeLife: one identity over stop, kill and restart; a second start on
// the same home is refused and names the first.
func TestNodeLife(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	n := w.Node(t, "alice", world.Config{})
	first := n.Ready
	if _, err := identity.ParseID(first.PeerID); err != nil {
		t.Fatal(err)
	}
	if len(first.Addrs) < 2 || !strings.HasPrefix(first.API, "http://127.0.0.1:") || first.Version == "" {
		t.Errorf("ready line: %+v", first)
	}
	var id struct{ PeerID, AgentID, DID, Fingerprint string }
	n.Run(t, "id", "--json").OK(t).Into(t, &id)
	if id.PeerID != first.PeerID || id.AgentID != first.AgentID || !strings.HasPrefix(id.DID, "did:key:z") || id.Fingerprint == "" {
		t.Errorf("weft id: %+v, ready: %+v", id, first)
	}
	if s := statusOf(t, n); s.PeerID != first.PeerID || s.Sessions != 0 {
		t.Errorf("status: %+v", s)
	}

	second := n.Run(t, "up", "--json", "--no-mdns", "--listen", "/ip4/127.0.0.1/tcp/0")
	if p := second.Fails(t, 6); !strings.Contains(p.Message+p.Hint, strconv.Itoa(n.PID())) {
		t.Errorf("the refusal does not name pid %d: %+v", n.PID(), p)
	}
	if s := statusOf(t, n); s.PeerID != first.PeerID {
		t.Error("the first node was harmed by the second start")
	}

	n.PinPorts(t)
	n.Kill9(t)
	n.Run(t, "status", "--json").Fails(t, 3)
	n.Up(t)
	if diff := cmp.Diff(first.Addrs, n.Ready.Addrs, cmpopts.SortSlices(strings.Compare)); diff != "" || n.Ready.PeerID != first.PeerID {
		t.Errorf("after kill -9: id %s, addresses (-want +got):\n%s", n.Ready.PeerID, diff)
	}
	n.Restart(t)
	if n.Ready.PeerID != first.PeerID {
		t.Errorf("after a restart: id %s, want %s", n.Ready.PeerID, first.PeerID)
	}
	n.Stop(t)
	n.Run(t, "id", "--json").OK(t).Into(t, &id)
	if id.PeerID != first.PeerID {
		t.Error("weft id differs while the node is down")
	}
}

// TestPeersSurviveRestart: a peer added once is known and connected after both
// sides were killed.
func TestPeersSurviveRestart(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	alice := w.Node(t, "alice", world.Config{})
	bob := w.Node(t, "bob", world.Config{})
	alice.Run(t, "peer", "add", bob.Addrs()[0], "--name", "bob").OK(t)
	alice.Run(t, "ping", "bob", "-c", "1").OK(t)
	alice.PinPorts(t)
	bob.PinPorts(t)
	alice.Kill9(t)
	bob.Kill9(t)
	bob.Up(t)
	alice.Up(t)
	world.Until(t, world.Patience, "alice finds bob again", func() string {
		if p := pathTo(t, alice, bob.Ready.PeerID); !strings.HasPrefix(p, "direct") {
			return fmt.Sprintf("path %q", p)
		}
		return ""
	})
	if r := alice.Run(t, "ping", "bob", "-c", "2", "--json").OK(t); !strings.Contains(string(r.Stdout), "direct") {
		t.Errorf("ping: %s", r.Stdout)
	}
}

// TestRelayedPath: two nodes that can reach nothing but a relay find each
// other through it.
func TestRelayedPath(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	relay := w.Node(t, "relay", world.Config{Relay: true})
	alice, bob, taps := isolated(t, w, relay, false)
	alice.Run(t, "peer", "add", taps[0].Addrs()[0]+"/p2p-circuit/p2p/"+bob.Ready.PeerID, "--name", "bob").OK(t)
	r := alice.Run(t, "ping", "bob", "-c", "2", "--json").OK(t)
	if !strings.Contains(string(r.Stdout), `"relay`) {
		t.Errorf("ping: %s", r.Stdout)
	}
	for i, tap := range taps {
		if tap.Bytes() == 0 {
			t.Errorf("tap %d saw nothing", i)
		}
	}
}

// isolated starts two nodes, each in a network of its own with a tap to the
// relay as the only way out.
func isolated(t *testing.T, w *world.World, relay *world.Node, onlyTCP bool) (alice, bob *world.Node, taps []*world.Tap) {
	t.Helper()
	var nodes []*world.Node
	for _, name := range []string{"alice", "bob"} {
		n := w.Node(t, name, world.Config{Isolated: true, Stopped: true})
		tap := w.Tap(t, relay, n)
		n.Config.Bootstrap = tap.Addrs()
		if onlyTCP {
			n.Config.Bootstrap = tap.TCP()
		}
		n.Up(t)
		nodes, taps = append(nodes, n), append(taps, tap)
	}
	for _, n := range nodes {
		world.Until(t, world.Patience, n.Name+" reaches the relay", func() string {
			if s := statusOf(t, n); len(s.Relays) == 0 && pathTo(t, n, relay.Ready.PeerID) == "" {
				return fmt.Sprintf("%+v", s)
			}
			return ""
		})
	}
	return nodes[0], nodes[1], taps
}
