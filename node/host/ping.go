package host

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/p2p/protocol/ping"
	msmux "github.com/multiformats/go-multistream"

	"github.com/weftmesh/weft/protocols/identity"
)

// pingWait bounds one ping that a person asked for.
const pingWait = 5 * time.Second

// Ping measures the round trip to a peer on its best path, dialling it if
// needed. Errors: ErrUnreachable, ErrSelf, ErrClosed. It takes at most 24 s.
func (h *Host) Ping(ctx context.Context, k identity.PublicKey) (time.Duration, Path, error) {
	p := libp2pID(k)
	if p == h.id {
		return 0, "", fmt.Errorf("ping: %w", ErrSelf)
	}
	if !h.running() {
		return 0, "", fmt.Errorf("ping: %w", ErrClosed)
	}
	last := errors.New("it disconnected")
	// When both sides dial at once, one of two connections goes away just
	// after it came up: that is no reason to call the peer unreachable.
	for range 2 {
		if err := h.reach(ctx, p); err != nil {
			return 0, "", unreachable(k, err)
		}
		for _, l := range h.links(p) { // a dead connection is closed; the next may live
			pctx, cancel := context.WithTimeout(ctx, pingWait)
			rtt, err := h.pingLink(pctx, l)
			cancel()
			if err == nil {
				return rtt, l.path, nil
			}
			last = err
			if ctx.Err() != nil {
				return 0, "", unreachable(k, last)
			}
			if timedOut(err) {
				h.closeLink(l, "ping unanswered")
			}
		}
	}
	return 0, "", unreachable(k, last)
}

// pingLink sends one libp2p ping (/ipfs/ping/1.0.0: 32 bytes, echoed) over
// one connection. An error that is not a timeout still proves life.
func (h *Host) pingLink(ctx context.Context, l *link) (time.Duration, error) {
	s, err := l.conn.NewStream(network.WithAllowLimitedConn(ctx, "ping"))
	if err != nil {
		return 0, err
	}
	defer s.Reset()
	if err := s.SetProtocol(ping.ID); err != nil {
		return 0, err
	}
	if err := s.Scope().SetService(ping.ServiceName); err != nil {
		return 0, err
	}
	if t, ok := ctx.Deadline(); ok {
		s.SetDeadline(t)
	}
	stop := context.AfterFunc(ctx, func() { s.Reset() })
	defer stop()
	var out, in [ping.PingSize]byte
	rand.Read(out[:])
	rw := msmux.NewMSSelect(s, ping.ID)
	start := time.Now()
	if _, err := rw.Write(out[:]); err != nil {
		return 0, orContext(ctx, err)
	}
	if _, err := io.ReadFull(rw, in[:]); err != nil {
		return 0, orContext(ctx, err)
	}
	rtt := time.Since(start)
	if !bytes.Equal(out[:], in[:]) {
		return 0, errors.New("ping answered with other bytes")
	}
	l.touch()
	l.rtt.Store(int64(rtt))
	return rtt, nil
}

// orContext prefers the reason why we gave up over the reset it caused.
func orContext(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("no answer: %w", ctx.Err())
	}
	return err
}

func timedOut(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
}

// pingAll pings links in parallel and closes those on which nothing at all
// was heard within wait. A ping may be stuck behind bulk data; arriving data
// is as good an answer.
func (h *Host) pingAll(ctx context.Context, ls []*link, wait time.Duration) {
	pctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	var wg sync.WaitGroup
	for _, l := range ls {
		wg.Go(func() {
			_, err := h.pingLink(pctx, l)
			if err != nil && timedOut(err) && ctx.Err() == nil && l.silent() >= wait {
				h.closeLink(l, "silent")
			}
		})
	}
	wg.Wait()
}

// closeLink closes a connection without waiting for the peer.
func (h *Host) closeLink(l *link, why string) {
	h.log.Debug("closing connection", "peer", l.conn.RemotePeer(), "path", l.path, "why", why)
	h.spawn(func() { l.conn.Close() })
}
