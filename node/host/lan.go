package host

import (
	"context"
	"slices"
	"time"

	ma "github.com/multiformats/go-multiaddr"

	"github.com/weftmesh/weft/discovery/lan"
	"github.com/weftmesh/weft/protocols/identity"
)

// lanLag is how long the peer with the larger key waits for the other to
// dial: both hear of each other at once, and one connection is enough.
const lanLag = 1500 * time.Millisecond

// startLAN begins to look for peers on the local network. A network without
// multicast is no reason not to run: Refresh tries again.
func (h *Host) startLAN() {
	s := lan.New(lan.Config{Self: h.self, Addrs: h.lanAddrs, Found: h.lanFound, Log: h.log,
		Prefer: func(k identity.PublicKey) bool { return h.known(libp2pID(k)) }})
	if err := s.Start(h.life); err != nil {
		h.log.Warn("local discovery is off until the network changes", "err", err)
	}
	h.mu.Lock()
	h.lan = s
	h.mu.Unlock()
}

// lanAddrs is what we tell the local network: where we listen, expanded to
// this machine's addresses.
func (h *Host) lanAddrs() []string {
	as, err := h.p2p.Network().InterfaceListenAddresses()
	if err != nil {
		return nil
	}
	var out []string
	for _, a := range as {
		if pathOf(a) != Relay {
			out = append(out, a.String())
		}
	}
	return out
}

// lanFound takes a hint: anybody on the network may have said it, for any
// peer. It makes addresses dialable for a while and, for a wanted peer that
// is away, is a reason to dial now. The dial proves who answers.
func (h *Host) lanFound(c lan.Candidate) {
	p := libp2pID(c.Peer)
	var list []ma.Multiaddr
	for _, s := range c.Addrs {
		if a, err := ma.NewMultiaddr(s); err == nil {
			list = append(list, a)
		}
	}
	h.p2p.Peerstore().AddAddrs(p, list, lan.TTL)
	h.mu.Lock()
	w := h.wanted[p]
	h.mu.Unlock()
	if w == nil || h.hasDirect(p) {
		return
	}
	if slices.Compare(h.self[:], c.Peer[:]) < 0 {
		h.retryNow(w)
		return
	}
	h.spawn(func() {
		ctx, cancel := context.WithTimeout(h.life, 2*lanLag)
		defer cancel()
		if sleep(ctx, lanLag) && !h.hasDirect(p) {
			h.retryNow(w)
		}
	})
}

// Nearby lists the peers that have announced themselves on the local network.
// Nothing about them is proven.
func (h *Host) Nearby() []lan.Candidate {
	h.mu.Lock()
	s := h.lan
	h.mu.Unlock()
	if s == nil {
		return nil
	}
	return s.Candidates()
}
