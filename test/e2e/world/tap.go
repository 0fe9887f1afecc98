//go:build unix

package world

import (
	"bytes"
	"fmt"
	"regexp"
	"sync"
	"testing"
)

// maxTapped bounds what one tap keeps, so that a runaway test can't eat the
// machine's memory.
const maxTapped = 512 << 20

// Tap stands between a node and a relay, forwards TCP and UDP, and keeps every
// byte: what the relay's network sees. Each TCP direction is kept as the one
// stream it is, each UDP datagram by itself, so that text is found across
// reads.
type Tap struct {
	tcp *tcpTap
	udp *udpTap
	id  string

	mu      sync.Mutex // guards below
	flows   []*flow
	total   int64
	full    bool
	cut     bool
	refused int // connections and datagrams that met a cut
}

// flow is the bytes of one direction of one TCP connection, or one datagram.
type flow struct{ b []byte }

var target = regexp.MustCompile(`^/ip4/127\.0\.0\.1/(udp|tcp)/(\d+)`)

// Tap opens a tap to the running relay. The listening side is in the network
// of inside, or in the test's own when that is nil.
func (w *World) Tap(t testing.TB, relay, inside *Node) *Tap {
	t.Helper()
	var ns *netns
	if inside != nil {
		ns = inside.ns
	}
	tap := &Tap{id: relay.Ready.PeerID}
	for _, a := range relay.Ready.Addrs {
		m := target.FindStringSubmatch(a)
		var err error
		switch {
		case m == nil:
			continue
		case m[1] == "tcp" && tap.tcp == nil:
			tap.tcp, err = newTCPTap(tap, ns, "127.0.0.1:"+m[2])
		case m[1] == "udp" && tap.udp == nil:
			tap.udp, err = newUDPTap(tap, ns, "127.0.0.1:"+m[2])
		}
		if err != nil {
			t.Fatalf("tap to %s: %v", relay.Name, err)
		}
	}
	if tap.tcp == nil && tap.udp == nil {
		t.Fatalf("tap: %s has no loopback address in %v", relay.Name, relay.Ready.Addrs)
	}
	t.Cleanup(tap.close)
	return tap
}

// Addrs are the relay's addresses by way of the tap, QUIC first.
func (tap *Tap) Addrs() []string {
	var addrs []string
	if tap.udp != nil {
		addrs = append(addrs, fmt.Sprintf("/ip4/127.0.0.1/udp/%d/quic-v1/p2p/%s", tap.udp.port(), tap.id))
	}
	return append(addrs, tap.TCP()...)
}

// TCP are the addresses of Addrs that use TCP.
func (tap *Tap) TCP() []string {
	if tap.tcp == nil {
		return nil
	}
	return []string{fmt.Sprintf("/ip4/127.0.0.1/tcp/%d/p2p/%s", tap.tcp.port(), tap.id)}
}

// Bytes is how many bytes passed, both ways together.
func (tap *Tap) Bytes() int64 {
	tap.mu.Lock()
	defer tap.mu.Unlock()
	return tap.total
}

// Found returns those of the needles that passed in the clear. It fails the
// test when the tap did not keep everything.
func (tap *Tap) Found(t testing.TB, needles [][]byte) [][]byte {
	t.Helper()
	tap.mu.Lock()
	defer tap.mu.Unlock()
	if tap.full {
		t.Fatalf("tap: more than %d bytes passed, not all were kept", maxTapped)
	}
	var found [][]byte
	for _, needle := range needles {
		for _, f := range tap.flows {
			if bytes.Contains(f.b, needle) {
				found = append(found, needle)
				break
			}
		}
	}
	return found
}

// Cut breaks every connection and lets nothing through until Heal.
func (tap *Tap) Cut() { tap.setCut(true) }

// Heal lets new connections and datagrams through again.
func (tap *Tap) Heal() { tap.setCut(false) }

func (tap *Tap) setCut(cut bool) {
	tap.mu.Lock()
	tap.cut = cut
	tap.mu.Unlock()
	if cut && tap.tcp != nil {
		tap.tcp.breakAll()
	}
}

// refuse reports whether the tap is cut for one connection or datagram.
func (tap *Tap) refuse() bool {
	tap.mu.Lock()
	defer tap.mu.Unlock()
	if tap.cut {
		tap.refused++
	}
	return tap.cut
}

// Refused is how many connections and datagrams met a cut.
func (tap *Tap) Refused() int {
	tap.mu.Lock()
	defer tap.mu.Unlock()
	return tap.refused
}

// open starts a flow.
func (tap *Tap) open() *flow {
	tap.mu.Lock()
	defer tap.mu.Unlock()
	f := &flow{}
	tap.flows = append(tap.flows, f)
	return f
}

// add appends to a flow what passed.
func (tap *Tap) add(f *flow, b []byte) {
	tap.mu.Lock()
	defer tap.mu.Unlock()
	tap.total += int64(len(b))
	if tap.total > maxTapped {
		tap.full = true
		return
	}
	f.b = append(f.b, b...)
}

func (tap *Tap) close() {
	if tap.tcp != nil {
		tap.tcp.close()
	}
	if tap.udp != nil {
		tap.udp.close()
	}
}
