package host

import (
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/p2p/host/eventbus"
	ma "github.com/multiformats/go-multiaddr"
)

const (
	// sleepPoll is how often we look whether the machine slept.
	sleepPoll = 10 * time.Second
	// sleepJump is how far the wall clock must run ahead of the monotonic
	// one, which stops while a machine sleeps, to call it sleep.
	sleepJump = 20 * time.Second
)

// watchNetwork tells every wanted peer's goroutine, and mDNS, when this
// machine's addresses change or it wakes: paths are stale then, and a delay
// that was right a minute ago is wrong now.
func (h *Host) watchNetwork() error {
	sub, err := h.p2p.EventBus().Subscribe(new(event.EvtLocalAddressesUpdated), eventbus.Name("weft network watch"))
	if err != nil {
		return err
	}
	if h.emitter, err = h.p2p.EventBus().Emitter(new(event.EvtAutoRelayAddrsUpdated), eventbus.Stateful); err != nil {
		sub.Close()
		return err
	}
	h.spawn(func() {
		defer sub.Close()
		tick := time.NewTicker(sleepPoll)
		defer tick.Stop()
		last := time.Now()
		own := h.ownAddrs()
		for {
			select {
			case <-h.life.Done():
				return
			case _, ok := <-sub.Out():
				if !ok {
					return
				}
				// Our circuit addresses are in the list too; only what
				// the machine itself has counts as a change of network.
				if now := h.ownAddrs(); !slices.EqualFunc(own, now, ma.Multiaddr.Equal) {
					h.log.Info("network changed", "addrs", len(now))
					own = now
					h.networkChanged()
				}
			case <-tick.C:
				h.punchReady()
				now := time.Now()
				wall := now.Round(0).Sub(last.Round(0)) // Round strips the monotonic reading
				if slept(wall, now.Sub(last)) {
					h.log.Info("machine slept", "for", wall.Round(time.Second))
					h.networkChanged()
				}
				last = now
			}
		}
	})
	return nil
}

// slept judges how far wall and monotonic clock moved between two looks.
func slept(wall, mono time.Duration) bool { return wall-mono > sleepJump }

func (h *Host) ownAddrs() []ma.Multiaddr {
	all, ok := h.p2p.(interface{ AllAddrs() []ma.Multiaddr })
	if !ok {
		return nil
	}
	as := slices.Clone(all.AllAddrs())
	slices.SortFunc(as, ma.Multiaddr.Compare)
	return as
}

func (h *Host) networkChanged() {
	h.mu.Lock()
	ws := make([]*wanted, 0, len(h.wanted))
	for _, w := range h.wanted {
		ws = append(ws, w)
	}
	l := h.lan
	h.mu.Unlock()
	for _, w := range ws {
		h.retryNow(w)
	}
	if l != nil {
		l.Refresh()
	}
}
