//go:build linux

package bench

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	libp2ppeer "github.com/libp2p/go-libp2p/core/peer"

	"github.com/weftmesh/weft/protocols/identity"
	"github.com/weftmesh/weft/test/bench/raw"
	"github.com/weftmesh/weft/test/e2e/world"
)

// stream is an open libp2p stream to a peer process that answers with the
// beginning of text.
type stream struct {
	s   network.Stream
	buf []byte
}

// rawStream opens one over the transport of listen, or through a relay daemon.
func rawStream(tb testing.TB, w *world.World, listen string, relay *world.Node) (*stream, []int) {
	tb.Helper()
	file := filepath.Join(w.Dir, "raw.bin")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		tb.Fatal(err)
	}
	here, there := seed(), seed()
	args := []string{"raw", file, hex.EncodeToString(there), listen}
	if relay != nil {
		known(tb, relay, here, there)
		args = append(args, relay.Addrs()[0])
	}
	p, addr := peer(tb, w, args...)
	host, err := raw.NewHost(here, "")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { host.Close() })
	info, err := libp2ppeer.AddrInfoFromString(addr)
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(network.WithAllowLimitedConn(context.Background(), "bench"), world.Patience)
	defer cancel()
	if err := host.Connect(ctx, *info); err != nil {
		tb.Fatalf("connect to %s: %v", addr, err)
	}
	s, err := host.NewStream(ctx, info.ID, raw.Protocol)
	if err != nil {
		tb.Fatal(err)
	}
	if limited := s.Conn().Stat().Limited; limited {
		tb.Fatalf("the relay limits the circuit to %s: it would be cut under way", addr)
	}
	return &stream{s: s, buf: make([]byte, 8+raw.MaxBytes)}, []int{p.PID()}
}

// seed is a new ed25519 key.
func seed() []byte {
	b := make([]byte, 32)
	rand.Read(b)
	return b
}

// known makes peers the relay's own, whose circuits it doesn't limit.
func known(tb testing.TB, relay *world.Node, seeds ...[]byte) {
	tb.Helper()
	for _, s := range seeds {
		k, err := identity.FromSeed(s)
		if err != nil {
			tb.Fatal(err)
		}
		relay.Run(tb, "peer", "add", string(k.Public().PeerID())).OK(tb)
	}
}

// ask makes one exchange.
func (s *stream) ask(ctx context.Context, request []byte, n int) ([]byte, error) {
	if deadline, ok := ctx.Deadline(); ok {
		if err := s.s.SetDeadline(deadline.Add(time.Second)); err != nil {
			return nil, err
		}
	}
	return raw.Ask(s.s, s.buf, request, n)
}

// reads returns the operation that moves the bytes of a read.
func (s *stream) reads(size int) func(context.Context) error {
	request := bytes.Repeat([]byte{'r'}, 400) // a call of weft with its header
	return func(ctx context.Context) error {
		got, err := s.ask(ctx, request, size)
		if err != nil {
			return err
		}
		return same(got, size)
	}
}

// size is the bytes of one call each way.
type size struct{ request, answer int }

// traces returns the operation that moves the bytes of a trace.
func (s *stream) traces(sizes []size) func(context.Context) error {
	request := make([]byte, raw.MaxBytes)
	return func(ctx context.Context) error {
		for i, z := range sizes {
			got, err := s.ask(ctx, request[:z.request], z.answer)
			if err != nil {
				return err
			}
			if !bytes.Equal(got, text[:z.answer]) {
				return fmt.Errorf("answer %d is not what was asked for", i)
			}
		}
		return nil
	}
}
