package session

import (
	"encoding/binary"
	"fmt"
)

// Sizes of frames, bytes.
const (
	// maxPlain bounds a frame's plaintext, so that a reader's buffer is small
	// and a large message gives way to others every 64 KiB.
	maxPlain  = 64 << 10
	frameHead = 4
	frameTag  = 16
	maxFrame  = frameHead + maxPlain + frameTag
)

// Item types. A frame's plaintext is one or more items.
const (
	itemResume = 0x01
	itemPing   = 0x02
	itemPong   = 0x03
	itemData   = 0x10 // | lane
	itemAck    = 0x20 // | lane
)

// maxItemHead is the longest head of a data item: type, seq, offset, length.
const maxItemHead = 1 + binary.MaxVarintLen64 + 5 + 5

// position is a place in a lane's byte stream: off bytes of message seq.
type position struct {
	seq uint64
	off int
}

// before reports whether p lies before q.
func (p position) before(q position) bool {
	return p.seq < q.seq || p.seq == q.seq && p.off < q.off
}

// ack says which messages of a lane are done: all up to upto, and those whose
// bit is set (bit i is message upto+1+i, least significant bit first).
type ack struct {
	upto uint64
	bits []byte
}

// item is one decoded item. Its slices alias the frame.
type item struct {
	typ   byte // without the lane
	lane  Lane
	token uint64 // ping, pong
	at    position
	data  []byte
	ack   ack
	next  [lanes]position // resume
	acks  [lanes]ack      // resume
}

// reader walks a frame's plaintext; bad sticks.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || n > 1 && r.b[n-1] == 0 { // cut, over 64 bits, or not the shortest form
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

// length is a uvarint of at most max.
func (r *reader) length(max int) int {
	v := r.uvarint()
	if v > uint64(max) {
		r.bad = true
		return 0
	}
	return int(v)
}

func (r *reader) take(n int) []byte {
	if r.bad || n > len(r.b) {
		r.bad = true
		return nil
	}
	b := r.b[:n:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) ack() ack {
	a := ack{upto: r.uvarint()}
	a.bits = r.take(r.length(maxSpan / 8))
	return a
}

// decodeItem reads the first item of b into it and returns what follows.
func decodeItem(b []byte, it *item) ([]byte, error) {
	if len(b) == 0 {
		return nil, fmt.Errorf("%w: empty frame", ErrMalformed)
	}
	r := reader{b: b[1:]}
	it.typ, it.lane = b[0], 0
	if t := b[0] &^ 0x0f; t == itemData || t == itemAck {
		it.typ, it.lane = t, Lane(b[0]&0x0f)
		if it.lane >= lanes {
			return nil, fmt.Errorf("%w: lane %d", ErrMalformed, it.lane)
		}
	}
	switch it.typ {
	case itemData:
		it.at.seq = r.uvarint()
		it.at.off = r.length(maxMessage)
		it.data = r.take(r.length(maxPlain))
		r.bad = r.bad || it.at.seq == 0 || len(it.data) == 0
	case itemAck:
		it.ack = r.ack()
	case itemPing, itemPong:
		if t := r.take(8); t != nil {
			it.token = binary.BigEndian.Uint64(t)
		}
	case itemResume:
		for l := range it.next {
			it.next[l] = position{seq: r.uvarint(), off: r.length(maxMessage)}
			it.acks[l] = r.ack()
			r.bad = r.bad || it.next[l].seq == 0
		}
	default:
		return nil, fmt.Errorf("%w: item type %#x", ErrMalformed, b[0])
	}
	if r.bad {
		return nil, fmt.Errorf("%w: item of type %#x", ErrMalformed, b[0])
	}
	return r.b, nil
}

// appendAck encodes a after an item type or inside a resume item.
func appendAck(b []byte, a ack) []byte {
	b = binary.AppendUvarint(b, a.upto)
	b = binary.AppendUvarint(b, uint64(len(a.bits)))
	return append(b, a.bits...)
}

// appendData encodes the head of a data item of n bytes.
func appendData(b []byte, l Lane, at position, n int) []byte {
	b = append(b, itemData|byte(l))
	b = binary.AppendUvarint(b, at.seq)
	b = binary.AppendUvarint(b, uint64(at.off))
	return binary.AppendUvarint(b, uint64(n))
}
