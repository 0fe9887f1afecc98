package host

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	msmux "github.com/multiformats/go-multistream"

	"github.com/weftmesh/weft/protocols/identity"
)

const (
	// openWait bounds a whole Open, whatever the caller's context says.
	openWait = 10 * time.Second
	// dialWait bounds one dial within it: a public QUIC handshake over a
	// satellite takes 2.4 s.
	dialWait = 7 * time.Second
	// directWait is how long a protocol that may not run on a limited path
	// waits for a better one.
	directWait = 3 * time.Second
	// staleAfter is when a connection that was silent must answer a ping
	// before a new stream is trusted to it.
	staleAfter = 10 * time.Second
	// twinLife is how long a doomed twin may take to be closed.
	twinLife = time.Second
	// twinWait is how often Open looks whether a doomed twin has gone.
	twinWait = 20 * time.Millisecond
	// staleWait is how long that ping may take.
	staleWait = 2 * time.Second
)

// Open opens a stream of a protocol to a peer, dialling it if needed: by its
// known addresses and through the relays that we are connected to. It returns
// the path that the stream uses.
//
// The caller must write within 10 s, since the protocol is announced with the
// first bytes. Errors: ErrUnreachable, ErrNeedsDirect, ErrUnsupported,
// ErrProtocol, ErrSelf, ErrClosed, or the end of ctx. Open never waits longer
// than 10 s.
func (h *Host) Open(ctx context.Context, to identity.PublicKey, id string) (Stream, Path, error) {
	row, ok := h.table[id]
	if !ok {
		return nil, "", fmt.Errorf("open %q: %w", id, ErrProtocol)
	}
	p := libp2pID(to)
	if p == h.id {
		return nil, "", fmt.Errorf("open %s: %w", id, ErrSelf)
	}
	if !h.running() {
		return nil, "", fmt.Errorf("open %s: %w", id, ErrClosed)
	}
	ctx, cancel := context.WithTimeout(ctx, openWait)
	defer cancel()
	h.dropDead(ctx, p)
	if err := h.reach(ctx, p); err != nil {
		return nil, "", unreachable(to, err)
	}
	sctx := ctx
	if row.RelayOK {
		sctx = network.WithAllowLimitedConn(ctx, id)
	} else if ls := h.links(p); len(ls) > 0 && ls[0].limited {
		// libp2p would wait here for its whole dial time and then report a
		// deadline (go-libp2p#3183).
		wctx, stop := context.WithTimeout(ctx, directWait)
		defer stop()
		h.dialDirect(wctx, p)
		sctx = wctx
	}
	for {
		s, err := h.p2p.NewStream(sctx, p, protocol.ID(id))
		if err != nil {
			return nil, "", h.openError(ctx, to, id, row.RelayOK, err)
		}
		if err := s.Scope().SetService(row.Service); err != nil {
			s.Reset()
			return nil, "", fmt.Errorf("open %s to %s: %w", id, to.AgentID(), err)
		}
		c, ok := h.count(s)
		if ok {
			return c, pathOf(s.Conn().RemoteMultiaddr()), nil
		}
		c.Reset()
		if !sleep(ctx, twinWait) {
			return nil, "", unreachable(to, ctx.Err())
		}
	}
}

func (h *Host) openError(ctx context.Context, to identity.PublicKey, id string, relayOK bool, err error) error {
	if errors.As(err, new(msmux.ErrNotSupported[protocol.ID])) {
		return fmt.Errorf("open %s to %s: %w; it may run an older weft", id, to.AgentID(), ErrUnsupported)
	}
	if ls := h.links(libp2pID(to)); !relayOK && ctx.Err() == nil && len(ls) > 0 && ls[0].limited {
		return needsDirect(to, id)
	}
	if errors.Is(err, network.ErrResourceLimitExceeded) {
		return fmt.Errorf("open %s to %s: too many streams at once, close some and try again: %w", id, to.AgentID(), err)
	}
	return unreachable(to, err)
}

func (h *Host) running() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.started && !h.closed
}

// dropDead pings connections that have been silent for long, all at once, and
// closes those that don't answer. Wanted peers are pinged all the time, so
// this costs others a round trip and only after a pause.
func (h *Host) dropDead(ctx context.Context, p peer.ID) {
	ls := h.links(p)
	if len(ls) == 0 || ls[0].silent() < staleAfter {
		return
	}
	h.pingAll(ctx, ls, staleWait)
}

// reach makes sure that there is a connection.
func (h *Host) reach(ctx context.Context, p peer.ID) error {
	if len(h.links(p)) > 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, dialWait)
	defer cancel()
	return h.dial(ctx, p)
}

// dial connects by all addresses we know, direct or relayed. libp2p's dial
// back-off is for automatic dials of strangers; here somebody wants the peer
// now, and keep.go spaces its own attempts.
func (h *Host) dial(ctx context.Context, p peer.ID) error {
	h.swarm.Backoff().Clear(p)
	h.p2p.Peerstore().AddAddrs(p, h.hints(p), hintTTL)
	ctx = network.WithAllowLimitedConn(ctx, "connect")
	err := h.p2p.Connect(ctx, peer.AddrInfo{ID: p})
	var de *swarm.DialError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, swarm.ErrNoAddresses):
		return errors.New("no address of it is known")
	case errors.As(err, &de) && de.Cause != nil && len(de.DialErrors) == 0:
		return de.Cause
	case errors.As(err, &de):
		return fmt.Errorf("none of %d addresses answered", len(de.DialErrors)+de.Skipped)
	case ctx.Err() != nil:
		return errors.New("no answer in time")
	}
	return err
}

// dialDirect tries to add a direct connection to a relayed one.
func (h *Host) dialDirect(ctx context.Context, p peer.ID) error {
	if !h.direct.begin() {
		return ErrClosed
	}
	defer h.direct.end()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(h.life, cancel)() // Close waits for us
	h.p2p.Peerstore().AddAddrs(p, h.hints(p), peerstore.TempAddrTTL)
	return h.p2p.Connect(network.WithForceDirectDial(ctx, "upgrade"), peer.AddrInfo{ID: p})
}

// directDials keeps Close apart from dials that must be direct: go-libp2p
// v0.52's swarm dereferences nil when such a dial picks its addresses while
// the swarm closes (swarm_dial.go, nonProxyAddr), which ends the process.
type directDials struct {
	mu      sync.Mutex // guards below
	closed  bool
	running int
	last    time.Time // when one ended
	idle    chan struct{}
}

// dialGrace is far longer than an abandoned dial takes to pick its addresses.
const dialGrace = 50 * time.Millisecond

func (d *directDials) begin() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false
	}
	d.running++
	return true
}

func (d *directDials) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running--
	d.last = time.Now()
	if d.closed && d.running == 0 {
		close(d.idle)
	}
}

// stop refuses further dials and waits for those that run, whose contexts
// have ended, and for what libp2p still does for them.
func (d *directDials) stop() {
	d.mu.Lock()
	d.closed, d.idle = true, make(chan struct{})
	if d.running == 0 {
		close(d.idle)
	}
	d.mu.Unlock()
	<-d.idle
	time.Sleep(dialGrace - time.Since(d.last))
}
