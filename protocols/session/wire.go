package session

import (
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/weftmesh/weft/protocols/identity"
)

// Protocol is the stream protocol id. A change that an older reader would
// misread gets a new number.
const Protocol = "/weft/session/1"

// Stream is what the channel needs of a connection; a libp2p network.Stream
// fits. Read and Write may run at the same time; Reset makes both fail at once.
type Stream interface {
	io.ReadWriteCloser
	Reset() error
	SetDeadline(time.Time) error
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
}

// Boot names one life of one side's channel. It is random.
type Boot [16]byte

// magic opens every hello. Its last byte is the version of the handshake.
var magic = [8]byte{'w', 'e', 'f', 't', 's', 'e', 's', 1}

// Sizes of the handshake, bytes (layouts in doc.go).
const (
	helloHead  = len(magic) + 1
	helloTail  = 32 + 32 + 32 + 32 + 16
	replySize  = 1 + 32 + 16 + 64
	refuseSize = 1 + 64
	finishSize = 64
)

// Hello is the first message of a handshake, as read by ReadHello. Nothing in
// it is proven until Answer has succeeded.
type Hello struct {
	Session string
	Grant   [32]byte
	// Peer is who the dialling side says it is. Compare it with the identity
	// that the stream's own security proved before acting on it.
	Peer identity.PublicKey
	// To is who the dialling side means to reach.
	To identity.PublicKey

	boot Boot
	eph  [32]byte
	raw  []byte
}

// appendHello encodes h. The session id was checked by New.
func appendHello(b []byte, h *Hello) []byte {
	b = append(b, magic[:]...)
	b = append(b, byte(len(h.Session)))
	b = append(b, h.Session...)
	b = append(b, h.Grant[:]...)
	b = append(b, h.Peer[:]...)
	b = append(b, h.To[:]...)
	b = append(b, h.eph[:]...)
	return append(b, h.boot[:]...)
}

// readHello reads exactly one hello from r, never more.
func readHello(r io.Reader) (*Hello, error) {
	raw := make([]byte, helloHead, helloHead+maxSession+helloTail)
	if _, err := io.ReadFull(r, raw); err != nil {
		return nil, err
	}
	n := int(raw[len(magic)])
	if [8]byte(raw[:8]) != magic || n == 0 || n > maxSession {
		return nil, fmt.Errorf("%w: not a session hello of this version", ErrMalformed)
	}
	raw = raw[:helloHead+n+helloTail]
	if _, err := io.ReadFull(r, raw[helloHead:]); err != nil {
		return nil, err
	}
	h := &Hello{Session: string(raw[helloHead : helloHead+n]), raw: raw}
	if !isSession(h.Session) {
		return nil, fmt.Errorf("%w: session id", ErrMalformed)
	}
	b := raw[helloHead+n:]
	var err error
	copy(h.Grant[:], b)
	if h.Peer, err = identity.ParsePublic(b[32:64]); err != nil {
		return nil, fmt.Errorf("%w: dialling side: %w", ErrMalformed, err)
	}
	if h.To, err = identity.ParsePublic(b[64:96]); err != nil {
		return nil, fmt.Errorf("%w: answering side: %w", ErrMalformed, err)
	}
	copy(h.eph[:], b[96:])
	copy(h.boot[:], b[128:])
	return h, nil
}

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

// maxAck is the longest ack item.
const maxAck = 1 + binary.MaxVarintLen64 + 2 + maxSpan/8

// maxResume is the longest resume item.
const maxResume = 1 + lanes*(binary.MaxVarintLen64+5+maxAck)

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

// A message in a lane's byte stream: kind, flags, header length, body length,
// header, body, signature.
const (
	prefixSize = 1 + 1 + 4 + 4
	flagSigned = 1
	sigSize    = 64
	maxMessage = prefixSize + MaxHeader + MaxBody + sigSize
)

// prefix is a message's first bytes.
func (m Message) prefix() (p [prefixSize]byte) {
	p[0] = byte(m.Kind)
	if len(m.Sig) != 0 {
		p[1] = flagSigned
	}
	binary.BigEndian.PutUint32(p[2:], uint32(len(m.Header)))
	binary.BigEndian.PutUint32(p[6:], uint32(len(m.Body)))
	return p
}

// size is the length of m in a lane's byte stream.
func (m Message) size() int { return prefixSize + len(m.Header) + len(m.Body) + len(m.Sig) }

// shape is what a prefix announces.
type shape struct {
	kind              Kind
	header, body, sig int
}

func (s shape) size() int { return prefixSize + s.header + s.body + s.sig }

// decodePrefix reads a message's first bytes and applies every limit of its
// kind, so nothing is allocated for a message that would be refused.
func decodePrefix(p []byte) (shape, error) {
	if len(p) < prefixSize {
		return shape{}, fmt.Errorf("%w: message cut inside its first %d bytes", ErrMalformed, prefixSize)
	}
	k := Kind(p[0])
	r, ok := k.rule()
	if !ok {
		return shape{}, fmt.Errorf("%w: %d", ErrUnknownKind, p[0])
	}
	h, b := binary.BigEndian.Uint32(p[2:]), binary.BigEndian.Uint32(p[6:])
	if p[1]&^flagSigned != 0 {
		return shape{}, fmt.Errorf("%w: message flags %#x", ErrMalformed, p[1])
	}
	if h > MaxHeader || b > MaxBody {
		return shape{}, fmt.Errorf("%w: %s of %d+%d bytes", ErrTooLarge, k, h, b)
	}
	s := shape{kind: k, header: int(h), body: int(b), sig: int(p[1]&flagSigned) * sigSize}
	return s, r.check(k, s.header, s.body, s.sig)
}

// decodeMessage reads one whole message. The result aliases b.
func decodeMessage(b []byte) (Message, error) {
	s, err := decodePrefix(b)
	if err != nil {
		return Message{}, err
	}
	if len(b) != s.size() {
		return Message{}, fmt.Errorf("%w: message of %d bytes announces %d", ErrMalformed, len(b), s.size())
	}
	m := Message{Kind: s.kind}
	b = b[prefixSize:]
	m.Header, b = b[:s.header:s.header], b[s.header:]
	m.Body, b = b[:s.body:s.body], b[s.body:]
	m.Sig = b
	return m, nil
}
