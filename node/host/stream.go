package host

import (
	"io"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
)

// Stream is one two-way byte stream of a protocol. Both sides must close or
// reset it. libp2p's network.Stream is one.
type Stream interface {
	io.ReadWriteCloser
	// CloseWrite ends our half: the peer reads io.EOF after the last byte.
	CloseWrite() error
	// CloseRead refuses what the peer still sends.
	CloseRead() error
	// Reset ends both halves at once; bytes on the way are lost.
	Reset() error
	SetDeadline(time.Time) error
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
}

var _ Stream = (network.Stream)(nil)

// counted is a stream whose bytes are counted for its peer, and whose reads
// show that its connection lives.
type counted struct {
	network.Stream
	peer *peerState
	link *link
	done atomic.Bool // Close or Reset was called
}

func (h *Host) count(s network.Stream) *counted {
	p, l := h.linkOf(s.Conn())
	if p == nil { // the connection has just gone; the stream will say so
		p, l = &peerState{}, &link{}
	}
	return &counted{Stream: s, peer: p, link: l}
}

// Read implements io.Reader.
func (s *counted) Read(b []byte) (int, error) {
	n, err := s.Stream.Read(b)
	if n > 0 {
		s.peer.in.Add(uint64(n))
		s.link.touch()
	}
	return n, err
}

// Write implements io.Writer.
func (s *counted) Write(b []byte) (int, error) {
	n, err := s.Stream.Write(b)
	s.peer.out.Add(uint64(n))
	return n, err
}

// Close closes both halves. Bytes already written are still delivered.
func (s *counted) Close() error {
	s.done.Store(true)
	return s.Stream.Close()
}

// Reset ends both halves at once.
func (s *counted) Reset() error {
	s.done.Store(true)
	return s.Stream.Reset()
}

// abandon resets the stream unless its owner has closed it: a reset after
// Close would throw away bytes that are still on the way.
func (s *counted) abandon() {
	if !s.done.Swap(true) {
		s.Stream.Reset()
	}
}
