package host

import (
	"context"
	"fmt"
	"slices"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/network"
	basichost "github.com/libp2p/go-libp2p/p2p/host/basic"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	"github.com/libp2p/go-libp2p/p2p/protocol/holepunch"
	"github.com/libp2p/go-libp2p/p2p/protocol/identify"
	quic "github.com/libp2p/go-libp2p/p2p/transport/quic"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
	"go.uber.org/fx"
)

// defaultListen is QUIC and TCP on every interface, ports from the system.
var defaultListen = []string{
	"/ip4/0.0.0.0/udp/0/quic-v1", "/ip4/0.0.0.0/tcp/0",
	"/ip6/::/udp/0/quic-v1", "/ip6/::/tcp/0",
}

// build makes the libp2p host, not listening. There are no default peers, no
// public bootstrap, no STUN and no telemetry: it talks to whom it is told to.
func (h *Host) build() error {
	key, err := crypto.UnmarshalEd25519PrivateKey(h.cfg.Key.Private())
	if err != nil {
		return err
	}
	manager, err := newConnManager(h.limits)
	if err != nil {
		return err
	}
	resources, err := newResourceManager(h.limits, h.cfg.Protocols, h.cfg.Registerer)
	if err != nil {
		manager.Close()
		return err
	}
	var observed basichost.ObservedAddrsManager
	opts := []libp2p.Option{
		libp2p.Identity(key),
		libp2p.UserAgent(h.cfg.Agent),
		libp2p.ProtocolVersion("weft/1"),
		libp2p.Transport(quic.NewTransport),
		libp2p.Transport(tcp.NewTCPTransport),
		libp2p.EnableRelay(), // the client side; before NoListenAddrs, which turns it off
		libp2p.NoListenAddrs,
		libp2p.EnableAutoNATv2(),
		libp2p.AddrsFactory(h.advertise),
		libp2p.ConnectionManager(manager),
		libp2p.ResourceManager(resources),
		libp2p.ConnectionGater(&gate{h: h}),
		libp2p.SwarmOpts(swarm.WithDialRanker(rankDials)),
		// The black-hole detectors count failed dials of all peers: redialling
		// one that is away would soon count as "no UDP here" and turn QUIC off.
		// They also leave AutoNAT v2 undecided in small meshes (go-libp2p#3491).
		libp2p.UDPBlackHoleSuccessCounter(nil),
		libp2p.IPv6BlackHoleSuccessCounter(nil),
		libp2p.WithFxOption(fx.Populate(&observed)),
	}
	if h.cfg.Registerer == nil {
		opts = append(opts, libp2p.DisableMetrics())
	} else {
		opts = append(opts, libp2p.PrometheusRegisterer(h.cfg.Registerer))
	}
	p2p, err := libp2p.New(opts...)
	if err != nil {
		return err
	}
	h.p2p, h.swarm, h.observed = p2p, p2p.Network().(*swarm.Swarm), observed
	return nil
}

// listen brings up every address. One that the owner named must work; of the
// defaults one is enough, since a machine may lack IPv6.
func (h *Host) listen(ctx context.Context) error {
	addrs, named := h.cfg.Listen, true
	if len(addrs) == 0 {
		addrs, named = defaultListen, false
	}
	up := 0
	var last error
	seen := map[string]bool{} // libp2p panics on the same QUIC address twice
	for _, s := range addrs {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("listen: %w", err)
		}
		a, err := ma.NewMultiaddr(s)
		if err != nil {
			return fmt.Errorf("listen on %q: %w: %v; write it like /ip4/0.0.0.0/udp/4001/quic-v1", s, ErrAddress, err)
		}
		if seen[a.String()] {
			continue
		}
		seen[a.String()] = true
		if err := h.swarm.Listen(a); err != nil {
			last = fmt.Errorf("listen on %s: %w; is the port in use? Choose another with --listen", s, err)
			if named {
				return last
			}
			h.log.Debug("default address not used", "addr", s, "err", err)
			continue
		}
		up++
	}
	if up == 0 {
		return last
	}
	return nil
}

// holePunchAddrs are the public addresses that a peer behind a NAT may punch
// to: our own, and those that at least one peer has seen us at. libp2p's own
// choice for the purpose (its addrs manager's HolePunchAddrs) is not exported.
func (h *Host) holePunchAddrs() []ma.Multiaddr {
	var addrs []ma.Multiaddr
	if all, ok := h.p2p.(interface{ AllAddrs() []ma.Multiaddr }); ok {
		addrs = slices.Clone(all.AllAddrs())
	}
	if h.observed != nil {
		addrs = append(addrs, h.observed.Addrs(1)...)
	}
	return slices.DeleteFunc(ma.Unique(addrs), func(a ma.Multiaddr) bool { return !manet.IsPublicAddr(a) })
}

func (h *Host) startPunch() error {
	ids, ok := h.p2p.(interface{ IDService() identify.IDService })
	if !ok {
		return fmt.Errorf("libp2p host has no identify service")
	}
	var opts []holepunch.Option
	if h.cfg.Registerer != nil {
		opts = append(opts, holepunch.WithMetricsTracer(holepunch.NewMetricsTracer(holepunch.WithRegisterer(h.cfg.Registerer))))
	}
	s, err := holepunch.NewService(h.p2p, ids.IDService(), h.holePunchAddrs, opts...)
	if err != nil {
		return err
	}
	h.punch = s
	return nil
}

// relayLag delays a relayed dial behind direct ones that have private
// addresses only; libp2p delays it behind public ones and otherwise lets a
// relay win against the LAN (anywherelan#270).
const relayLag = 250e6 // 250 ms

func rankDials(addrs []ma.Multiaddr) []network.AddrDelay {
	ranked := swarm.DefaultDialRanker(addrs)
	private, public := false, false
	for _, a := range addrs {
		if pathOf(a) != Relay {
			private = private || !manet.IsPublicAddr(a)
			public = public || manet.IsPublicAddr(a)
		}
	}
	if private && !public {
		for i := range ranked {
			if pathOf(ranked[i].Addr) == Relay {
				ranked[i].Delay += relayLag
			}
		}
		slices.SortStableFunc(ranked, func(a, b network.AddrDelay) int { return int(a.Delay - b.Delay) })
	}
	return ranked
}
