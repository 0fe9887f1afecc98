package host

import (
	"cmp"

	ma "github.com/multiformats/go-multiaddr"
)

// Path says how two peers are connected, in the words that the person sees.
type Path string

// The paths of this host, best first.
const (
	DirectQUIC Path = "direct quic"
	DirectTCP  Path = "direct tcp"
	WebRTC     Path = "webrtc"
	Relay      Path = "relay"
)

// Direct reports whether no third machine forwards the path's bytes.
func (p Path) Direct() bool { return p == DirectQUIC || p == DirectTCP || p == WebRTC }

// pathOf names the path of a connection by the remote's address.
func pathOf(a ma.Multiaddr) Path {
	path := DirectTCP
	ma.ForEach(a, func(c ma.Component) bool {
		switch c.Protocol().Code {
		case ma.P_CIRCUIT:
			path = Relay
			return false // whatever else, the bytes pass a relay
		case ma.P_QUIC_V1:
			path = DirectQUIC
		case ma.P_WEBRTC, ma.P_WEBRTC_DIRECT:
			path = WebRTC
		}
		return true
	})
	return path
}

// better orders links, best first, as libp2p does when it opens a stream:
// without limits, direct, newest.
func better(a, b *link) int {
	return cmp.Or(
		cmpBool(!a.limited, !b.limited),
		cmpBool(a.path.Direct(), b.path.Direct()),
		b.opened.Compare(a.opened),
	)
}

func cmpBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}
