package host

import (
	"context"
	"fmt"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/protocol"

	"github.com/weftmesh/weft/protocols"
	"github.com/weftmesh/weft/protocols/identity"
)

// Handler answers one stream. ctx ends when the host closes, and the handler
// must return soon after. A stream that the handler has not closed when it
// returns is reset.
type Handler func(ctx context.Context, peer identity.PublicKey, s Stream, p Path)

// Handle serves a protocol of the table. All handlers must be registered
// before Start, since peers learn our protocols when they connect and hear of
// later ones late or never (libp2p limits identify pushes). It panics if the
// protocol is not in the table, was registered before, or the host was
// started: each is a mistake in the program.
func (h *Host) Handle(id string, handle Handler) {
	row, ok := h.table[id]
	h.mu.Lock()
	bad := !ok || h.handlers[id] || h.started
	h.handlers[id] = true
	h.mu.Unlock()
	if bad {
		panic(fmt.Sprintf("host: handler for %q: not in the table, registered twice, or after Start", id))
	}
	h.p2p.SetStreamHandler(protocol.ID(id), func(s network.Stream) { h.serve(row, s, handle) })
}

// serve runs on libp2p's goroutine of the stream: scope, then limits, then
// the handler; memory and deadlines are the handler's, who knows its sizes.
func (h *Host) serve(row protocols.Protocol, s network.Stream, handle Handler) {
	p := s.Conn().RemotePeer()
	key, err := keyOf(p)
	if err != nil {
		s.Reset()
		return
	}
	if err := s.Scope().SetService(row.Service); err != nil {
		s.ResetWithError(network.StreamResourceLimitExceeded)
		return
	}
	if !row.RelayOK && s.Conn().Stat().Limited {
		h.log.Debug("refused on limited path", "protocol", row.ID, "peer", p)
		s.Reset()
		return
	}
	leave, ok := h.admits.enter(row.ID, p, h.known(p))
	if !ok {
		h.log.Debug("refused, too many streams", "protocol", row.ID, "peer", p)
		s.ResetWithError(network.StreamResourceLimitExceeded)
		return
	}
	defer leave()
	if !h.enter() {
		s.Reset()
		return
	}
	defer h.tasks.Done()
	c, _ := h.count(s)
	defer c.abandon()
	handle(h.life, key, c, pathOf(s.Conn().RemoteMultiaddr()))
}

// enter counts the calling goroutine among the tasks; false if closed.
func (h *Host) enter() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	h.tasks.Add(1)
	return true
}
