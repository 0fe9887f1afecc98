package host

import (
	"slices"
	"strings"
	"time"

	ma "github.com/multiformats/go-multiaddr"

	"github.com/weftmesh/weft/protocols/identity"
)

// PeerStatus is what we know of one connected or wanted peer.
type PeerStatus struct {
	Peer identity.PublicKey
	// Connected is false for a wanted peer that is away.
	Connected bool
	// Wanted says that Keep or Bootstrap asked for it.
	Wanted bool
	// Path is the best path now, empty when not connected; Limited says
	// that it ends after a few bytes or minutes.
	Path    Path
	Limited bool
	// Via is the multiaddr of the peer's end of that path.
	Via string
	// RTT is the last measured round trip on that path; 0 if none was.
	RTT time.Duration
	// BytesIn and BytesOut count what weft's own protocols carried since the
	// peer connected, or for a wanted peer since the node started.
	BytesIn, BytesOut uint64
	// Since is when the path came up.
	Since time.Time
}

// RelayStatus is what we know of one bootstrap peer as a relay.
type RelayStatus struct {
	Peer identity.PublicKey
	// Reserved says that peers can reach us through it now.
	Reserved bool
	// Limited says that it limits the circuits to us.
	Limited bool
	// Until is when the reservation ends unless renewed.
	Until time.Time
	// Addrs are our addresses through it.
	Addrs []string
	// Problem says why there is no reservation, in words for the person.
	Problem string
	// ClockSkew says that its clock and ours differ by an hour or more.
	ClockSkew bool
}

// PeerID returns the node's own key.
func (h *Host) PeerID() identity.PublicKey { return h.self }

// Addrs returns every address that we tell peers, with /p2p/ID.
func (h *Host) Addrs() []string {
	var out []string
	for _, a := range h.p2p.Addrs() {
		out = append(out, a.String()+"/p2p/"+h.id.String())
	}
	return out
}

// PathOf returns the best path to a peer now; false if it is not connected.
func (h *Host) PathOf(k identity.PublicKey) (Path, bool) {
	ls := h.links(libp2pID(k))
	if len(ls) == 0 {
		return "", false
	}
	return ls[0].path, true
}

// Peers lists connected and wanted peers, ordered by key.
func (h *Host) Peers() []PeerStatus {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []PeerStatus
	for p, s := range h.peers {
		st := PeerStatus{Peer: s.key, Wanted: h.wanted[p] != nil, BytesIn: s.in.Load(), BytesOut: s.out.Load()}
		if ls := h.linksLocked(p); len(ls) > 0 {
			l := ls[0]
			st.Connected, st.Path, st.Limited, st.Since = true, l.path, l.limited, l.opened
			st.Via, st.RTT = l.conn.RemoteMultiaddr().String(), time.Duration(l.rtt.Load())
		}
		out = append(out, st)
	}
	for p := range h.wanted {
		if key, err := keyOf(p); err == nil && h.peers[p] == nil {
			out = append(out, PeerStatus{Peer: key, Wanted: true})
		}
	}
	slices.SortFunc(out, func(a, b PeerStatus) int { return slices.Compare(a.Peer[:], b.Peer[:]) })
	return out
}

// RelayStates lists the bootstrap peers as relays, ordered by key.
func (h *Host) RelayStates() []RelayStatus {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []RelayStatus
	for p, w := range h.wanted {
		key, err := keyOf(p)
		if !w.isRelay || err != nil {
			continue
		}
		r := w.res
		st := RelayStatus{Peer: key, Reserved: r.held, Limited: r.limited, Until: r.until, Problem: r.problem, ClockSkew: r.skew}
		for _, a := range r.addrs {
			st.Addrs = append(st.Addrs, a.String())
		}
		out = append(out, st)
	}
	slices.SortFunc(out, func(a, b RelayStatus) int { return slices.Compare(a.Peer[:], b.Peer[:]) })
	return out
}

// Relays lists the peer ids of the relays that peers can reach us through now.
func (h *Host) Relays() []string {
	var out []string
	for _, r := range h.RelayStates() {
		if r.Reserved {
			out = append(out, r.Peer.String())
		}
	}
	return out
}

// Reachability says what AutoNAT v2 found: "public" if one address was
// reached from outside, "private" if only unreachable ones are left, and
// "unknown" while nobody has tested one.
func (h *Host) Reachability() string {
	c, ok := h.p2p.(interface {
		ConfirmedAddrs() (reachable, unreachable, unknown []ma.Multiaddr)
	})
	if !ok {
		return "unknown"
	}
	reachable, unreachable, unknown := c.ConfirmedAddrs()
	switch {
	case len(reachable) > 0:
		return "public"
	case len(unreachable) > 0 && len(unknown) == 0:
		return "private"
	}
	return "unknown"
}

// ListenAddrs returns what the host listens on, without /p2p/ID, circuit
// addresses or interface expansion.
func (h *Host) ListenAddrs() []string {
	var out []string
	for _, a := range h.p2p.Network().ListenAddresses() {
		if s := a.String(); !strings.Contains(s, "p2p-circuit") {
			out = append(out, s)
		}
	}
	return out
}
