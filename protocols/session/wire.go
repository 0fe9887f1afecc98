package session

import (
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
