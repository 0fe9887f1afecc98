package host

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weftmesh/weft/protocols"
	"github.com/weftmesh/weft/protocols/identity"
)

// Profiles choose limits (limits.go), nothing else.
const (
	// ProfileLaptop keeps few connections. It is the default.
	ProfileLaptop = "laptop"
	// ProfileServer keeps more, and dials no private address but those the
	// owner gave, once it has a public one of its own.
	ProfileServer = "server"
	// ProfileRelay is a server that also serves as a relay.
	ProfileRelay = "relay"
)

// defaultHeartbeat is short enough that a dead connection to a wanted peer is
// closed within 5 s (two heartbeats), and long enough to cost a laptop
// nothing: about 100 bytes a peer each time.
const defaultHeartbeat = 2500 * time.Millisecond

// PeerBook remembers addresses of wanted peers between runs. Its methods are
// called from the goroutine that keeps the peer, never two at once for one
// peer, and must not take longer than a local write.
type PeerBook interface {
	// Load returns the last good addresses, best first; none and no error
	// if the peer was never saved.
	Load(peer identity.PublicKey) ([]string, error)
	// Save replaces the addresses: at most 16 of at most 256 bytes.
	Save(peer identity.PublicKey, addrs []string) error
}

// Config configures a Host. Key is required; the zero value of every other
// field works.
type Config struct {
	// Key is the node's identity.
	Key *identity.Key
	// Listen holds multiaddrs to listen on. Empty means QUIC and TCP on
	// every interface, ports chosen by the system. Start fails if one that
	// is named here can't be used.
	Listen []string
	// Relay serves circuit relay v2 to others.
	Relay bool
	// Bootstrap holds multiaddrs with /p2p/ID of peers to stay connected
	// to. Those that offer a relay are used as relays.
	Bootstrap []string
	// MDNS finds peers on the local network.
	MDNS bool
	// Profile is laptop (default), server or relay.
	Profile string
	// Agent is the user agent told to peers. Default "weft".
	Agent string
	// Log receives what happens. Default: nothing. Nothing that a remote
	// peer causes is above Debug.
	Log *slog.Logger
	// Saved remembers addresses between runs. Default: nothing is remembered.
	Saved PeerBook
	// Registerer receives libp2p's metrics. Default: no metrics are kept.
	Registerer prometheus.Registerer
	// Known reports whether the owner has added the peer. Wanted peers are
	// known without being asked for. Called for every inbound connection and
	// stream: it must not block. Default: nobody else is known.
	Known func(identity.PublicKey) bool
	// Allow reports whether a connection with a peer at a multiaddr may be
	// made; for networks with rules, and for tests and demos that need a
	// path to be missing. An inbound connection is asked about by the
	// address it comes from. Must not block. Default: everything.
	Allow func(peer identity.PublicKey, addr string, inbound bool) bool
	// Hide reports whether peers must not learn our direct addresses now: they
	// are told those through relays only. Must not block. Default: never.
	Hide func() bool
	// Protocols is the table of protocols. Default protocols.All().
	Protocols []protocols.Protocol
	// Heartbeat is the time between pings of wanted peers. Default 2.5 s.
	Heartbeat time.Duration
}

func (c Config) withDefaults() (Config, error) {
	if c.Key == nil {
		return c, fmt.Errorf("host needs an identity key")
	}
	switch c.Profile {
	case "":
		c.Profile = ProfileLaptop
	case ProfileLaptop, ProfileServer:
	case ProfileRelay:
		c.Relay = true
	default:
		return c, fmt.Errorf("profile %q is unknown; use %s, %s or %s", c.Profile, ProfileLaptop, ProfileServer, ProfileRelay)
	}
	if c.Agent == "" {
		c.Agent = "weft"
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Known == nil {
		c.Known = func(identity.PublicKey) bool { return false }
	}
	if c.Protocols == nil {
		c.Protocols = protocols.All()
	}
	if c.Heartbeat <= 0 {
		c.Heartbeat = defaultHeartbeat
	}
	return c, nil
}
