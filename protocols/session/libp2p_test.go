package session

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p"
	lcrypto "github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/client"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/relay"
	ma "github.com/multiformats/go-multiaddr"

	"github.com/weftmesh/weft/protocols/identity"
)

// A libp2p stream is a Stream as it is.
var _ Stream = network.Stream(nil)

// newHost is a real host with the identity of the session.
func newHost(t *testing.T, k *identity.Key, listen ...string) host.Host {
	t.Helper()
	priv, err := lcrypto.UnmarshalEd25519PrivateKey(k.Private())
	if err != nil {
		t.Fatal(err)
	}
	opts := []libp2p.Option{libp2p.Identity(priv), libp2p.DisableMetrics()}
	if len(listen) > 0 {
		opts = append(opts, libp2p.ListenAddrStrings(listen...))
	} else {
		opts = append(opts, libp2p.NoListenAddrs, libp2p.EnableRelay())
	}
	h, err := libp2p.New(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

// serve answers sessions on h, with the check that the node makes.
func serve(t *testing.T, ctx context.Context, h host.Host, r *Channel) {
	h.SetStreamHandler(Protocol, func(st network.Stream) {
		hello, err := ReadHello(ctx, st)
		if err != nil {
			return
		}
		if string(hello.Peer.PeerID()) != st.Conn().RemotePeer().String() {
			t.Errorf("hello from %s on a stream of %s", hello.Peer.PeerID(), st.Conn().RemotePeer())
		}
		r.Answer(ctx, st, hello)
	})
}

// exchange sends messages both ways, small and 1 MiB, and checks them.
func exchange(t *testing.T, r, p *Channel) {
	t.Helper()
	ctx := deadline(t)
	sizes := []int{10, 1 << 20, 4096, 300_000, 1}
	for _, side := range []struct{ from, to *Channel }{{p, r}, {r, p}} {
		for i, size := range sizes {
			if err := side.from.Send(ctx, bulk(t, side.from.cfg.Self, i+1, size)); err != nil {
				t.Fatal(err)
			}
		}
		for i, size := range sizes {
			m := receive(t, side.to)
			if got := number(t, m); got != i+1 || len(m.Body) != size {
				t.Errorf("got call %d of %d bytes, want %d of %d", got, len(m.Body), i+1, size)
			}
			if err := Verify(side.from.cfg.Self.Public(), "s-1", m); err != nil {
				t.Error(err)
			}
		}
		if err := side.from.Drain(ctx); err != nil {
			t.Error(err)
		}
	}
}

// TestOverLibp2p: one session over a QUIC stream, then over a TCP stream.
func TestOverLibp2p(t *testing.T) {
	r, p := channels(t)
	for _, listen := range []string{"/ip4/127.0.0.1/udp/0/quic-v1", "/ip4/127.0.0.1/tcp/0"} {
		t.Run(listen, func(t *testing.T) {
			ctx, cancel := context.WithCancel(deadline(t))
			hr, hp := newHost(t, r.cfg.Self, listen), newHost(t, p.cfg.Self, listen)
			serve(t, ctx, hr, r)
			if err := hp.Connect(ctx, peer.AddrInfo{ID: hr.ID(), Addrs: hr.Addrs()}); err != nil {
				t.Fatal(err)
			}
			st, err := hp.NewStream(ctx, hr.ID(), Protocol)
			if err != nil {
				t.Fatal(err)
			}
			end := make(chan error, 1)
			go func() { end <- p.Dial(ctx, st) }()
			exchange(t, r, p)
			cancel()
			if err := within(t, end); !errors.Is(err, context.Canceled) {
				t.Errorf("ended with %v", err)
			}
			eventually(t, func() bool { return !r.State().Attached })
		})
	}
}

// TestOverRelay: the session runs over real circuits of a relay with default
// limits, which cuts each after 128 KiB in one direction. More than 2.6 MB go
// through, in pieces, once and in order.
func TestOverRelay(t *testing.T) {
	r, p := channels(t)
	ctx, cancel := context.WithCancel(deadline(t))
	defer cancel()
	hub := newHost(t, testKey(t, "relay"), "/ip4/127.0.0.1/tcp/0")
	service, err := relay.New(hub, relay.WithResources(relay.DefaultResources()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { service.Close() })
	hr, hp := newHost(t, r.cfg.Self), newHost(t, p.cfg.Self)
	serve(t, ctx, hr, r)
	hubInfo := peer.AddrInfo{ID: hub.ID(), Addrs: hub.Addrs()}
	if err := hr.Connect(ctx, hubInfo); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Reserve(ctx, hr, hubInfo); err != nil {
		t.Fatal(err)
	}
	circuit, err := ma.NewMultiaddr(fmt.Sprintf("%s/p2p/%s/p2p-circuit", hub.Addrs()[0], hub.ID()))
	if err != nil {
		t.Fatal(err)
	}
	once := func() error {
		bounded, cancel := context.WithTimeout(network.WithAllowLimitedConn(ctx, "session"), 10*time.Second)
		defer cancel()
		if err := hp.Connect(bounded, peer.AddrInfo{ID: hr.ID(), Addrs: []ma.Multiaddr{circuit}}); err != nil {
			return fmt.Errorf("connect: %w", err)
		}
		st, err := hp.NewStream(bounded, hr.ID(), Protocol)
		if err != nil {
			return fmt.Errorf("open: %w", err)
		}
		if !st.Conn().Stat().Limited {
			t.Error("the path is not a limited relay")
		}
		return p.Dial(ctx, st)
	}
	streams := make(chan int, 1)
	go func() {
		n := 0
		for ; ctx.Err() == nil; n++ {
			err := once()
			if errors.Is(err, ErrProtocol) {
				t.Errorf("attachment %d: %v", n, err)
			}
			if err != nil && ctx.Err() == nil {
				hp.Network().ClosePeer(hr.ID()) // the dead circuit's connection
			}
		}
		streams <- n
	}()
	exchange(t, r, p)
	cancel()
	if n := within(t, streams); n < 10 {
		t.Errorf("%d circuits for 2.6 MB: the relay did not cut", n)
	} else {
		t.Logf("%d circuits", n)
	}
	eventually(t, func() bool { return !r.State().Attached })
}
