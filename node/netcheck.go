package node

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"github.com/weftmesh/weft/node/api"
)

// Netcheck says how this node can be reached, as far as it knows.
type Netcheck struct {
	Reachability string     `json:"reachability"`
	Addrs        []NetAddr  `json:"addrs"`
	Relays       []NetRelay `json:"relays"`
	// UDP says whether QUIC can be heard, and TCP likewise: there is an
	// address that isn't relayed.
	UDP bool `json:"udp"`
	TCP bool `json:"tcp"`
	// Connected counts connected peers by path.
	Connected map[string]int `json:"connected"`
}

// NetAddr is one address that peers are told.
type NetAddr struct {
	Addr string `json:"addr"`
	// Scope is public, private, loopback or relay.
	Scope string `json:"scope"`
	// Transport is quic, tcp, websocket, webrtc or another protocol's name.
	Transport string `json:"transport"`
}

// NetRelay is a bootstrap peer, as a relay.
type NetRelay struct {
	PeerID string `json:"peerId"`
	// Reserved says that others can reach us through it now.
	Reserved bool `json:"reserved"`
	// Limited says that it limits the circuits to us.
	Limited bool `json:"limited"`
	// Addrs are our addresses through it.
	Addrs []string `json:"addrs"`
	// RTT is in milliseconds, 0 if it didn't answer.
	RTT float64 `json:"rtt"`
	// Error says why it didn't answer, Problem why there is no reservation.
	Error   string `json:"error"`
	Problem string `json:"problem"`
}

// relayWait bounds the look at the relays.
const relayWait = 5 * time.Second

func (n *Node) getNetcheck(w http.ResponseWriter, r *http.Request) error {
	return api.Reply(w, n.netcheck(r.Context()))
}

func (n *Node) netcheck(ctx context.Context) Netcheck {
	out := Netcheck{Reachability: n.host.Reachability(), Addrs: []NetAddr{}, Relays: n.relays(ctx), Connected: map[string]int{}}
	for _, a := range n.host.Addrs() {
		na := classify(a)
		if na.Scope != "relay" {
			out.UDP = out.UDP || na.Transport == "quic" || na.Transport == "webrtc"
			out.TCP = out.TCP || na.Transport == "tcp" || na.Transport == "websocket"
		}
		out.Addrs = append(out.Addrs, na)
	}
	for _, p := range n.host.Peers() {
		if p.Connected {
			out.Connected[string(p.Path)]++
		}
	}
	return out
}

// classify reads an address's scope and transport.
func classify(addr string) NetAddr {
	out := NetAddr{Addr: addr, Scope: "private", Transport: "unknown"}
	m, err := multiaddr.NewMultiaddr(addr)
	if err != nil {
		return out
	}
	switch {
	case strings.Contains(addr, "/p2p-circuit"):
		out.Scope = "relay"
	case manet.IsIPLoopback(m):
		out.Scope = "loopback"
	case manet.IsPublicAddr(m):
		out.Scope = "public"
	}
	for _, p := range m.Protocols() {
		switch p.Code {
		case multiaddr.P_QUIC_V1:
			out.Transport = "quic"
		case multiaddr.P_TCP:
			out.Transport = "tcp"
		case multiaddr.P_WS, multiaddr.P_WSS:
			out.Transport = "websocket"
		case multiaddr.P_WEBRTC_DIRECT, multiaddr.P_WEBRTC:
			out.Transport = "webrtc"
		case multiaddr.P_WEBTRANSPORT:
			out.Transport = "webtransport"
		case multiaddr.P_CIRCUIT:
			return out // what follows is not ours
		}
	}
	return out
}

// relays looks at every bootstrap peer, at the same time.
func (n *Node) relays(ctx context.Context) []NetRelay {
	ctx, cancel := context.WithTimeout(ctx, relayWait)
	defer cancel()
	states := n.host.RelayStates()
	out := make([]NetRelay, len(states))
	var looks sync.WaitGroup
	for i, s := range states {
		out[i] = NetRelay{PeerID: string(s.Peer.PeerID()), Reserved: s.Reserved, Limited: s.Limited, Addrs: list(s.Addrs), Problem: s.Problem}
		looks.Go(func() {
			rtt, _, err := n.host.Ping(ctx, s.Peer)
			if err != nil {
				out[i].Error = err.Error()
				return
			}
			out[i].RTT = millis(rtt)
		})
	}
	looks.Wait()
	return out
}
