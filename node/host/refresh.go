package host

import "time"

// refreshAgain is when Refresh looks again: libp2p compares our addresses
// every 5 s and only then tells peers of new ones, so what they learn and what
// we learn of them comes late.
var refreshAgain = [...]time.Duration{2 * time.Second, 2 * time.Second, 2 * time.Second, 3 * time.Second, 6 * time.Second}

// Refresh takes a change of what is allowed or reachable as news: wanted peers
// are dialled and pinged now, and relayed ones tried for a direct path, and
// again while the news spreads.
func (h *Host) Refresh() {
	h.networkChanged()
	h.spawn(func() {
		for _, d := range refreshAgain {
			if !sleep(h.life, d) {
				return
			}
			h.networkChanged()
		}
	})
}
