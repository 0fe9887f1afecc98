package host

import (
	"slices"

	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// load reads what the last run knew of the peer.
func (h *Host) load(w *wanted) {
	if h.cfg.Saved == nil {
		return
	}
	key, err := keyOf(w.id)
	if err != nil {
		return
	}
	saved, err := h.cfg.Saved.Load(key)
	if err != nil {
		h.log.Warn("saved addresses of a peer can't be read", "peer", w.id, "err", err)
		return
	}
	var list []ma.Multiaddr
	for _, s := range saved[:min(len(saved), maxAddrs)] {
		if id, a, err := parseAddr(s); err == nil && (id == "" || id == w.id) {
			list = append(list, a)
		}
	}
	h.mu.Lock()
	w.saved = list
	h.mu.Unlock()
}

// save remembers where the peer is now: first the address that we dialled
// with success, then what it says of itself.
func (h *Host) save(w *wanted, ls []*link) {
	if h.cfg.Saved == nil {
		return
	}
	key, err := keyOf(w.id)
	if err != nil {
		return
	}
	var list []ma.Multiaddr
	local := false // connected over loopback: its loopback addresses mean something
	for _, l := range ls {
		a := l.conn.RemoteMultiaddr()
		local = local || manet.IsIPLoopback(a)
		if !l.inbound && l.path != Relay {
			list = append(list, a)
		}
	}
	said := h.p2p.Peerstore().Addrs(w.id)
	slices.SortFunc(said, ma.Multiaddr.Compare)
	for _, a := range said {
		// An address that starts with /p2p/ is our own hint: a circuit
		// through a relay that we are connected to, made anew each time.
		if a[0].Protocol().Code != ma.P_P2P && (local || !manet.IsIPLoopback(a)) {
			list = append(list, a)
		}
	}
	list = unique(list)
	h.mu.Lock()
	same := slices.EqualFunc(list, w.saved, ma.Multiaddr.Equal)
	if !same && len(list) > 0 {
		w.saved = list
	}
	h.mu.Unlock()
	if same || len(list) == 0 {
		return
	}
	text := make([]string, 0, len(list))
	for _, a := range list {
		text = append(text, a.String())
	}
	if err := h.cfg.Saved.Save(key, text); err != nil {
		h.log.Warn("addresses of a peer can't be saved", "peer", w.id, "err", err)
	}
}

// unique keeps the first of equal addresses, in order, and at most maxAddrs
// of those whose text is short enough.
func unique(in []ma.Multiaddr) []ma.Multiaddr {
	var out []ma.Multiaddr
	for _, a := range in {
		if len(out) < maxAddrs && !ma.Contains(out, a) && len(a.String()) <= maxAddrLen {
			out = append(out, a)
		}
	}
	return out
}
