//go:build unix

package world

import (
	"bytes"
	"sync"
)

// keep bounds what is remembered of one output.
const keep = 8 << 20

// shown bounds what a failed test prints of one log.
const shown = 16 << 10

// output remembers what a process wrote, up to keep bytes from its start and
// the newest shown bytes, and hands whole lines to who reads them.
type output struct {
	mu      sync.Mutex // guards below
	head    []byte
	last    []byte
	total   int64
	changed chan struct{} // closed and replaced by every write
	closed  bool
}

func newOutput() *output { return &output{changed: make(chan struct{})} }

// Write never fails and never blocks: a process must not stall on its test.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.total += int64(len(p))
	if room := keep - len(o.head); room > 0 {
		o.head = append(o.head, p[:min(room, len(p))]...)
	}
	o.last = append(o.last, p...)
	if over := len(o.last) - shown; over > shown {
		o.last = append([]byte{}, o.last[over:]...)
	}
	close(o.changed)
	o.changed = make(chan struct{})
	return len(p), nil
}

// end says that nothing more comes.
func (o *output) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed {
		o.closed = true
		close(o.changed)
		o.changed = make(chan struct{})
	}
}

func (o *output) bytes() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return bytes.Clone(o.head)
}

func (o *output) tail() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.last[max(0, len(o.last)-shown):])
}

// line returns the whole line that starts at byte from and where the next one
// starts. Without one it returns next == from and a channel that closes when
// there may be more; the channel is nil when nothing more comes.
func (o *output) line(from int) (line []byte, next int, more <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if end := bytes.IndexByte(o.head[from:], '\n'); end >= 0 {
		return bytes.Clone(o.head[from : from+end]), from + end + 1, o.changed
	}
	if o.closed {
		return nil, from, nil
	}
	return nil, from, o.changed
}
