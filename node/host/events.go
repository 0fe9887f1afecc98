package host

import (
	"context"
	"maps"
	"sync"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/weftmesh/weft/protocols/identity"
)

// Event tells how a peer is connected now.
type Event struct {
	Peer      identity.PublicKey
	Connected bool
	// Path is the best path; empty when not connected.
	Path Path
	// Limited says that the path ends after a few bytes or minutes.
	Limited bool
}

// subscriber collects the peers that changed until its goroutine sends them.
// Only the newest state of a peer is kept, so a slow receiver costs no more
// than one entry a peer and delays nobody.
type subscriber struct {
	wakeup chan struct{} // capacity 1

	mu      sync.Mutex // guards below
	pending map[peer.ID]struct{}
}

func (s *subscriber) mark(p peer.ID) {
	s.mu.Lock()
	s.pending[p] = struct{}{}
	s.mu.Unlock()
	select {
	case s.wakeup <- struct{}{}:
	default:
	}
}

func (s *subscriber) take() map[peer.ID]struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pending
	s.pending = map[peer.ID]struct{}{}
	return p
}

// Subscribe sends one event for each peer that is connected now and then one
// for each change of connectedness or best path, until ctx ends or the host
// closes; then the channel is closed. Changes that follow each other faster
// than they are received are folded into the newest.
func (h *Host) Subscribe(ctx context.Context) <-chan Event {
	out := make(chan Event)
	s := &subscriber{wakeup: make(chan struct{}, 1), pending: map[peer.ID]struct{}{}}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.subs[s] = struct{}{}
	for p := range maps.Keys(h.peers) {
		s.mark(p)
	}
	if !h.spawnLocked(func() { h.serveEvents(ctx, s, out) }) {
		delete(h.subs, s)
		close(out)
	}
	return out
}

func (h *Host) serveEvents(ctx context.Context, s *subscriber, out chan<- Event) {
	defer close(out)
	defer func() {
		h.mu.Lock()
		delete(h.subs, s)
		h.mu.Unlock()
	}()
	last := map[peer.ID]Event{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.life.Done():
			return
		case <-s.wakeup:
		}
		for p := range s.take() {
			e, ok := h.eventOf(p)
			if !ok || last[p] == e || last[p] == (Event{}) && !e.Connected {
				continue
			}
			select {
			case out <- e:
			case <-ctx.Done():
				return
			case <-h.life.Done():
				return
			}
			if e.Connected {
				last[p] = e
			} else {
				delete(last, p)
			}
		}
	}
}

func (h *Host) eventOf(p peer.ID) (Event, bool) {
	key, err := keyOf(p)
	if err != nil {
		return Event{}, false
	}
	ls := h.links(p)
	if len(ls) == 0 {
		return Event{Peer: key}, true
	}
	return Event{Peer: key, Connected: true, Path: ls[0].path, Limited: ls[0].limited}, true
}
