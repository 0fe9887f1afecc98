package host

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"github.com/weftmesh/weft/protocols/identity"
)

const (
	// maxAddrs bounds the addresses we keep or accept for one peer.
	maxAddrs = 16
	// maxAddrLen bounds one address as text. The longest real ones, a relayed
	// address by DNS name, are near 200.
	maxAddrLen = 256
	// hintTTL is how long an address that was not confirmed stays dialable
	// after the dial it was added for.
	hintTTL = 2 * time.Minute
)

// Add gives addresses of a peer, as multiaddrs with or without /p2p/ID, from
// the owner: they are dialled on any profile. They replace those given before.
func (h *Host) Add(k identity.PublicKey, addrs []string) error {
	p := libp2pID(k)
	list := make([]ma.Multiaddr, 0, len(addrs))
	for _, s := range addrs {
		id, a, err := parseAddr(s)
		if err != nil {
			return err
		}
		if id != "" && id != p {
			return fmt.Errorf("%w: %s belongs to another peer than %s", ErrAddress, s, k.AgentID())
		}
		list = append(list, a)
	}
	if len(list) > maxAddrs {
		return fmt.Errorf("%w: %d addresses for one peer, at most %d", ErrAddress, len(list), maxAddrs)
	}
	h.mu.Lock()
	h.given[p] = list
	w := h.wanted[p]
	h.mu.Unlock()
	h.p2p.Peerstore().AddAddrs(p, list, peerstore.AddressTTL)
	if w != nil {
		h.retryNow(w)
	}
	return nil
}

// ParseAddr splits a multiaddr with /p2p/ID into the peer's key and the
// address. For a relayed address (.../p2p/RELAY/p2p-circuit/p2p/ID) the key is
// that of the peer behind the relay.
func ParseAddr(s string) (identity.PublicKey, string, error) {
	id, a, err := parseAddr(s)
	if err != nil {
		return identity.PublicKey{}, "", err
	}
	if id == "" {
		return identity.PublicKey{}, "", fmt.Errorf("%w: %s names no peer; it must end with /p2p/ID", ErrAddress, s)
	}
	k, err := keyOf(id)
	if err != nil {
		return identity.PublicKey{}, "", fmt.Errorf("%w: %s: %v", ErrAddress, s, err)
	}
	return k, a.String(), nil
}

// parseAddr reads one multiaddr and takes a final /p2p/ID off it.
func parseAddr(s string) (peer.ID, ma.Multiaddr, error) {
	if len(s) > maxAddrLen {
		return "", nil, fmt.Errorf("%w: %d bytes, at most %d", ErrAddress, len(s), maxAddrLen)
	}
	a, err := ma.NewMultiaddr(s)
	if err != nil {
		return "", nil, fmt.Errorf("%w: %q is not a multiaddr such as /ip4/192.0.2.7/udp/4001/quic-v1/p2p/ID: %v", ErrAddress, s, err)
	}
	rest, id := peer.SplitAddr(a)
	if rest == nil {
		return "", nil, fmt.Errorf("%w: %q has no place to dial; use weft peer add ID for an id alone", ErrAddress, s)
	}
	return id, rest, nil
}

// parseBootstrap groups bootstrap addresses by peer, in the order given.
func parseBootstrap(addrs []string, self peer.ID) ([]peer.AddrInfo, error) {
	var out []peer.AddrInfo
	for _, s := range addrs {
		id, a, err := parseAddr(s)
		switch {
		case err != nil:
			return nil, fmt.Errorf("bootstrap peer: %w", err)
		case id == "":
			return nil, fmt.Errorf("bootstrap peer: %w: %s must end with /p2p/ID", ErrAddress, s)
		case id == self:
			return nil, fmt.Errorf("bootstrap peer %s: %w", s, ErrSelf)
		}
		if _, err := keyOf(id); err != nil {
			return nil, fmt.Errorf("bootstrap peer: %w: %s: %v", ErrAddress, s, err)
		}
		i := slices.IndexFunc(out, func(x peer.AddrInfo) bool { return x.ID == id })
		if i < 0 {
			i = len(out)
			out = append(out, peer.AddrInfo{ID: id})
		}
		if len(out[i].Addrs) < maxAddrs {
			out[i].Addrs = append(out[i].Addrs, a)
		}
	}
	return out, nil
}

func (h *Host) isGiven(p peer.ID, a ma.Multiaddr) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return ma.Contains(h.given[p], a)
}

// hints returns every address to try for a peer beyond what libp2p knows:
// given by the owner, saved by the last run, and a circuit through each relay
// that we are connected to.
func (h *Host) hints(p peer.ID) []ma.Multiaddr {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := slices.Clone(h.given[p])
	if w := h.wanted[p]; w != nil {
		out = append(out, w.saved...)
	}
	for id, w := range h.wanted {
		if id == p || !w.isRelay || h.peers[id] == nil || len(h.peers[id].links) == 0 {
			continue
		}
		if a, err := ma.NewMultiaddr("/p2p/" + id.String() + "/p2p-circuit"); err == nil {
			out = append(out, a)
		}
	}
	return out
}

// advertise is libp2p's address factory: what we tell peers. It adds our
// addresses through relays, which libp2p leaves out when the relay is on a
// private network (go-libp2p#3361), and drops those of container bridges,
// which exist on every such machine and lead nowhere.
func (h *Host) advertise(addrs []ma.Multiaddr) []ma.Multiaddr {
	nets := bridges.get()
	out := slices.DeleteFunc(slices.Clone(addrs), func(a ma.Multiaddr) bool {
		ip, err := manet.ToIP(a)
		return err == nil && slices.ContainsFunc(nets, func(n net.IP) bool { return n.Equal(ip) })
	})
	if len(out) == 0 {
		out = slices.Clone(addrs)
	}
	if h.cfg.Hide != nil && h.cfg.Hide() {
		out = slices.DeleteFunc(out, func(a ma.Multiaddr) bool { return pathOf(a) != Relay })
	}
	if c := h.circuit.Load(); c != nil {
		out = append(out, *c...)
	}
	return ma.Unique(out)
}

// hasPublicAddr reports whether this machine is on the public internet.
func (h *Host) hasPublicAddr() bool {
	all, ok := h.p2p.(interface{ AllAddrs() []ma.Multiaddr })
	return ok && slices.ContainsFunc(all.AllAddrs(), manet.IsPublicAddr)
}

// bridgeCache remembers the addresses of container bridges for a while, since
// libp2p asks often and interfaces change rarely.
type bridgeCache struct {
	mu    sync.Mutex // guards below
	until time.Time
	ips   []net.IP
}

var bridges bridgeCache

const bridgeTTL = 30 * time.Second

func (c *bridgeCache) get() []net.IP {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.After(c.until) {
		c.until, c.ips = now.Add(bridgeTTL), nil
		ifs, _ := net.Interfaces() // none known: nothing is dropped
		for _, i := range ifs {
			if !isBridge(i.Name) {
				continue
			}
			as, _ := i.Addrs()
			for _, a := range as {
				if n, ok := a.(*net.IPNet); ok {
					c.ips = append(c.ips, n.IP)
				}
			}
		}
	}
	return c.ips
}

// isBridge knows the names that container and VM tools give their bridges.
func isBridge(name string) bool {
	for _, prefix := range []string{"docker", "br-", "virbr", "cni", "podman"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
