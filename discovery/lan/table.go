package lan

import (
	"slices"
	"sync"
	"time"

	"github.com/weftmesh/weft/protocols/identity"
)

const (
	// TTL is how long a candidate is believed to be around after it was last
	// heard: two rounds of questions.
	TTL = 2*askEvery + 10*time.Second
	// maxCandidates bounds the table.
	maxCandidates = 256
	// tellAgain is how soon an unchanged candidate is told again, so that
	// whoever lost the peer has a reason to dial.
	tellAgain = 5 * time.Second
)

// Candidate is a peer that somebody on the local network has announced.
type Candidate struct {
	Peer identity.PublicKey
	// Addrs are multiaddrs without /p2p/ID, newest first.
	Addrs []string
	// Seen is when it was last heard.
	Seen time.Time
}

// table keeps the candidates.
type table struct {
	prefer func(identity.PublicKey) bool

	mu    sync.Mutex // guards below
	peers map[identity.PublicKey]*entry
}

type entry struct {
	Candidate
	told time.Time
}

// put notes what was heard at now and says whether to tell it.
func (t *table) put(h heard, now time.Time) (Candidate, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.peers[h.peer]
	if h.goodbye {
		delete(t.peers, h.peer)
		return Candidate{}, false
	}
	if e == nil {
		if !t.room(h.peer, now) {
			return Candidate{}, false
		}
		e = &entry{Candidate: Candidate{Peer: h.peer}}
		t.peers[h.peer] = e
	}
	// Merged, not replaced: a forged packet must not hide the real address.
	merged := slices.Clone(h.addrs)
	for _, a := range e.Addrs {
		if !slices.Contains(merged, a) && len(merged) < maxAddrs {
			merged = append(merged, a)
		}
	}
	changed := !slices.Equal(merged, e.Addrs)
	e.Addrs, e.Seen = merged, now
	if !changed && now.Sub(e.told) < tellAgain {
		return Candidate{}, false
	}
	e.told = now
	return e.copy(), true
}

func (e *entry) copy() Candidate {
	c := e.Candidate
	c.Addrs = slices.Clone(c.Addrs)
	return c
}

// room makes place for one more: expired ones go, and for a preferred peer
// the oldest that is not preferred. A flood of made-up peers finds the table
// full and can't push out real ones.
func (t *table) room(k identity.PublicKey, now time.Time) bool {
	if len(t.peers) < maxCandidates {
		return true
	}
	t.expire(now)
	if len(t.peers) < maxCandidates {
		return true
	}
	if !t.prefer(k) {
		return false
	}
	var victim *entry
	for _, e := range t.peers {
		if !t.prefer(e.Peer) && (victim == nil || e.Seen.Before(victim.Seen)) {
			victim = e
		}
	}
	if victim == nil {
		return false
	}
	delete(t.peers, victim.Peer)
	return true
}

func (t *table) expire(now time.Time) {
	for k, e := range t.peers {
		if now.Sub(e.Seen) > TTL {
			delete(t.peers, k)
		}
	}
}

// list returns who was heard lately, most recent first.
func (t *table) list(now time.Time) []Candidate {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire(now)
	var out []Candidate
	for _, e := range t.peers {
		out = append(out, e.copy())
	}
	slices.SortFunc(out, func(a, b Candidate) int { return b.Seen.Compare(a.Seen) })
	return out
}
