// Package protocols lists what weft peers say to each other.
//
// Each protocol has a package of its own below this folder, whose doc.go is
// its specification. The one thing they share is here: the table of protocol
// ids with the rules that the host (node/host) enforces for them, so that no
// protocol package has to repeat, or can forget, them.
//
// # Limited paths
//
// A relay that does not know either end gives a limited path: by default 128
// KiB each way and two minutes (libp2p circuit relay v2). RelayOK says
// whether a protocol may start there. A protocol that carries bulk answers
// false: it is refused on a limited path, by the opening side with a typed
// error after a short wait for a better path, and by the answering side with
// a reset. A relay without limits is not a limited path.
//
// # Limits
//
// Streams of one protocol are counted as they arrive. A stranger is a peer
// that the owner of this node has not added. Strangers share a part of the
// total only, so they can never use up what the owner's own peers need.
package protocols

import "slices"

// Protocol is one row of the table.
type Protocol struct {
	// ID is the libp2p protocol id, with its version.
	ID string
	// Service names the resource scope the streams are accounted to.
	Service string
	// RelayOK says whether streams may be opened on a limited path.
	RelayOK bool
	// PerPeer is how many streams one known peer may have open to us.
	PerPeer int
	// PerStranger is the same for a peer the owner has not added; 0 refuses
	// strangers.
	PerStranger int
	// Total is how many inbound streams all peers together may have open.
	Total int
	// Strangers is the part of Total that all strangers together may use.
	Strangers int
}

// table holds every protocol of this build. A protocol that is not here can
// neither be opened nor served.
var table = []Protocol{
	{
		// The session control channel must start at once on whatever path
		// there is; it resumes when a limited path ends and moves to a
		// better one by itself. A stranger may offer a session, never more
		// than a few at once.
		ID: "/weft/session/1", Service: "weft.session", RelayOK: true,
		PerPeer: 32, PerStranger: 4, Total: 256, Strangers: 64,
	},
	{
		// An offer is one small document and its answer. A stranger may make
		// one; the desk bounds how many are kept.
		ID: "/weft/offer/1", Service: "weft.offer", RelayOK: true,
		PerPeer: 4, PerStranger: 2, Total: 64, Strangers: 16,
	},
}

// All returns a copy of the table, in no promised order.
func All() []Protocol { return slices.Clone(table) }

// Lookup finds a protocol by its id.
func Lookup(id string) (Protocol, bool) {
	for _, p := range table {
		if p.ID == id {
			return p, true
		}
	}
	return Protocol{}, false
}
