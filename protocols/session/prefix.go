package session

import (
	"encoding/binary"
	"fmt"
)

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
