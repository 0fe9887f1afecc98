package host

import (
	"errors"
	"fmt"

	"github.com/weftmesh/weft/protocols/identity"
)

// The errors of this package. Each is wrapped with the peer and the next step.
var (
	// ErrUnreachable means that no connection could be made in time.
	ErrUnreachable = errors.New("unreachable")
	// ErrNeedsDirect means that there is only a limited relayed path and the
	// protocol must not run on one.
	ErrNeedsDirect = errors.New("needs a direct path or a relay of your own")
	// ErrUnsupported means that the peer answered but does not speak the protocol.
	ErrUnsupported = errors.New("peer does not speak this protocol")
	// ErrProtocol means that the protocol is not in the table of protocols/doc.go.
	ErrProtocol = errors.New("protocol is not in the table")
	// ErrSelf means that a node was asked to reach itself.
	ErrSelf = errors.New("that is this node")
	// ErrAddress means that an address could not be used.
	ErrAddress = errors.New("bad address")
	// ErrClosed means that the host is closed or was never started.
	ErrClosed = errors.New("host is not running")
)

func unreachable(who identity.PublicKey, why error) error {
	return fmt.Errorf("peer %s is %w: %v; check that it is running, or give an address of it (weft peer add MULTIADDR), or a relay both of you use (weft up --bootstrap)",
		who.AgentID(), ErrUnreachable, why)
}

func needsDirect(who identity.PublicKey, protocol string) error {
	return fmt.Errorf("%s to peer %s %w: only a limited relayed path is up; try again in a minute, run weft netcheck, or have the relay's owner add you (weft peer add)",
		protocol, who.AgentID(), ErrNeedsDirect)
}
