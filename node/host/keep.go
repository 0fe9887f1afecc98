package host

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"github.com/weftmesh/weft/protocols/identity"
)

const (
	// keepTag protects a wanted peer from the connection manager.
	keepTag = "weft-wanted"
	// stableAfter is how long a connection must live before its loss is a
	// new outage rather than the old one going on.
	stableAfter = 5 * time.Second
	// firstRetry is the delay after the first failed dial of an outage.
	firstRetry = 250 * time.Millisecond
	// maxRetry is the longest delay for a peer. A returning peer usually
	// dials us itself; this is for those that don't know our address.
	maxRetry = 15 * time.Second
	// maxRelayRetry is the same for a bootstrap peer: everybody behind it is
	// unreachable meanwhile, and there are few of them.
	maxRelayRetry = 3 * time.Second
	// yieldLag is how long the side with the larger key waits before its
	// first dial: both may want each other, and one connection is enough.
	yieldLag = 300 * time.Millisecond
	// saveEvery is how often a connected peer's addresses are compared with
	// the saved ones.
	saveEvery = time.Minute
	// saveSoon is when they are first looked at: identify needs a moment.
	saveSoon = 2 * time.Second
)

// wanted is one peer that must stay connected. Its goroutine is run; others
// only wake it.
type wanted struct {
	id      peer.ID
	isRelay bool          // from Bootstrap; may offer a relay
	wakeup  chan struct{} // capacity 1
	stop    context.CancelFunc

	upgradeAt time.Time // owned by keep; next try for a direct path

	saved []ma.Multiaddr // guarded by Host.mu; last saved addresses
	res   *reservation   // guarded by Host.mu; nil unless isRelay
	early bool           // guarded by Host.mu; dial now, whatever the delay
}

func newWanted(id peer.ID, relay bool) *wanted {
	w := &wanted{id: id, isRelay: relay, wakeup: make(chan struct{}, 1), stop: func() {}}
	if relay {
		w.res = &reservation{}
	}
	return w
}

func (w *wanted) wake() {
	select {
	case w.wakeup <- struct{}{}:
	default:
	}
}

// Keep makes the peer wanted: it is dialled now and whenever it is lost,
// until Drop or Close.
func (h *Host) Keep(k identity.PublicKey) {
	p := libp2pID(k)
	h.mu.Lock()
	defer h.mu.Unlock()
	if p == h.id || h.closed || h.wanted[p] != nil {
		return
	}
	w := newWanted(p, false)
	h.wanted[p] = w
	if h.started {
		h.runWanted(w)
	}
}

// Drop makes the peer unwanted. Its connections stay until they are trimmed
// or close by themselves. A bootstrap peer can't be dropped.
func (h *Host) Drop(k identity.PublicKey) {
	p := libp2pID(k)
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.wanted[p]
	if w == nil || w.isRelay {
		return
	}
	delete(h.wanted, p)
	w.stop()
	if s := h.peers[p]; s != nil && len(s.links) == 0 {
		delete(h.peers, p)
	}
}

// runWanted starts w's goroutine. h.mu is held.
func (h *Host) runWanted(w *wanted) {
	ctx, stop := context.WithCancel(h.life)
	w.stop = stop
	if !h.spawnLocked(func() { h.keep(ctx, w) }) {
		stop()
	}
}

// keep is the life of a wanted peer: dial until connected, then ping every
// heartbeat, save its addresses, hold a reservation if it is a relay, and
// look for a direct path while there is none.
func (h *Host) keep(ctx context.Context, w *wanted) {
	h.p2p.ConnManager().Protect(w.id, keepTag)
	defer h.p2p.ConnManager().Unprotect(w.id, keepTag)
	h.load(w)
	o := outage{relay: w.isRelay}
	var lastSave, lastBeat time.Time
	saveAfter := saveSoon
	for ctx.Err() == nil {
		ls := h.links(w.id)
		now := time.Now()
		if len(ls) == 0 {
			h.lostReservation(w)
			delay := o.next(now, h.retryCap())
			if delay == 0 && h.yields(w) {
				delay = yieldLag
			}
			if delay > 0 && !h.waitToDial(ctx, w, delay) {
				continue
			}
			dctx, cancel := context.WithTimeout(ctx, o.patience(time.Now()))
			err := h.dial(dctx, w.id)
			cancel()
			if err != nil {
				h.log.Debug("dial of wanted peer", "peer", w.id, "err", err)
			}
			lastBeat, saveAfter = time.Time{}, saveSoon
			lastSave = time.Now()
			continue
		}
		o.up(now, oldest(ls))
		if w.isRelay {
			h.renew(ctx, w, ls)
		}
		if now.Sub(lastSave) >= saveAfter {
			h.save(w, ls)
			lastSave, saveAfter = now, saveEvery
		}
		// Woken by a connection that came or went, the next ping still waits
		// its turn; early means that somebody has reason to doubt the path.
		early := h.takeEarly(w)
		h.upgradeDue(w, ls, now, early)
		if early || now.Sub(lastBeat) >= h.cfg.Heartbeat {
			lastBeat = now
			h.pingAll(ctx, ls, h.cfg.Heartbeat)
		}
		w.pause(ctx, h.cfg.Heartbeat-time.Since(lastBeat))
	}
}

// yields reports whether the peer should dial first. A relay never dials.
func (h *Host) yields(w *wanted) bool { return !w.isRelay && string(h.id) > string(w.id) }

// pause waits for d, a wake-up or the end.
func (w *wanted) pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(max(d, time.Millisecond))
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-w.wakeup:
	case <-t.C:
	}
}

// waitToDial waits for d or for a reason to dial earlier; false if there is
// nothing to dial any more.
func (h *Host) waitToDial(ctx context.Context, w *wanted, d time.Duration) bool {
	until := time.Now().Add(d)
	for left := d; left > 0 && !h.takeEarly(w); left = time.Until(until) {
		w.pause(ctx, left)
		if ctx.Err() != nil || len(h.links(w.id)) > 0 {
			return false
		}
	}
	return true
}

// retryNow makes w dial or ping at once.
func (h *Host) retryNow(w *wanted) {
	h.mu.Lock()
	w.early = true
	h.mu.Unlock()
	w.wake()
}

func (h *Host) takeEarly(w *wanted) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := w.early
	w.early = false
	return e
}

// retryCap keeps the sum of all redials near one a second, however many
// wanted peers are away (kubo#3320: idle nodes that kill home routers).
func (h *Host) retryCap() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	away := 0
	for p := range h.wanted {
		if s := h.peers[p]; s == nil || len(s.links) == 0 {
			away++
		}
	}
	return max(maxRetry, time.Duration(away)*time.Second)
}

func oldest(ls []*link) time.Time {
	return slices.MinFunc(ls, func(a, b *link) int { return a.opened.Compare(b.opened) }).opened
}

// outage decides when a lost peer is dialled again. Pure but for jitter.
type outage struct {
	relay bool
	since time.Time // start; zero while connected
	tries int
	known bool // was connected before
}

// next returns how long to wait before the next dial: nothing at first, then
// a tenth of the time the peer has been away, within bounds.
func (o *outage) next(now time.Time, longest time.Duration) time.Duration {
	if o.since.IsZero() {
		o.since = now
	}
	o.tries++
	if o.tries == 1 {
		return 0
	}
	if o.relay {
		longest = maxRelayRetry
	}
	return jitter(min(max(now.Sub(o.since)/10, firstRetry), longest))
}

// patience bounds a dial. A peer that was connected may just be restarting:
// a dial that hangs on a dead QUIC address then only delays the next one, so
// the first are short. One that was never connected may be far.
func (o *outage) patience(now time.Time) time.Duration {
	first := 3 * time.Second
	if o.known {
		first = 700 * time.Millisecond
	}
	return min(first+now.Sub(o.since)/3, dialWait)
}

// up ends the outage once a connection has lasted.
func (o *outage) up(now, connected time.Time) {
	o.known = true
	if now.Sub(connected) >= stableAfter {
		o.since, o.tries = time.Time{}, 0
	}
}

// jitter spreads d by a quarter either way, so peers that lost a relay
// together don't return together.
func jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return d
	}
	return d*3/4 + rand.N(d/2+1)
}
