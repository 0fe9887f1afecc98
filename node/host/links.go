package host

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/weftmesh/weft/protocols/identity"
)

// link is one connection as we count it.
type link struct {
	conn    network.Conn // immutable, as all but the atomics
	path    Path
	limited bool
	inbound bool
	opened  time.Time

	heard atomic.Int64 // since process start, ns; when the peer was last heard
	rtt   atomic.Int64 // of the last ping, ns; 0 = none yet
}

// peerState is what we keep of a connected or wanted peer. Guarded by Host.mu
// but for the counters.
type peerState struct {
	key     identity.PublicKey
	links   []*link
	in, out atomic.Uint64 // bytes of our own protocols
}

// processStart makes heard a monotonic number.
var processStart = time.Now()

func sinceStart() int64 { return int64(time.Since(processStart)) }

func (l *link) touch() { l.heard.Store(sinceStart()) }

// silent is how long nothing was heard on the link.
func (l *link) silent() time.Duration { return time.Duration(sinceStart() - l.heard.Load()) }

// watchLinks subscribes to libp2p's connection notifications. They arrive
// while libp2p waits, so they only copy into our own maps and wake others.
func (h *Host) watchLinks() error {
	h.p2p.Network().Notify(&network.NotifyBundle{ConnectedF: h.connected, DisconnectedF: h.disconnected})
	return nil
}

func (h *Host) connected(_ network.Network, c network.Conn) {
	p := c.RemotePeer()
	key, err := keyOf(p)
	if err != nil {
		return // the gate has refused it already
	}
	st := c.Stat()
	l := &link{
		conn: c, path: pathOf(c.RemoteMultiaddr()), limited: st.Limited,
		inbound: st.Direction == network.DirInbound, opened: st.Opened,
	}
	l.touch()
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.peers[p]
	if s == nil {
		s = &peerState{key: key}
		h.peers[p] = s
	}
	s.links = append(s.links, l)
	h.changedLocked(p)
	if l.path == Relay && !l.inbound || l.path == Relay && h.wanted[p] != nil {
		h.upgradeSoonLocked(p, l)
	}
}

func (h *Host) disconnected(_ network.Network, c network.Conn) {
	p := c.RemotePeer()
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.peers[p]
	if s == nil {
		return
	}
	s.links = slices.DeleteFunc(s.links, func(l *link) bool { return l.conn == c })
	if len(s.links) == 0 {
		if h.wanted[p] == nil {
			delete(h.peers, p)
		}
		if h.relay != nil {
			h.relay.admit.forget(p)
		}
	}
	h.changedLocked(p)
}

// changedLocked wakes whoever cares for the peer.
func (h *Host) changedLocked(p peer.ID) {
	if w := h.wanted[p]; w != nil {
		w.wake()
	}
	for s := range h.subs {
		s.mark(p)
	}
}

// links returns the peer's connections, best first.
func (h *Host) links(p peer.ID) []*link {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.linksLocked(p)
}

func (h *Host) linksLocked(p peer.ID) []*link {
	s := h.peers[p]
	if s == nil {
		return nil
	}
	ls := slices.Clone(s.links)
	slices.SortStableFunc(ls, better)
	return ls
}

// linkOf finds our record of a connection.
func (h *Host) linkOf(c network.Conn) (*peerState, *link) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.peers[c.RemotePeer()]
	if s == nil {
		return nil, nil
	}
	for _, l := range s.links {
		if l.conn == c {
			return s, l
		}
	}
	return nil, nil
}

// known reports whether the owner has added the peer.
func (h *Host) known(p peer.ID) bool {
	h.mu.Lock()
	_, wanted := h.wanted[p]
	h.mu.Unlock()
	if wanted {
		return true
	}
	key, err := keyOf(p)
	return err == nil && h.cfg.Known(key)
}

// strangerConns counts the connections of peers the owner has not added.
func (h *Host) strangerConns() int {
	n := map[peer.ID]int{}
	for _, c := range h.p2p.Network().Conns() {
		n[c.RemotePeer()]++
	}
	total := 0
	for p, conns := range n {
		if !h.known(p) {
			total += conns
		}
	}
	return total
}
