package redact

import (
	"encoding/binary"
	"slices"
)

// maxHeld bounds the raw bytes that a Stream keeps back while it waits for the
// rest of a possible match. The longest pattern has maxWhole bytes; the rest
// is room for white space and escape sequences between them.
const maxHeld = 16 << 10

// Stream redacts one stream of output. It is not safe for concurrent use.
//
// It has two stages: the first matches with blank bytes left out, the second
// also leaves out escape sequences. Two are needed, since leaving a sequence
// out also hides a secret that is inside one.
type Stream struct {
	plain, terminal *stage
}

// reset makes a stream that ended ready for another, keeping its buffers up to
// a size.
func (s *Stream) reset() bool {
	for _, g := range []*stage{s.plain, s.terminal} {
		if cap(g.raw) > maxKept {
			return false
		}
		*g = stage{set: g.set, escapes: g.escapes, raw: g.raw[:0], view: g.view[:0], at: g.at[:0], out: g.out[:0]}
	}
	return true
}

// maxKept is the largest buffer that is kept for the next result.
const maxKept = 256 << 10

// Stream starts the redaction of one stream.
func (s *Set) Stream() *Stream {
	if s.Len() == 0 {
		return &Stream{}
	}
	return &Stream{plain: &stage{set: s}, terminal: &stage{set: s, escapes: true}}
}

// Write takes the next chunk and returns the output that is safe by now. The
// result is valid until the next call.
func (s *Stream) Write(p []byte) []byte {
	if s.plain == nil {
		return p
	}
	return s.terminal.write(s.plain.write(p, false), false)
}

// Flush ends the stream and returns what was kept back.
func (s *Stream) Flush() []byte {
	if s.plain == nil {
		return nil
	}
	return s.terminal.write(s.plain.write(nil, true), true)
}

// Count is the number of stretches replaced so far.
func (s *Stream) Count() int {
	if s.plain == nil {
		return 0
	}
	return s.plain.count + s.terminal.count
}

// stage is one pass. It keeps the raw bytes that are not emitted yet and the
// view of them.
type stage struct {
	set     *Set
	escapes bool // leave out escape sequences as well
	state   escape
	count   int

	raw  []byte
	view []byte  // raw without what the view leaves out
	at   []int32 // position in raw of each view byte

	// emitted is the position in raw before which the output is decided. It is
	// beyond a held view byte when that byte is part of a match already.
	emitted int
	// open says that the output ends with a placeholder, whose stretch of text
	// ends at emitted: a match that starts there or before prolongs it.
	open bool
	out  []byte
}

func (g *stage) write(p []byte, last bool) []byte {
	g.out = g.out[:0]
	g.extend(p)
	hold := g.scan(last)
	if hold == len(g.view) {
		g.emit(len(g.raw))
		g.raw, g.view, g.at, g.emitted = g.raw[:0], g.view[:0], g.at[:0], 0
		return g.out
	}
	cut := int(g.at[hold])
	g.emit(cut)
	g.raw = append(g.raw[:0], g.raw[cut:]...)
	g.view = append(g.view[:0], g.view[hold:]...)
	n := copy(g.at, g.at[hold:])
	g.at = g.at[:n]
	for i := range g.at {
		g.at[i] -= int32(cut)
	}
	g.emitted -= cut
	return g.out
}

// extend adds p to the raw bytes and to the view.
func (g *stage) extend(p []byte) {
	pos := int32(len(g.raw))
	g.raw = append(g.raw, p...)
	n := len(g.view)
	// Room for every byte at once: this loop is half of the cost.
	view, at := slices.Grow(g.view, len(p))[:n+len(p)], slices.Grow(g.at, len(p))[:n+len(p)]
	for i, c := range p {
		if g.escapes && (g.state != text || c == 0x1b) && g.state.skip(c) || blank[c] {
			continue
		}
		view[n], at[n] = c, pos+int32(i)
		n++
	}
	g.view, g.at = view[:n], at[:n]
}

// scan replaces every match in the view and returns the index of the first
// byte that could still begin one; len(view) if there is none.
func (g *stage) scan(last bool) int {
	view, set, n := g.view, g.set, len(g.view)
	i := 0
	for ; i+window <= n; i++ {
		key := binary.LittleEndian.Uint64(view[i:])
		if h := mix(key); set.filter[h>>6]&(1<<(h&63)) == 0 {
			continue
		}
		switch m := set.longest(key, view[i:]); {
		case m > 0:
			g.replace(i, i+m)
		case m < 0 && !last && g.mayHold(i):
			return i
		case m < 0:
			if m = set.shorter(key, view[i:]); m > 0 {
				g.replace(i, i+m)
			}
		}
	}
	if !last {
		for ; i < n; i++ {
			if set.heads[headKey(view[i:])] && g.mayHold(i) {
				return i
			}
		}
	}
	return n
}

func (g *stage) mayHold(i int) bool { return len(g.raw)-int(g.at[i]) <= maxHeld }

// replace puts a placeholder where view[start:end] was.
func (g *stage) replace(start, end int) {
	begin := int(g.at[start])
	if !g.open || begin > g.emitted {
		g.emit(begin)
		g.out = append(g.out, Placeholder...)
		g.count++
		g.open = true
	}
	g.emitted = max(g.emitted, int(g.at[end-1])+1)
}

// emit puts out the raw bytes before end that are not decided yet.
func (g *stage) emit(end int) {
	if end > g.emitted {
		g.out = append(g.out, g.raw[g.emitted:end]...)
		g.emitted = end
		g.open = false
	}
}
