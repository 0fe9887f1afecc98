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

	streams int       // guarded by Host.mu; open streams of our protocols
	doomed  time.Time // guarded by Host.mu; when it became a twin to be closed

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
	h.dropTwinLocked(s)
	if l.path == Relay && !l.inbound || l.path == Relay && h.wanted[p] != nil {
		h.upgradeSoonLocked(p, l)
	}
}

// dropTwinLocked closes one of two relayed connections that both sides made at
// the same time, each through the relay. With one in each direction both sides
// start to punch holes, each on the connection where it is the wrong one to
// start, and fail. The connection that the smaller key dialled stays; the
// other side closes its own unless it is used; new streams avoid it meanwhile,
// and those on their way get twinGrace to arrive. h.mu is held.
func (h *Host) dropTwinLocked(s *peerState) {
	keep := slices.Compare(h.self[:], s.key[:]) > 0 // inbound is the one that stays
	stays := slices.ContainsFunc(s.links, func(l *link) bool { return l.path == Relay && l.inbound == keep && l.doomed.IsZero() })
	if !stays {
		return
	}
	for _, l := range s.links {
		if l.path != Relay || l.inbound == keep || !l.doomed.IsZero() || l.streams > 0 {
			continue
		}
		// A limited connection is no twin of one without limits.
		if !slices.ContainsFunc(s.links, func(o *link) bool { return o.path == Relay && o.inbound == keep && o.limited == l.limited }) {
			continue
		}
		l.doomed = time.Now()
		h.spawnLocked(func() { h.endTwin(s.key, l) })
	}
}

const (
	// twinGrace is longer than a stream takes to arrive over a relay.
	twinGrace = 300 * time.Millisecond
	// twinPunch is when to try for a direct path again: the first attempts
	// may have met on the wrong connection, and have ended by then.
	twinPunch = 8 * time.Second
)

// endTwin closes the twin, if it is ours to close and not used, and tries for
// a direct path once more.
func (h *Host) endTwin(k identity.PublicKey, l *link) {
	if !sleep(h.life, twinGrace) {
		return
	}
	h.mu.Lock()
	used := l.streams > 0
	if used {
		l.doomed = time.Time{}
	}
	h.mu.Unlock()
	if !l.inbound && !used {
		l.conn.Close()
	}
	p := libp2pID(k)
	if !sleep(h.life, twinPunch) || h.hasDirect(p) {
		return
	}
	h.mu.Lock()
	w := h.wanted[p]
	h.mu.Unlock()
	if w != nil {
		h.retryNow(w)
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
