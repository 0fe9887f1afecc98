package session

import (
	"fmt"
	"math/bits"
)

// outgoing is a message that the peer has not acknowledged.
type outgoing struct {
	msg    Message
	prefix [prefixSize]byte
	size   int
	acked  bool // out of order; it leaves when it is the oldest
}

// copyAt copies the message's bytes from off on into p and returns how many.
func (o *outgoing) copyAt(p []byte, off int) int {
	n := 0
	for _, part := range [...][]byte{o.prefix[:], o.msg.Header, o.msg.Body, o.msg.Sig} {
		if off >= len(part) {
			off -= len(part)
			continue
		}
		n += copy(p[n:], part[off:])
		off = 0
		if n == len(p) {
			break
		}
	}
	return n
}

// sendLane is the sending half of a lane: the resend buffer and how far the
// active attachment has come in it. Sequence numbers start at 1 with each
// pairing of two lives.
type sendLane struct {
	lane  Lane
	base  uint64 // seq of q[0]
	q     []*outgoing
	cur   position // what the active attachment sends next
	known position // everything before is known to have arrived
	end   position // nothing from here on was ever sent in this pairing
}

func (l *sendLane) init(lane Lane) {
	first := position{seq: 1}
	l.lane, l.base, l.cur, l.known, l.end = lane, 1, first, first, first
}

// span is how many sequence numbers are in use.
func (l *sendLane) span() int { return len(l.q) }

func (l *sendLane) pending() bool { return l.cur.seq < l.base+uint64(len(l.q)) }

func (l *sendLane) at(seq uint64) *outgoing { return l.q[seq-l.base] }

// take appends data items to p until it has limit bytes or the lane is empty. It
// never writes a message's first bytes in two parts.
func (l *sendLane) take(p []byte, limit int) []byte {
	for l.pending() {
		o := l.at(l.cur.seq)
		room := limit - len(p) - maxItemHead
		n := min(o.size-l.cur.off, room)
		if n < min(prefixSize, o.size-l.cur.off) || n <= 0 {
			return p
		}
		p = appendData(p, l.lane, l.cur, n)
		from := len(p)
		p = p[:from+n]
		o.copyAt(p[from:], l.cur.off)
		if l.cur.off += n; l.cur.off == o.size {
			l.cur = position{seq: l.cur.seq + 1}
		}
		if l.end.before(l.cur) {
			l.end = l.cur
		}
	}
	return p
}

// reached notes that everything before p has arrived. The active attachment
// may skip it too: its reader expects nothing earlier.
func (l *sendLane) reached(p position) {
	if l.known.before(p) {
		l.known = p
	}
	if l.cur.before(l.known) {
		l.cur = l.known
	}
}

// ack takes what the peer has done out of the resend buffer and returns the
// bytes it frees. Lanes are ordered, so a done message proves the arrival of
// all before it.
func (l *sendLane) ack(a ack) (freed int, err error) {
	top := a.upto
	for i, b := range a.bits {
		if b != 0 {
			top = a.upto + uint64(8*i+bits.Len8(b))
		}
	}
	if top < a.upto || top >= l.end.seq {
		return 0, fmt.Errorf("%w: acknowledgement of what was not sent", ErrMalformed)
	}
	for seq := l.base; seq <= a.upto; seq++ {
		freed += l.drop(seq)
	}
	for i, b := range a.bits {
		for ; b != 0; b &= b - 1 {
			freed += l.drop(a.upto + 1 + uint64(8*i+bits.TrailingZeros8(b)))
		}
	}
	n := 0
	for n < len(l.q) && l.q[n].acked {
		l.q[n] = nil
		n++
	}
	l.q, l.base = l.q[n:], l.base+uint64(n)
	if top > 0 {
		l.reached(position{seq: top + 1})
	}
	return freed, nil
}

// drop marks one message and frees its memory.
func (l *sendLane) drop(seq uint64) int {
	if seq < l.base || seq >= l.base+uint64(len(l.q)) || l.at(seq).acked {
		return 0
	}
	o := l.at(seq)
	o.acked, o.msg = true, Message{}
	return o.size
}

// renumber starts a new pairing: what was not acknowledged is sent again, from
// 1, in the same order.
func (l *sendLane) renumber() {
	var q []*outgoing
	for _, o := range l.q {
		if !o.acked {
			q = append(q, o)
		}
	}
	l.init(l.lane)
	l.q = q
}

// recvLane is the receiving half of a lane.
type recvLane struct {
	next  position // the first byte that is missing
	buf   []byte   // message next.seq, as announced; nil at its start
	upto  uint64   // all messages up to here are done
	done  [maxSpan / 64]uint64
	top   uint64 // highest done message
	dirty bool   // done since the last acknowledgement
}

func (l *recvLane) init() { *l = recvLane{next: position{seq: 1}} }

// begin allocates message next.seq after its prefix was checked; held bytes are
// taken from the window already and own is this side's role.
func (l *recvLane) begin(data []byte, held int, own Role) (size int, err error) {
	s, err := decodePrefix(data)
	if err != nil {
		return 0, err
	}
	if own != 0 && s.kind.From() == own {
		return 0, fmt.Errorf("%w: %s from the wrong side", ErrMismatch, s.kind)
	}
	if size = s.size(); held+size > Window {
		return 0, fmt.Errorf("%w: %d bytes held, %d more", ErrWindow, held, size)
	}
	if l.next.seq-l.upto > maxSpan {
		return 0, fmt.Errorf("%w: %d messages", ErrWindow, maxSpan)
	}
	l.buf = make([]byte, size)
	return size, nil
}

// abandon forgets the message in progress.
func (l *recvLane) abandon() (freed int) {
	freed = len(l.buf)
	l.buf, l.next.off = nil, 0
	return freed
}

// write adds data at next and returns the message's bytes when it is whole.
func (l *recvLane) write(data []byte) ([]byte, error) {
	if l.next.off+len(data) > len(l.buf) {
		return nil, fmt.Errorf("%w: data behind the end of a message", ErrMalformed)
	}
	copy(l.buf[l.next.off:], data)
	if l.next.off += len(data); l.next.off < len(l.buf) {
		return nil, nil
	}
	whole := l.buf
	l.buf, l.next = nil, position{seq: l.next.seq + 1}
	return whole, nil
}

// finish marks message seq done.
func (l *recvLane) finish(seq uint64) {
	l.dirty = true
	l.top = max(l.top, seq)
	l.done[seq/64%uint64(len(l.done))] |= 1 << (seq % 64)
	for {
		w, bit := &l.done[(l.upto+1)/64%uint64(len(l.done))], uint64(1)<<((l.upto+1)%64)
		if *w&bit == 0 {
			return
		}
		*w &^= bit
		l.upto++
	}
}

// ack is the lane's acknowledgement now; its bits are written into b.
func (l *recvLane) ack(b *[maxSpan / 8]byte) ack {
	a := ack{upto: l.upto}
	if l.top <= l.upto {
		return a
	}
	n := l.top - l.upto
	a.bits = b[:(n+7)/8]
	clear(a.bits)
	for i := range n {
		seq := l.upto + 1 + i
		if l.done[seq/64%uint64(len(l.done))]>>(seq%64)&1 == 1 {
			a.bits[i/8] |= 1 << (i % 8)
		}
	}
	return a
}
