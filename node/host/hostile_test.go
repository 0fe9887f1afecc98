package host

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/crypto"
	cpb "github.com/libp2p/go-libp2p/core/crypto/pb"
	libp2phost "github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/client"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/proto"
	ma "github.com/multiformats/go-multiaddr"

	"github.com/weftmesh/weft/protocols/identity"
)

// bare is a plain libp2p host, for peers that don't play by our rules.
func bare(t testing.TB, opts ...libp2p.Option) libp2phost.Host {
	t.Helper()
	opts = append(opts, libp2p.ListenAddrStrings(loopTCP), libp2p.DisableMetrics(),
		libp2p.ResourceManager(&network.NullResourceManager{}))
	h, err := libp2p.New(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

func infoOf(t testing.TB, h *Host) peer.AddrInfo {
	t.Helper()
	i := peer.AddrInfo{ID: h.id}
	for _, s := range h.ListenAddrs() {
		a, err := ma.NewMultiaddr(s)
		if err != nil {
			t.Fatal(err)
		}
		i.Addrs = append(i.Addrs, a)
	}
	return i
}

// TestStrangerFloodsStreams: one stranger opens a thousand streams, with and
// without ever naming a protocol. What it may hold is bounded and the owner's
// peer is served meanwhile.
func TestStrangerFloodsStreams(t *testing.T) {
	for _, tc := range []struct {
		name string
		pids []protocol.ID // none: says nothing at all
	}{{"a protocol", []protocol.ID{echo}}, {"no protocol", nil}} {
		t.Run(tc.name, func(t *testing.T) {
			owner := newKey(t)
			var open, most atomic.Int64
			h, err := New(Config{Key: newKey(t), Listen: []string{loopQUIC, loopTCP}, Protocols: testTable, Known: know(owner.Public()).known})
			if err != nil {
				t.Fatal(err)
			}
			h.Handle(echo, func(ctx context.Context, who identity.PublicKey, s Stream, _ Path) {
				if who != owner.Public() {
					most.Store(max(most.Load(), open.Add(1)))
					defer open.Add(-1)
				}
				stop := context.AfterFunc(ctx, func() { s.Reset() })
				defer stop()
				io.Copy(s, s)
				s.Close()
			})
			if err := h.Start(within(t)); err != nil {
				t.Fatal(err)
			}
			defer h.Close()
			evil := bare(t)
			if err := evil.Connect(within(t), infoOf(t, h)); err != nil {
				t.Fatal(err)
			}
			conn := evil.Network().ConnsToPeer(h.id)[0]
			got := 0
			for range 1000 {
				ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
				var s network.Stream
				var err error
				if tc.pids == nil {
					s, err = conn.NewStream(ctx)
				} else {
					s, err = evil.NewStream(ctx, h.id, tc.pids...)
				}
				cancel()
				if err == nil {
					s.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
					s.Write([]byte("x"))
					got++
				}
			}
			if n := most.Load(); n > int64(testTable[0].PerStranger) {
				t.Errorf("stranger holds %d streams, at most %d", n, testTable[0].PerStranger)
			}
			if n := inboundStreams(); n > perStreamPeer+8 {
				t.Errorf("%d goroutines for %d streams", n, got)
			}
			good := start(t, Config{Key: owner})
			if err := good.Add(h.PeerID(), h.Addrs()); err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			say(t, good, h.PeerID(), echo, "the owner")
			if d := time.Since(begin); d > 3*time.Second {
				t.Errorf("owner waited %v", d)
			}
		})
	}
}

// inboundStreams counts the goroutines that hold an inbound stream.
func inboundStreams() int {
	buf := make([]byte, 16<<20)
	return strings.Count(string(buf[:runtime.Stack(buf, true)]), "(*BasicHost).newStreamHandler(")
}

// TestManyStrangers: connections of strangers are bounded; the owner's peer
// still gets one.
func TestManyStrangers(t *testing.T) {
	owner := newKey(t)
	h := start(t, Config{Known: know(owner.Public()).known})
	h.limits.strangers = 5
	var in atomic.Int64
	for range 12 {
		evil := bare(t)
		if err := evil.Connect(within(t), infoOf(t, h)); err == nil {
			in.Add(1)
		}
	}
	// A refused peer may think for a moment that it is connected.
	until(t, "strangers bounded", func() bool { return h.strangerConns() <= 5 })
	good := start(t, Config{Key: owner})
	if err := good.Add(h.PeerID(), h.Addrs()); err != nil {
		t.Fatal(err)
	}
	say(t, good, h.PeerID(), echo, "the owner")
	if n := h.strangerConns(); n == 0 || n > 5 {
		t.Errorf("%d connections of strangers, want 1 to 5 (%d dials succeeded)", n, in.Load())
	}
}

// small is the "private key" of the identity element, a point of order one:
// R = identity, s = 0 is a valid signature of every message under it.
type small struct{}

type smallPub struct{}

func (small) GetPublic() crypto.PubKey            { return smallPub{} }
func (small) Sign([]byte) ([]byte, error)         { return append(smallRaw(), make([]byte, 32)...), nil }
func (small) Equals(k crypto.Key) bool            { return k.Type() == cpb.KeyType_Ed25519 }
func (small) Raw() ([]byte, error)                { return make([]byte, 64), nil }
func (small) Type() cpb.KeyType                   { return cpb.KeyType_Ed25519 }
func (smallPub) Equals(k crypto.Key) bool         { return k.Type() == cpb.KeyType_Ed25519 }
func (smallPub) Raw() ([]byte, error)             { return smallRaw(), nil }
func (smallPub) Type() cpb.KeyType                { return cpb.KeyType_Ed25519 }
func (smallPub) Verify(_, _ []byte) (bool, error) { return true, nil }

func smallRaw() []byte { return append([]byte{1}, make([]byte, 31)...) }

// TestUnsafeKeysRefused: a key for which anybody can sign must not become a
// peer; neither must a kind of key that weft has no name for.
func TestUnsafeKeysRefused(t *testing.T) {
	secp, _, err := crypto.GenerateSecp256k1Key(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		key  crypto.PrivKey
	}{{"small order", small{}}, {"secp256k1", secp}} {
		t.Run(tc.name, func(t *testing.T) {
			h := start(t, Config{})
			for _, addr := range infoOf(t, h).Addrs {
				evil := bare(t, libp2p.Identity(tc.key))
				ctx, cancel := context.WithTimeout(within(t), 3*time.Second)
				evil.Connect(ctx, peer.AddrInfo{ID: h.id, Addrs: []ma.Multiaddr{addr}})
				if s, err := evil.NewStream(ctx, h.id, echo); err == nil {
					s.SetDeadline(time.Now().Add(time.Second))
					s.Write([]byte("x"))
					if _, err := io.ReadFull(s, make([]byte, 1)); err == nil {
						t.Errorf("served over %s", addr)
					}
				}
				cancel()
				if n := len(h.p2p.Network().ConnsToPeer(evil.ID())); n != 0 {
					t.Errorf("%d connections over %s", n, addr)
				}
			}
			if len(h.Peers()) != 0 {
				t.Errorf("it is listed: %v", h.Peers())
			}
		})
	}
}

// TestPlainLibp2pAcceptsSmallOrder shows that the test above tests something: a
// plain libp2p host takes the key.
func TestPlainLibp2pAcceptsSmallOrder(t *testing.T) {
	victim, evil := bare(t), bare(t, libp2p.Identity(small{}))
	err := evil.Connect(within(t), peer.AddrInfo{ID: victim.ID(), Addrs: victim.Addrs()})
	if err != nil || len(victim.Network().ConnsToPeer(evil.ID())) == 0 {
		t.Errorf("libp2p refuses small-order keys now (%v): the gate may be simplified", err)
	}
}

// TestStrangersFillTheRelay: strangers may take their share of slots only;
// the owner's peer gets one after that.
func TestStrangersFillTheRelay(t *testing.T) {
	t.Parallel()
	owner := newKey(t)
	s := newSlots(func(p peer.ID) bool { return p == libp2pID(owner.Public()) })
	here := ma.StringCast("/ip4/1.2.3.4/udp/4001/quic-v1")
	taken := 0
	var last peer.ID
	for range 2 * maxSlotsPerNet {
		p := libp2pID(newKey(t).Public())
		if s.AllowReserve(p, here) {
			taken++
			last = p
		}
	}
	if taken != maxSlotsPerNet {
		t.Errorf("one address took %d slots, want %d", taken, maxSlotsPerNet)
	}
	if !s.AllowReserve(last, here) {
		t.Error("a renewal was refused")
	}
	for i := range 2 * maxStrangerSlots {
		a := ma.StringCast(fmt.Sprintf("/ip4/1.%d.%d.4/tcp/4001", i/256+3, i%256))
		if s.AllowReserve(libp2pID(newKey(t).Public()), a) {
			taken++
		}
	}
	if taken != maxStrangerSlots {
		t.Errorf("strangers took %d slots, want %d", taken, maxStrangerSlots)
	}
	if !s.AllowReserve(libp2pID(owner.Public()), here) {
		t.Error("the owner's peer got no slot")
	}
	s.forget(last)
	s.forget(last)
	if !s.AllowReserve(libp2pID(newKey(t).Public()), here) {
		t.Error("a freed slot was not given again")
	}
}

// TestRelayRefusesNonsense: what is not a hop message costs the relay nothing.
func TestRelayRefusesNonsense(t *testing.T) {
	t.Parallel()
	r := start(t, Config{Relay: true})
	evil := bare(t)
	if err := evil.Connect(within(t), infoOf(t, r)); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		raw  []byte
	}{
		{"oversized", []byte{0xff, 0xff, 0xff, 0x7f}},
		{"endless length", bytes.Repeat([]byte{0xff}, 20)},
		{"not protobuf", []byte{3, 0xff, 0xff, 0xff}},
		{"cut short", []byte{10, 8}},
	} {
		s, err := evil.NewStream(within(t), r.id, proto.ProtoIDv2Hop)
		if err != nil {
			t.Fatal(err)
		}
		s.SetDeadline(time.Now().Add(patience))
		s.Write(tc.raw)
		s.CloseWrite()
		if b, err := io.ReadAll(s); err == nil && len(b) > 0 {
			t.Errorf("%s: answered %x", tc.name, b)
		}
		s.Reset()
	}
	// It still serves.
	if _, err := client.Reserve(within(t), evil, infoOf(t, r)); err != nil {
		t.Errorf("reserve after nonsense: %v", err)
	}
}

// TestRelayFreesSlots: a stranger that disconnects gives its slot back.
func TestRelayFreesSlots(t *testing.T) {
	t.Parallel()
	r := start(t, Config{Relay: true})
	c := bare(t)
	if _, err := client.Reserve(within(t), c, infoOf(t, r)); err != nil {
		t.Fatal(err)
	}
	held := func() int {
		r.relay.admit.mu.Lock()
		defer r.relay.admit.mu.Unlock()
		return len(r.relay.admit.strangers)
	}
	if held() != 1 {
		t.Fatalf("%d slots held", held())
	}
	c.Close()
	until(t, "slot freed", func() bool { return held() == 0 })
}

// TestRemotePeerCannotLog: nothing that a peer does is above Debug.
func TestRemotePeerCannotLog(t *testing.T) {
	var mu sync.Mutex
	var loud []string
	h := start(t, Config{Relay: true, Log: slog.New(&levelTrap{func(r slog.Record) {
		mu.Lock()
		defer mu.Unlock()
		loud = append(loud, r.Message)
	}})})
	evil := bare(t)
	if err := evil.Connect(within(t), infoOf(t, h)); err != nil {
		t.Fatal(err)
	}
	for _, id := range []protocol.ID{echo, bulk, proto.ProtoIDv2Hop, "/ipfs/ping/1.0.0", "/ipfs/id/push/1.0.0", "/libp2p/dcutr", "/libp2p/autonat/2/dial-request"} {
		for range 8 {
			s, err := evil.NewStream(within(t), h.id, id)
			if err != nil {
				break
			}
			s.Write(bytes.Repeat([]byte{0xee}, 500))
			s.Reset()
		}
	}
	evil.Close()
	until(t, "gone", func() bool { return len(h.Peers()) == 0 })
	mu.Lock()
	defer mu.Unlock()
	for _, m := range loud {
		if !strings.Contains(m, "network changed") { // ours, about this machine
			t.Errorf("logged above Debug: %s", m)
		}
	}
}

type levelTrap struct{ loud func(slog.Record) }

func (l *levelTrap) Enabled(context.Context, slog.Level) bool { return true }
func (l *levelTrap) Handle(_ context.Context, r slog.Record) error {
	if r.Level > slog.LevelDebug {
		l.loud(r)
	}
	return nil
}
func (l *levelTrap) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l *levelTrap) WithGroup(string) slog.Handler      { return l }

// TestLibp2pLogIsDemoted: libp2p logs at Info and Error what peers cause.
func TestLibp2pLogIsDemoted(t *testing.T) {
	t.Parallel()
	trap := &recordTrap{}
	log := slog.New(demoted{trap}).With("logger", "relay").WithGroup("g")
	log.Error("error when shutting down listener")
	log.Info("new relay stream")
	if len(trap.got) != 2 {
		t.Fatalf("%d records", len(trap.got))
	}
	for _, r := range trap.got {
		if r.Level != slog.LevelDebug {
			t.Errorf("%s at %v", r.Message, r.Level)
		}
	}
	if slog.New(demoted{slog.NewTextHandler(io.Discard, nil)}).Enabled(context.Background(), slog.LevelError) {
		t.Error("an error of libp2p is shown though Debug is off")
	}
}

type recordTrap struct{ got []slog.Record }

func (r *recordTrap) Enabled(context.Context, slog.Level) bool { return true }
func (r *recordTrap) Handle(_ context.Context, rec slog.Record) error {
	r.got = append(r.got, rec)
	return nil
}
func (r *recordTrap) WithAttrs([]slog.Attr) slog.Handler { return r }
func (r *recordTrap) WithGroup(string) slog.Handler      { return r }

// TestCloseDuringDirectDials: libp2p's swarm panics when a direct dial meets
// its Close; ours must keep them apart, and stay quick.
func TestCloseDuringDirectDials(t *testing.T) {
	for range 5 {
		_, a, b, _ := apart(t, Config{Known: func(identity.PublicKey) bool { return true }})
		say(t, a, b.PeerID(), echo, "relayed")
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for a.dialDirect(context.Background(), b.id) != ErrClosed {
				}
			})
		}
		begin := time.Now()
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if d := time.Since(begin); d > 3*time.Second {
			t.Errorf("close took %v", d)
		}
		wg.Wait()
	}
}

// TestCloseEndsHandlers: a handler that waits for its peer ends with the host.
func TestCloseEndsHandlers(t *testing.T) {
	t.Parallel()
	h, a := start(t, Config{}), start(t, Config{})
	if err := a.Add(h.PeerID(), h.Addrs()); err != nil {
		t.Fatal(err)
	}
	s, _, err := a.Open(within(t), h.PeerID(), echo)
	if err != nil {
		t.Fatal(err)
	}
	s.SetDeadline(time.Now().Add(patience))
	s.Write([]byte("x"))
	if _, err := io.ReadFull(s, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(begin); d > 3*time.Second {
		t.Errorf("close took %v", d)
	}
	if err := h.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
	if _, err := s.Read(make([]byte, 1)); err == nil {
		t.Error("the stream still reads")
	}
	if err := h.Start(within(t)); err == nil {
		t.Error("started after Close")
	}
	if _, _, err := h.Ping(within(t), a.PeerID()); !errors.Is(err, ErrClosed) {
		t.Errorf("ping after close: %v", err)
	}
}
