package host

import (
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/protocol"
	rcmgr "github.com/libp2p/go-libp2p/p2p/host/resource-manager"
	"github.com/libp2p/go-libp2p/p2p/net/connmgr"
	relayv2 "github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/relay"
	"github.com/libp2p/go-libp2p/p2p/protocol/ping"
	"github.com/libp2p/go-libp2p/x/rate"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weftmesh/weft/protocols"
)

// limits are what one profile may use of the machine.
type limits struct {
	// conns is the most connections at any time, in and out.
	conns int
	// strangers is the most inbound connections of peers the owner has not
	// added; the rest of conns is for known peers.
	strangers int
	// low and high are where trimming of idle unprotected peers ends and starts.
	low, high int
	// memory bounds what libp2p's buffers may take, in bytes.
	memory int64
	// perIP is how many connections one public address may have: an office
	// or a household behind one NAT.
	perIP int
}

// perStreamPeer bounds the streams of one peer over all protocols. It is
// small so that strangers x perStreamPeer stays below the transient scope: a
// peer that opens streams and never says a protocol can't keep others out.
const perStreamPeer = 64

var profiles = map[string]limits{
	ProfileLaptop: {conns: 192, strangers: 64, low: 64, high: 96, memory: 192 << 20, perIP: 32},
	ProfileServer: {conns: 768, strangers: 512, low: 256, high: 448, memory: 512 << 20, perIP: 64},
	ProfileRelay:  {conns: 2048, strangers: 1536, low: 1024, high: 1536, memory: 1 << 30, perIP: 128},
}

// trimGrace is how long a new connection is safe from trimming.
const trimGrace = 30 * time.Second

func newConnManager(l limits) (*connmgr.BasicConnMgr, error) {
	return connmgr.NewConnManager(l.low, l.high, connmgr.WithGracePeriod(trimGrace))
}

// newResourceManager bounds everything that peers can make libp2p hold:
// the system, each peer, each own protocol and its service.
func newResourceManager(l limits, table []protocols.Protocol, reg prometheus.Registerer) (network.ResourceManager, error) {
	scaling := rcmgr.DefaultLimits
	libp2p.SetDefaultServiceLimits(&scaling)
	pings := rcmgr.BaseLimit{Streams: 16, StreamsInbound: 8, StreamsOutbound: 8, Memory: 1 << 20}
	// Our heartbeat pings every connection of a peer at once, and a person
	// may ping too; libp2p's two streams a peer would refuse some.
	scaling.AddServicePeerLimit(ping.ServiceName, pings, rcmgr.BaseLimitIncrease{})
	scaling.AddProtocolPeerLimit(ping.ID, pings, rcmgr.BaseLimitIncrease{})
	all := rcmgr.BaseLimit{Streams: 4 * l.conns, StreamsInbound: 2 * l.conns, StreamsOutbound: 4 * l.conns, Memory: 16 << 20}
	scaling.AddServiceLimit(ping.ServiceName, all, rcmgr.BaseLimitIncrease{})
	scaling.AddProtocolLimit(ping.ID, all, rcmgr.BaseLimitIncrease{})
	hops := rcmgr.BaseLimit{Streams: 8 * l.conns, StreamsInbound: 4 * l.conns, StreamsOutbound: 8 * l.conns, Memory: l.memory / 2}
	scaling.AddServiceLimit(relayv2.ServiceName, hops, rcmgr.BaseLimitIncrease{})
	for _, p := range table {
		total := rcmgr.BaseLimit{Streams: 3 * p.Total, StreamsInbound: p.Total, StreamsOutbound: 2 * p.Total, Memory: l.memory / 2}
		peer := rcmgr.BaseLimit{Streams: 3 * p.PerPeer, StreamsInbound: p.PerPeer, StreamsOutbound: 2 * p.PerPeer, Memory: l.memory / 8}
		scaling.AddProtocolLimit(protocol.ID(p.ID), total, rcmgr.BaseLimitIncrease{})
		scaling.AddServiceLimit(p.Service, total, rcmgr.BaseLimitIncrease{})
		scaling.AddProtocolPeerLimit(protocol.ID(p.ID), peer, rcmgr.BaseLimitIncrease{})
		scaling.AddServicePeerLimit(p.Service, peer, rcmgr.BaseLimitIncrease{})
	}
	streams := rcmgr.LimitVal(l.conns * perStreamPeer)
	concrete := rcmgr.PartialLimitConfig{
		System: rcmgr.ResourceLimits{
			Conns: rcmgr.LimitVal(l.conns), ConnsInbound: rcmgr.LimitVal(l.conns), ConnsOutbound: rcmgr.LimitVal(l.conns),
			Streams: 2 * streams, StreamsInbound: streams, StreamsOutbound: streams,
			Memory: rcmgr.LimitVal64(l.memory), FD: rcmgr.LimitVal(l.conns),
		},
		Transient: rcmgr.ResourceLimits{
			Conns: rcmgr.LimitVal(l.conns / 2), ConnsInbound: rcmgr.LimitVal(l.conns / 2), ConnsOutbound: rcmgr.LimitVal(l.conns / 2),
			Streams: 2 * streams, StreamsInbound: streams, StreamsOutbound: streams,
			Memory: rcmgr.LimitVal64(l.memory / 4), FD: rcmgr.LimitVal(l.conns / 2),
		},
		PeerDefault: rcmgr.ResourceLimits{
			Conns: 8, ConnsInbound: 8, ConnsOutbound: 8,
			Streams: 4 * perStreamPeer, StreamsInbound: perStreamPeer, StreamsOutbound: 3 * perStreamPeer,
			Memory: rcmgr.LimitVal64(l.memory / 4), FD: 8,
		},
	}.Build(scaling.Scale(l.memory, 2*l.conns))
	opts := []rcmgr.Option{
		rcmgr.WithNetworkPrefixLimit(privateV4(l.conns), privateV6(l.conns)),
		rcmgr.WithLimitPerSubnet(
			[]rcmgr.ConnLimitPerSubnet{{PrefixLength: 32, ConnCount: l.perIP}},
			[]rcmgr.ConnLimitPerSubnet{{PrefixLength: 56, ConnCount: l.perIP}, {PrefixLength: 48, ConnCount: 4 * l.perIP}},
		),
		rcmgr.WithConnRateLimiters(connRate(l)),
	}
	if reg == nil {
		opts = append(opts, rcmgr.WithMetricsDisabled())
	} else {
		rep, err := rcmgr.NewStatsTraceReporter()
		if err != nil {
			return nil, err
		}
		opts = append(opts, rcmgr.WithTraceReporter(rep))
	}
	return rcmgr.NewResourceManager(rcmgr.NewFixedLimiter(concrete), opts...)
}

var (
	loopback4  = netip.MustParsePrefix("127.0.0.0/8")
	loopback6  = netip.MustParsePrefix("::1/128")
	privateIP4 = []netip.Prefix{
		netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"),
		netip.MustParsePrefix("192.168.0.0/16"), netip.MustParsePrefix("100.64.0.0/10"),
	}
	privateIP6 = []netip.Prefix{netip.MustParsePrefix("fc00::/7"), netip.MustParsePrefix("fe80::/10")}
)

// unlimited is more than any profile's connections, so the system scope decides.
const unlimited = 1 << 20

// A whole LAN may sit behind one prefix; libp2p's 8 connections an address
// would refuse an office or a Docker host (go-libp2p, charon#4639).
func privateV4(conns int) []rcmgr.NetworkPrefixLimit {
	return prefixLimits(loopback4, privateIP4, conns)
}
func privateV6(conns int) []rcmgr.NetworkPrefixLimit {
	return prefixLimits(loopback6, privateIP6, conns)
}

func prefixLimits(loopback netip.Prefix, private []netip.Prefix, conns int) []rcmgr.NetworkPrefixLimit {
	out := []rcmgr.NetworkPrefixLimit{{Network: loopback, ConnCount: unlimited}}
	for _, p := range private {
		out = append(out, rcmgr.NetworkPrefixLimit{Network: p, ConnCount: conns})
	}
	return out
}

func connRate(l limits) *rate.Limiter {
	r := &rate.Limiter{
		NetworkPrefixLimits: []rate.PrefixLimit{{Prefix: loopback4}, {Prefix: loopback6}},
		SubnetRateLimiter: rate.SubnetLimiter{
			IPv4SubnetLimits: []rate.SubnetLimit{{PrefixLength: 32, Limit: rate.Limit{RPS: 1, Burst: 2 * l.perIP}}},
			IPv6SubnetLimits: []rate.SubnetLimit{
				{PrefixLength: 56, Limit: rate.Limit{RPS: 1, Burst: 2 * l.perIP}},
				{PrefixLength: 48, Limit: rate.Limit{RPS: 4, Burst: 8 * l.perIP}},
			},
			GracePeriod: time.Minute,
		},
	}
	for _, p := range append(append([]netip.Prefix{}, privateIP4...), privateIP6...) {
		r.NetworkPrefixLimits = append(r.NetworkPrefixLimits,
			rate.PrefixLimit{Prefix: p, Limit: rate.Limit{RPS: 16, Burst: l.conns}})
	}
	return r
}
