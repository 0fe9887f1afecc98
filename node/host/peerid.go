package host

import (
	"errors"
	"fmt"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/weftmesh/weft/protocols/identity"
)

// idPrefix is what a libp2p id of an ed25519 key starts with: the identity
// multihash of its protobuf form (libp2p specs, peer-ids).
const idPrefix = "\x00\x24\x08\x01\x12\x20"

// libp2pID spells a key as libp2p's binary id.
func libp2pID(k identity.PublicKey) peer.ID { return peer.ID(idPrefix + string(k[:])) }

var errForeignKey = errors.New("not an ed25519 key")

// keyOf reads the key out of a libp2p id. Any other kind of key, and an
// ed25519 key of small order, is an error: weft knows no such peer.
func keyOf(id peer.ID) (identity.PublicKey, error) {
	if len(id) != len(idPrefix)+32 || string(id[:len(idPrefix)]) != idPrefix {
		return identity.PublicKey{}, fmt.Errorf("peer %s: %w", id, errForeignKey)
	}
	return identity.ParsePublic([]byte(id[len(idPrefix):]))
}
