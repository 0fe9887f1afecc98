// Package raw is the floor of every comparison over libp2p: one stream that
// stays open, on which a request of some bytes gets an answer of some bytes.
// The host has weft's transports and libp2p's own security, and nothing else
// of weft.
package raw

import (
	"crypto/ed25519"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	quic "github.com/libp2p/go-libp2p/p2p/transport/quic"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
)

// Protocol is the id of the stream.
const Protocol = "/weft-bench/raw/1"

// MaxBytes bounds a request and an answer.
const MaxBytes = 4 << 20

// NewHost makes a host from an ed25519 seed. An empty listen address dials
// only.
func NewHost(seed []byte, listen string) (host.Host, error) {
	if len(seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("a key of %d bytes, want %d", len(seed), ed25519.SeedSize)
	}
	key, err := crypto.UnmarshalEd25519PrivateKey(ed25519.NewKeyFromSeed(seed))
	if err != nil {
		return nil, err
	}
	addrs := libp2p.NoListenAddrs
	if listen != "" {
		addrs = libp2p.ListenAddrStrings(listen)
	}
	return libp2p.New(
		libp2p.Identity(key),
		libp2p.Transport(quic.NewTransport),
		libp2p.Transport(tcp.NewTCPTransport),
		libp2p.EnableRelay(),
		addrs,
		libp2p.ResourceManager(&network.NullResourceManager{}),
		libp2p.DisableMetrics(),
	)
}

// Ask sends request and reads an answer of n bytes into buf, which has room
// for both and 8 bytes: each direction is one write.
func Ask(s io.ReadWriter, buf, request []byte, n int) ([]byte, error) {
	binary.BigEndian.PutUint32(buf, uint32(len(request)))
	binary.BigEndian.PutUint32(buf[4:], uint32(n))
	if _, err := s.Write(buf[:8+copy(buf[8:], request)]); err != nil {
		return nil, fmt.Errorf("ask: %w", err)
	}
	if _, err := io.ReadFull(s, buf[:n]); err != nil {
		return nil, fmt.Errorf("read an answer: %w", err)
	}
	return buf[:n], nil
}

// Answer serves one request with the beginning of content.
func Answer(r io.Reader, w io.Writer, content []byte) error {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	in, out := binary.BigEndian.Uint32(head[:]), binary.BigEndian.Uint32(head[4:])
	if in > MaxBytes || int64(out) > int64(len(content)) {
		return fmt.Errorf("asked with %d bytes for %d of %d", in, out, len(content))
	}
	if _, err := io.CopyN(io.Discard, r, int64(in)); err != nil {
		return err
	}
	_, err := w.Write(content[:out])
	return err
}
