package node

import (
	"strings"
	"testing"

	"github.com/weftmesh/weft/node/api"
	"github.com/weftmesh/weft/protocols/identity"
)

// seeded makes a fixed key, so that prefixes are known.
func seeded(t testing.TB, b byte) identity.PublicKey {
	t.Helper()
	k, err := identity.FromSeed([]byte(strings.Repeat(string([]byte{b}), 32)))
	if err != nil {
		t.Fatal(err)
	}
	return k.Public()
}

func TestResolve(t *testing.T) {
	t.Parallel()
	bob, carol, eve, far := seeded(t, 1), seeded(t, 2), seeded(t, 3), seeded(t, 4)
	contacts := []Contact{{ID: bob, Name: "Bob"}, {ID: carol, Name: "李雷"}}
	connected := []identity.PublicKey{eve, bob}
	// The shortest beginning of a peer id that only one of the three has.
	unique := func(p identity.PublicKey, others ...identity.PublicKey) string {
		s := string(p.PeerID())
		for n := minPrefix; n < len(s); n++ {
			alone := true
			for _, o := range others {
				alone = alone && !strings.HasPrefix(string(o.PeerID()), s[:n])
			}
			if alone {
				return s[:n]
			}
		}
		return s
	}
	good := []struct {
		name, spec string
		want       identity.PublicKey
	}{
		{"peer id", string(far.PeerID()), far},
		{"agent id", string(far.AgentID()), far},
		{"did", far.DID(), far},
		{"name", "Bob", bob},
		{"name in another case", "bOB", bob},
		{"name in another script", "李雷", carol},
		{"beginning of a contact's peer id", unique(bob, carol, eve), bob},
		{"beginning of a connected peer's id", unique(eve, bob, carol), eve},
		{"beginning of an agent id", string(carol.AgentID())[:8], carol},
		{"beginning of a did", carol.DID()[:20], carol},
	}
	for _, tt := range good {
		if got, err := resolve(tt.spec, contacts, connected); err != nil || got != tt.want {
			t.Errorf("%s: %v, %v", tt.name, got, err)
		}
	}
	bad := []struct {
		name, spec string
		want       api.Kind
	}{
		{"nothing", "", api.Invalid},
		{"bad UTF-8", "\xff", api.Invalid},
		{"long", strings.Repeat("x", 1000), api.Invalid},
		{"unknown name", "alice", api.NotFound},
		{"too short a beginning", string(carol.AgentID())[:7], api.NotFound},
		{"unknown beginning", string(far.AgentID())[:10], api.NotFound},
		{"ambiguous beginning", "12D3KooW", api.Invalid},
		{"mistyped peer id", "12D3KooWMoVP58SVBjZCtpQeDYbpKX7byj3aMtxFFXckYAghszD0", api.Invalid},
		{"peer id cut by one", string(far.PeerID())[:51], api.Invalid},
		{"small order key", "11111111111111111111111111111111", api.NotFound},
		{"small order did", identity.PublicKey{}.DID(), api.Invalid},
	}
	for _, tt := range bad {
		_, err := resolve(tt.spec, contacts, connected)
		wantKind(t, tt.name, err, tt.want)
	}
}

func TestParseTarget(t *testing.T) {
	t.Parallel()
	bob, relay := seeded(t, 1), seeded(t, 2)
	id, via := string(bob.PeerID()), string(relay.PeerID())
	good := []struct{ name, in, addr string }{
		{"peer id", id, ""},
		{"agent id", string(bob.AgentID()), ""},
		{"did", bob.DID(), ""},
		{"p2p id", "/p2p/" + id, ""},
		{"quic", "/ip4/192.0.2.7/udp/4001/quic-v1/p2p/" + id, "/ip4/192.0.2.7/udp/4001/quic-v1"},
		{"name of a host", "/dns4/example.org/tcp/4001/p2p/" + id, "/dns4/example.org/tcp/4001"},
		{"relayed", "/ip4/192.0.2.7/tcp/1/p2p/" + via + "/p2p-circuit/p2p/" + id, "/ip4/192.0.2.7/tcp/1/p2p/" + via + "/p2p-circuit"},
	}
	for _, tt := range good {
		if p, addr, err := parseTarget(tt.in); err != nil || p != bob || addr != tt.addr {
			t.Errorf("%s: %v, %q, %v", tt.name, p, addr, err)
		}
	}
	for name, in := range map[string]string{
		"nothing": "", "name": "bob", "no id": "/ip4/192.0.2.7/tcp/1", "no address": "/p2p/", "URL": "http://192.0.2.7",
		"bad address": "/ip4/300.0.0.1/tcp/1/p2p/" + id, "RSA peer": "/ip4/192.0.2.7/tcp/1/p2p/QmYyQSo1c1Ym7orWxLYvCrM2EmxFTANf8wXmmE7DWjhx5N",
		"long": "/dns4/" + strings.Repeat("a", 300) + "/tcp/1/p2p/" + id, "relay alone": "/ip4/192.0.2.7/tcp/1/p2p/" + via + "/p2p-circuit",
		"small order": "/ip4/192.0.2.7/tcp/1/p2p/" + string(identity.PublicKey{}.PeerID()),
	} {
		_, _, err := parseTarget(in)
		wantKind(t, name, err, api.Invalid)
	}
}

func FuzzParseTarget(f *testing.F) {
	id := string(seeded(f, 1).PeerID())
	f.Add(id)
	f.Add("/ip4/192.0.2.7/udp/4001/quic-v1/p2p/" + id)
	f.Add("/ip4/192.0.2.7/tcp/1/p2p/" + id + "/p2p-circuit/p2p/" + id)
	f.Add("/p2p/" + id)
	f.Fuzz(func(t *testing.T, s string) {
		p, addr, err := parseTarget(s)
		if err != nil {
			return
		}
		if p.IsZero() || len(addr) > maxAddrLen {
			t.Fatalf("%q gives %v, %q", s, p, addr)
		}
		whole := addr + "/p2p/" + string(p.PeerID())
		if q, again, err := parseTarget(whole); err != nil || q != p || again != addr {
			t.Fatalf("%q: %q doesn't read back: %v", s, whole, err)
		}
	})
}
