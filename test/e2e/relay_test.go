//go:build unix

package e2e

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/weftmesh/weft/protocols/identity"
	"github.com/weftmesh/weft/test/e2e/fixture"
	"github.com/weftmesh/weft/test/e2e/world"
)

// forms are the spellings in which a line of the known file could pass: as it
// is, in hex, and in base64 at each of the three places it can start.
func forms(lines ...string) (needles [][]byte) {
	for _, line := range lines {
		needles = append(needles, []byte(line), []byte(hex.EncodeToString([]byte(line))))
		for shift := range 3 {
			enc := base64.StdEncoding.EncodeToString(append(make([]byte, shift), line...))
			needles = append(needles, []byte(enc[4:len(enc)-4])) // the ends depend on the neighbours
		}
	}
	return needles
}

// TestRelaySeesNothing: over QUIC and over TCP, the relay's traffic and memory
// hold no line of a file that was read, searched and written through it.
func TestRelaySeesNothing(t *testing.T) {
	t.Parallel()
	for name, onlyTCP := range map[string]bool{"quic": false, "tcp": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world.New(t)
			relay := w.Node(t, "relay", world.Config{Relay: true})
			p := &pair{w: w, repo: fixture.Small(t, w.Dir)}
			var taps []*world.Tap
			p.req, p.prov, taps = isolated(t, w, relay, onlyTCP)
			via := func(tap *world.Tap, n *world.Node) string {
				addrs := tap.Addrs()
				if onlyTCP {
					addrs = tap.TCP()
				}
				return addrs[0] + "/p2p-circuit/p2p/" + n.Ready.PeerID
			}
			p.meet(t, via(taps[0], p.prov), via(taps[1], p.req))
			s := p.open(t, "--write", "--for", "1h")
			id := s.SessionID
			if sh := show(t, p.req, id); sh.Path != "relay" {
				t.Fatalf("path %q: the test proves nothing", sh.Path)
			}

			written := "written-" + p.repo.Canaries[1][7:]
			if c := call(t, p.prov, id, "read_file", object{"path": "shop/" + fixture.Plan}); !strings.Contains(c.OKText(t), p.repo.Canaries[39]) {
				t.Fatalf("read_file: %s", c.Text)
			}
			if c := call(t, p.prov, id, "grep", object{"path": "shop", "pattern": "canary-"}); !strings.Contains(c.OKText(t), p.repo.Canaries[3]) {
				t.Fatalf("grep: %s", c.Text)
			}
			call(t, p.prov, id, "write_file", object{"path": "shop/docs/new.md", "content": strings.Repeat(written+"\n", 200), "mode": "create"}).OK(t)
			if got := p.repo.Read(t, "docs/new.md"); strings.Count(got, written) != 200 {
				t.Fatalf("written file of %d bytes", len(got))
			}

			// A cut of both lines: the same session goes on, and nothing leaks
			// in the new handshake either.
			for _, tap := range taps {
				tap.Cut()
			}
			for _, tap := range taps {
				tap.Heal()
			}
			if c := call(t, p.prov, id, "read_file", object{"path": "shop/" + fixture.Plan}); !strings.Contains(c.OKText(t), p.repo.Canaries[0]) {
				t.Fatalf("read_file after the cut: %s", c.Text)
			}

			needles := forms(append(p.repo.Canaries, written)...)
			for i, tap := range taps {
				if tap.Bytes() < 4000 {
					t.Errorf("tap %d: only %d bytes passed", i, tap.Bytes())
				}
				if found := tap.Found(t, needles); len(found) > 0 {
					t.Errorf("tap %d saw %q", i, found)
				}
				if onlyTCP && len(tap.Found(t, [][]byte{[]byte("/multistream/1.0.0")})) == 0 {
					t.Error("the tap does not even see the handshake")
				}
			}
			key, err := identity.ParseID(p.req.Ready.PeerID)
			if err != nil {
				t.Fatal(err)
			}
			if len(world.Memory(t, relay.PID(), [][]byte{key[:]})) == 0 {
				t.Error("the search does not find the requester's key, which the relay must know")
			}
			if found := world.Memory(t, relay.PID(), needles); len(found) > 0 {
				t.Errorf("the relay's memory holds %q", found)
			}
			p.stop(t, id)
			receipt(t, p.req, id)
			receipt(t, p.prov, id)
		})
	}
}

// OKText is the text of a call that must have succeeded.
func (c called) OKText(t *testing.T) string {
	t.Helper()
	c.OK(t)
	return c.Text
}

// TestRelayRestart: the session outlives its relay, killed and started again
// at the same address, with a run of calls on top.
func TestRelayRestart(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	relay := w.Node(t, "relay", world.Config{Relay: true})
	relay.PinPorts(t)
	p := &pair{w: w, repo: fixture.Small(t, w.Dir)}
	var taps []*world.Tap
	p.req, p.prov, taps = isolated(t, w, relay, false)
	p.meet(t, taps[0].Addrs()[0]+"/p2p-circuit/p2p/"+p.prov.Ready.PeerID, taps[1].Addrs()[0]+"/p2p-circuit/p2p/"+p.req.Ready.PeerID)
	id := p.open(t, "--write", "--for", "1h").SessionID
	for round := range 3 {
		call(t, p.prov, id, "write_file", object{"path": fmt.Sprintf("shop/r%d", round), "content": "x", "mode": "create"}).OK(t)
		relay.Kill9(t)
		relay.Up(t)
	}
	call(t, p.prov, id, "read_file", object{"path": "shop/README.md"}).OK(t)
	p.stop(t, id)
	_, v := receipt(t, p.req, id)
	_, records := export(t, p.req, id)
	exactlyOnce(t, records)
	if v.Unknown != 0 || v.Calls != 4 {
		t.Errorf("receipt: %+v", v)
	}
}
