package requester

import "sync"

// Event is one line of `weft watch`: a call as it ended, or a change of state.
type Event struct {
	Seq     uint64 `json:"seq"`
	Tool    string `json:"tool"`
	Verdict string `json:"verdict"`
	Code    string `json:"code"`
	Path    string `json:"path"`
	MS      int64  `json:"ms"`
	Bytes   int64  `json:"bytes"`
	// Warning says what a command made that tools refuse to touch.
	Warning string `json:"warning,omitzero"`
	// State is set on a change of state or path, with Note in words.
	State string `json:"state,omitzero"`
	Note  string `json:"note,omitzero"`
	Time  int64  `json:"time"`
}

// hub hands events to watchers. A watcher that falls behind loses the oldest
// events, never the session's time: the log has them all.
type hub struct {
	mu   sync.Mutex
	subs map[chan Event]bool
}

// watcherQueue holds what a terminal may lag behind.
const watcherQueue = 256

// subscribe returns a queue of events and its end.
func (h *hub) subscribe() (<-chan Event, func()) {
	ch := make(chan Event, watcherQueue)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.subs == nil {
		h.subs = map[chan Event]bool{}
	}
	h.subs[ch] = true
	return ch, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.subs, ch)
	}
}

func (h *hub) publish(e Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for ch := range h.subs {
		for {
			select {
			case ch <- e:
			default:
				select {
				case <-ch:
					continue
				default:
				}
			}
			break
		}
	}
}
