package host

import (
	"github.com/libp2p/go-libp2p/core/connmgr"
	"github.com/libp2p/go-libp2p/core/control"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// gate decides which connections may exist. libp2p calls it at each step of
// making one; it takes h.mu for lookups only.
type gate struct{ h *Host }

var _ connmgr.ConnectionGater = (*gate)(nil)

// InterceptPeerDial allows only peers whose id is a safe ed25519 key.
func (g *gate) InterceptPeerDial(p peer.ID) bool {
	_, err := keyOf(p)
	return err == nil
}

// InterceptAddrDial keeps a public server from dialling private addresses
// that a remote peer made up (kubo#8585: abuse mail from hosting companies).
// Addresses from the owner are dialled always.
func (g *gate) InterceptAddrDial(p peer.ID, a ma.Multiaddr) bool {
	key, err := keyOf(p)
	if err != nil {
		return false
	}
	if g.h.cfg.Allow != nil && !g.h.cfg.Allow(key, a.String(), false) {
		return false
	}
	if pathOf(a) == Relay || manet.IsPublicAddr(a) {
		return true
	}
	return privateDialOK(g.h.cfg.Profile, g.h.hasPublicAddr(), g.h.isGiven(p, a))
}

// privateDialOK is the rule for a private address that is known of a peer.
func privateDialOK(profile string, selfPublic, given bool) bool {
	return profile == ProfileLaptop || !selfPublic || given
}

// InterceptAccept leaves the count of anonymous connections to the resource
// manager, which knows addresses.
func (g *gate) InterceptAccept(network.ConnMultiaddrs) bool { return true }

// InterceptSecured refuses unsafe keys on both sides and, inbound, strangers
// beyond their share.
func (g *gate) InterceptSecured(dir network.Direction, p peer.ID, c network.ConnMultiaddrs) bool {
	key, err := keyOf(p)
	if err != nil {
		return false
	}
	if dir != network.DirInbound {
		return true
	}
	if g.h.cfg.Allow != nil && !g.h.cfg.Allow(key, c.RemoteMultiaddr().String(), true) {
		return false
	}
	return g.h.known(p) || g.h.strangerConns() < g.h.limits.strangers
}

// InterceptUpgraded has nothing left to decide.
func (g *gate) InterceptUpgraded(network.Conn) (bool, control.DisconnectReason) { return true, 0 }
