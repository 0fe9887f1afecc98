package host

import (
	"sync"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/weftmesh/weft/protocols"
)

// admission counts the inbound streams of each own protocol. libp2p's
// resource manager bounds each peer and all peers together, but can't keep a
// part free for known peers; this does.
type admission struct {
	mu   sync.Mutex // guards below
	rows map[string]*admitRow
}

type admitRow struct {
	rule      protocols.Protocol
	total     int
	strangers int
	peers     map[peer.ID]int
}

func newAdmission(table []protocols.Protocol) *admission {
	a := &admission{rows: map[string]*admitRow{}}
	for _, p := range table {
		a.rows[p.ID] = &admitRow{rule: p, peers: map[peer.ID]int{}}
	}
	return a
}

// enter admits one stream or says no. leave must be called exactly once for
// each admitted stream.
func (a *admission) enter(id string, p peer.ID, known bool) (leave func(), ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.rows[id]
	if r == nil || !admits(r.rule, known, r.peers[p], r.strangers, r.total) {
		return nil, false
	}
	r.total++
	r.peers[p]++
	if !known {
		r.strangers++
	}
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		r.total--
		if !known {
			r.strangers--
		}
		if r.peers[p]--; r.peers[p] == 0 {
			delete(r.peers, p)
		}
	}, true
}

// admits is the rule: mine streams of this peer, strangers of all strangers
// and total of everyone are open now.
func admits(r protocols.Protocol, known bool, mine, strangers, total int) bool {
	if total >= r.Total {
		return false
	}
	if known {
		return mine < r.PerPeer
	}
	return mine < r.PerStranger && strangers < r.Strangers
}
