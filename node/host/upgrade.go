package host

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/protocol/holepunch"
	"github.com/libp2p/go-libp2p/p2p/protocol/identify"
)

const (
	// maxUpgrades bounds attempts for a direct path that run at once.
	maxUpgrades = 8
	// upgradeWait bounds one direct dial: libp2p's limit for a private address.
	upgradeWait = 5 * time.Second
	// upgradeEvery is how often a wanted peer that stays relayed is tried again.
	upgradeEvery = time.Minute
	// answerLag lets the side that dialled through the relay try first.
	answerLag = time.Second
)

// upgradeSoonLocked tries for a direct path after a relayed connection came
// up. libp2p's hole puncher does so on the answering side only and only
// between public addresses; this also finds a peer on the same LAN or one
// that can be dialled plainly. h.mu is held.
func (h *Host) upgradeSoonLocked(p peer.ID, l *link) {
	h.spawnLocked(func() {
		select {
		case h.upgrades <- struct{}{}:
			defer func() { <-h.upgrades }()
		default:
			return // a wanted peer is tried again by keep
		}
		h.punchReady() // a first look, so that a later one can be sure
		ctx, cancel := context.WithTimeout(h.life, 2*upgradeWait)
		defer cancel()
		if !h.identified(ctx, l.conn) {
			return
		}
		if l.inbound && !sleep(ctx, answerLag) {
			return
		}
		h.tryDirect(ctx, p)
	})
}

// tryDirect dials the peer's own addresses, if it has any and is not
// connected directly already.
func (h *Host) tryDirect(ctx context.Context, p peer.ID) bool {
	if h.hasDirect(p) {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, upgradeWait)
	defer cancel()
	err := h.dialDirect(ctx, p)
	if err != nil {
		h.log.Debug("no direct path yet", "peer", p, "err", err)
	}
	return err == nil
}

func (h *Host) hasDirect(p peer.ID) bool {
	return slices.ContainsFunc(h.links(p), func(l *link) bool { return l.path.Direct() })
}

// upgradeDue starts a further attempt for a wanted peer that has been relayed
// for a while. It runs on w's goroutine.
func (h *Host) upgradeDue(w *wanted, ls []*link, now time.Time, early bool) {
	if slices.ContainsFunc(ls, func(l *link) bool { return l.path.Direct() }) {
		w.upgradeAt = time.Time{}
		return
	}
	if w.upgradeAt.IsZero() {
		w.upgradeAt = now.Add(jitter(upgradeEvery))
	}
	if !early && now.Before(w.upgradeAt) {
		return
	}
	w.upgradeAt = now.Add(jitter(upgradeEvery))
	inbound := slices.ContainsFunc(ls, func(l *link) bool { return l.inbound })
	h.spawn(func() {
		select {
		case h.upgrades <- struct{}{}:
			defer func() { <-h.upgrades }()
		default:
			return
		}
		if !h.tryDirect(h.life, w.id) && inbound {
			h.punchAgain(w.id)
		}
	})
}

// punchAgain punches through both NATs once more. Only the side that was
// called through the relay may start (DCUtR specification).
func (h *Host) punchAgain(p peer.ID) {
	if !h.punchReady() {
		return
	}
	if err := h.punch.DirectConnect(p); err != nil && !errors.Is(err, holepunch.ErrHolePunchActive) {
		h.log.Debug("hole punch", "peer", p, "err", err)
	}
}

// punchReady reports whether the hole puncher has begun its work, which it
// does when a public address is known: DirectConnect would wait for that
// without end. It registers its handler just before; a second call that finds
// the handler can be sure.
func (h *Host) punchReady() bool {
	ready := slices.Contains(h.p2p.Mux().Protocols(), holepunch.Protocol)
	return h.punchSeen.Swap(ready) && ready
}

// identified waits until identify has run on a connection: only then are the
// peer's protocols and addresses known.
func (h *Host) identified(ctx context.Context, c network.Conn) bool {
	ids, ok := h.p2p.(interface{ IDService() identify.IDService })
	if !ok {
		return false
	}
	select {
	case <-ids.IDService().IdentifyWait(c):
		return true
	case <-ctx.Done():
		return false
	}
}

// sleep waits for d; false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
