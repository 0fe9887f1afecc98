package host

import (
	"net/netip"
	"sync"

	"github.com/libp2p/go-libp2p/core/peer"
	relayv2 "github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/relay"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

const (
	// maxStrangerSlots bounds the relay slots of all strangers.
	maxStrangerSlots = 256
	// maxSlotsPerNet bounds those of one IPv4 address or IPv6 /48: an office
	// behind one NAT, not a machine with many keys.
	maxSlotsPerNet = 32
)

// slots decides who may reserve on our relay: known peers always, strangers
// within a share of their own.
type slots struct {
	known func(peer.ID) bool

	mu        sync.Mutex // guards below
	strangers map[peer.ID]netip.Prefix
	perNet    map[netip.Prefix]int
}

var _ relayv2.ACLFilter = (*slots)(nil)

func newSlots(known func(peer.ID) bool) *slots {
	return &slots{known: known, strangers: map[peer.ID]netip.Prefix{}, perNet: map[netip.Prefix]int{}}
}

// AllowReserve is asked by both relays for each reservation.
func (s *slots) AllowReserve(p peer.ID, a ma.Multiaddr) bool {
	if s.known(p) {
		return true
	}
	net := netOf(a)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, again := s.strangers[p]; again {
		return true
	}
	if len(s.strangers) >= maxStrangerSlots || s.perNet[net] >= maxSlotsPerNet {
		return false
	}
	s.strangers[p] = net
	s.perNet[net]++
	return true
}

// AllowConnect leaves it to the reservation: who reserves wants to be called.
func (s *slots) AllowConnect(peer.ID, ma.Multiaddr, peer.ID) bool { return true }

// forget frees the slot of a peer that has no connection left.
func (s *slots) forget(p peer.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	net, ok := s.strangers[p]
	if !ok {
		return
	}
	delete(s.strangers, p)
	if s.perNet[net]--; s.perNet[net] == 0 {
		delete(s.perNet, net)
	}
}

// netOf is what an address owner can't easily have many of.
func netOf(a ma.Multiaddr) netip.Prefix {
	ip, err := manet.ToIP(a)
	if err != nil {
		return netip.Prefix{}
	}
	addr, _ := netip.AddrFromSlice(ip)
	addr = addr.Unmap()
	bits := 32
	if addr.Is6() {
		bits = 48
	}
	net, _ := addr.Prefix(bits)
	return net
}
