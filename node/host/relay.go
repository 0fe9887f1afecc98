package host

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	libp2phost "github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/protocol"
	pbv2 "github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/pb"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/proto"
	relayv2 "github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/relay"
	ma "github.com/multiformats/go-multiaddr"
	pb "google.golang.org/protobuf/proto"
)

// relayService serves circuit relay v2 with different limits for known peers
// and strangers. libp2p's relay has one set of limits for everybody, so there
// are two of them behind one protocol handler:
//
//	RESERVE            both take the reservation; the one for this peer answers
//	CONNECT, known     open:    no limit of bytes or time
//	CONNECT, stranger  limited: libp2p's defaults, 128 KiB each way, 2 minutes
//
// Who opens the circuit decides, since that is who causes the traffic: a
// stranger can't make the owner carry unlimited bytes to a known peer. Slots
// of strangers are counted apart, so they never take one from a known peer.
type relayService struct {
	h       *Host
	admit   *slots
	open    *captured
	limited *captured
}

const (
	// hopWait is how long a peer may take to say what it wants.
	hopWait = 10 * time.Second
	// openBuffer is the copy buffer of an unlimited circuit; libp2p's 2 KiB
	// costs half the throughput.
	openBuffer = 16 << 10
	// openCircuits bounds the circuits of one known peer, limitedCircuits of
	// one stranger (libp2p's default).
	openCircuits, limitedCircuits = 128, 16
)

func newRelayService(h *Host) (*relayService, error) {
	r := &relayService{h: h, admit: newSlots(h.known)}
	var err error
	// Both tables hold every reservation, so their own limits stay out of the
	// way and slots decides.
	rc := relayv2.DefaultResources()
	rc.MaxReservations, rc.MaxReservationsPerIP, rc.MaxReservationsPerASN = math.MaxInt32, math.MaxInt32, math.MaxInt32
	rc.MaxCircuits = limitedCircuits
	if r.limited, err = h.captureRelay(rc, r.admit); err != nil {
		return nil, err
	}
	rc.Limit, rc.MaxCircuits, rc.BufferSize = nil, openCircuits, openBuffer
	if r.open, err = h.captureRelay(rc, r.admit); err != nil {
		return nil, errors.Join(err, r.limited.Close())
	}
	h.p2p.SetStreamHandler(proto.ProtoIDv2Hop, r.serve)
	return r, nil
}

// Close stops both relays; circuits end with their connections.
func (r *relayService) Close() error {
	r.h.p2p.RemoveStreamHandler(proto.ProtoIDv2Hop)
	return errors.Join(r.open.Close(), r.limited.Close())
}

// serve reads what the peer wants and hands the stream, as if unread, to the
// relay with the right limits. It runs on libp2p's goroutine of the stream.
func (r *relayService) serve(s network.Stream) {
	if err := s.Scope().ReserveMemory(maxHop, network.ReservationPriorityAlways); err != nil {
		s.ResetWithError(network.StreamResourceLimitExceeded)
		return
	}
	s.SetReadDeadline(time.Now().Add(hopWait))
	raw, msg, err := readHop(s)
	s.Scope().ReleaseMemory(maxHop)
	if err != nil {
		r.h.log.Debug("bad relay request", "peer", s.Conn().RemotePeer(), "err", err)
		s.Reset()
		return
	}
	s.SetReadDeadline(time.Time{})
	mine, other := r.limited, r.open
	if r.h.known(s.Conn().RemotePeer()) {
		mine, other = r.open, r.limited
	}
	if msg.GetType() == pbv2.HopMessage_RESERVE {
		// First the silent one, so that the slot is whole when the peer
		// hears of it.
		other.handle(&shadow{replay: replay{Stream: s, unread: raw}})
	}
	mine.handle(&replay{Stream: s, unread: raw})
}

// readHop reads one length-prefixed message and returns its bytes too.
func readHop(rd io.Reader) ([]byte, *pbv2.HopMessage, error) {
	one := oneByte{rd: rd}
	n, err := binary.ReadUvarint(&one)
	if err != nil {
		return nil, nil, fmt.Errorf("read length: %w", err)
	}
	if n > maxHop {
		return nil, nil, fmt.Errorf("message of %d bytes, at most %d", n, maxHop)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(rd, body); err != nil {
		return nil, nil, fmt.Errorf("read message: %w", err)
	}
	msg := new(pbv2.HopMessage)
	if err := pb.Unmarshal(body, msg); err != nil {
		return nil, nil, fmt.Errorf("decode message: %w", err)
	}
	return append(binary.AppendUvarint(nil, n), body...), msg, nil
}

// oneByte reads no further than asked: what follows is the relay's to read.
type oneByte struct{ rd io.Reader }

func (o *oneByte) ReadByte() (byte, error) {
	var b [1]byte
	_, err := io.ReadFull(o.rd, b[:])
	return b[0], err
}

// replay gives back the bytes that were read to look at the request.
type replay struct {
	network.Stream
	unread []byte
}

func (r *replay) Read(p []byte) (int, error) {
	if len(r.unread) > 0 {
		n := copy(p, r.unread)
		r.unread = r.unread[n:]
		return n, nil
	}
	return r.Stream.Read(p)
}

// shadow carries a reservation to the relay that doesn't answer: it reads the
// request and loses the answer.
type shadow struct{ replay }

func (s *shadow) Read(p []byte) (int, error) {
	if len(s.unread) == 0 {
		return 0, io.EOF
	}
	return s.replay.Read(p)
}
func (s *shadow) Write(p []byte) (int, error)                  { return len(p), nil }
func (s *shadow) Close() error                                 { return nil }
func (s *shadow) CloseRead() error                             { return nil }
func (s *shadow) CloseWrite() error                            { return nil }
func (s *shadow) Reset() error                                 { return nil }
func (s *shadow) ResetWithError(network.StreamErrorCode) error { return nil }
func (s *shadow) SetDeadline(time.Time) error                  { return nil }
func (s *shadow) SetReadDeadline(time.Time) error              { return nil }
func (s *shadow) SetWriteDeadline(time.Time) error             { return nil }
func (s *shadow) Scope() network.StreamScope                   { return &network.NullScope{} }

// captured is a libp2p relay whose stream handler we hold, instead of libp2p's
// multiplexer.
type captured struct {
	*relayv2.Relay
	handle network.StreamHandler
}

func (h *Host) captureRelay(rc relayv2.Resources, acl relayv2.ACLFilter) (*captured, error) {
	c := &captured{}
	opts := []relayv2.Option{
		relayv2.WithResources(rc), relayv2.WithACL(acl),
		// On a private network the relay's private addresses are the useful ones.
		relayv2.WithReservationAddressFilter(func(a ma.Multiaddr) bool { return pathOf(a) != Relay }),
	}
	if h.cfg.Registerer != nil {
		opts = append(opts, relayv2.WithMetricsTracer(relayv2.NewMetricsTracer(relayv2.WithRegisterer(h.cfg.Registerer))))
	}
	r, err := relayv2.New(&capturing{Host: h.p2p, into: c}, opts...)
	if err != nil {
		return nil, err
	}
	c.Relay = r
	return c, nil
}

// capturing is a host that keeps the hop handler for itself.
type capturing struct {
	libp2phost.Host
	into *captured
}

func (c *capturing) SetStreamHandler(_ protocol.ID, handle network.StreamHandler) {
	c.into.handle = handle
}
func (c *capturing) RemoveStreamHandler(protocol.ID) {}
