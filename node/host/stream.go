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
	host *Host
	peer *peerState
	link *link
	done atomic.Bool // Close or Reset was called
}

// count begins to count a stream; false if its connection is about to be
// closed, so the stream must not be used.
func (h *Host) count(s network.Stream) (*counted, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := &counted{Stream: s, host: h, peer: &peerState{}, link: &link{}}
	ps := h.peers[s.Conn().RemotePeer()]
	if ps == nil { // the connection has just gone; the stream will say so
		return c, true
	}
	c.peer = ps
	for _, l := range ps.links {
		if l.conn == s.Conn() {
			c.link = l
			l.streams++
			// The peer may have had a reason not to close it.
			return c, l.doomed.IsZero() || time.Since(l.doomed) > twinLife
		}
	}
	return c, true
}

// release says that the stream is used no more.
func (s *counted) release() {
	if !s.done.Swap(true) {
		s.host.mu.Lock()
		s.link.streams--
		s.host.mu.Unlock()
	}
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
	s.release()
	return s.Stream.Close()
}

// Reset ends both halves at once.
func (s *counted) Reset() error {
	s.release()
	return s.Stream.Reset()
}

// abandon resets the stream unless its owner has closed it: a reset after
// Close would throw away bytes that are still on the way.
func (s *counted) abandon() {
	if !s.done.Load() {
		s.Reset()
	}
}
