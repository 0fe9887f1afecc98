package requester

// windowSize is how far behind the highest call number a call may still come.
// Calls run side by side, so after a restart a lower number can arrive anew
// while a higher one is already in the log; a provider has at most 256 calls
// in flight.
const windowSize = 1024

// window remembers which call numbers were used, like the anti-replay window
// of RFC 4303 section 3.4.3: each number once, none older than the window.
// The zero value has seen nothing.
type window struct {
	high uint64
	seen map[uint64]struct{}
}

// take uses a number; false if it was used before or is too old.
func (w *window) take(n uint64) bool {
	if n == 0 || n+windowSize <= w.high {
		return false
	}
	if _, used := w.seen[n]; used {
		return false
	}
	if w.seen == nil {
		w.seen = map[uint64]struct{}{}
	}
	w.seen[n] = struct{}{}
	if n > w.high {
		w.high = n
		if len(w.seen) > 2*windowSize {
			for k := range w.seen {
				if k+windowSize <= w.high {
					delete(w.seen, k)
				}
			}
		}
	}
	return true
}
