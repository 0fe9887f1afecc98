package node

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/weftmesh/weft/node/api"
	"github.com/weftmesh/weft/node/host"
	"github.com/weftmesh/weft/protocols/identity"
)

// minPrefix is the shortest part of an id that may stand for it.
const minPrefix = 8

// wholeID is the length from which a word is meant as a whole id: an agent id,
// the shortest spelling, has 43 or 44 symbols, and no name is that long.
const wholeID = 43

// resolve finds the peer that a person means: a whole id in any spelling, a
// contact's name, or an unambiguous beginning of an id of one of the peers.
func resolve(spec string, contacts []Contact, others []identity.PublicKey) (identity.PublicKey, error) {
	var none identity.PublicKey
	if spec == "" || len(spec) > 256 || !utf8.ValidString(spec) {
		return none, api.Errorf(api.Invalid, "a peer is needed: an id, a name or the beginning of an id").Try("weft peer list")
	}
	p, idErr := identity.ParseID(spec)
	if idErr == nil {
		return p, nil
	}
	known := others
	for _, c := range contacts {
		if strings.EqualFold(c.Name, spec) {
			return c.ID, nil
		}
		if !slices.Contains(known, c.ID) {
			known = append(known, c.ID)
		}
	}
	if len(spec) >= wholeID {
		return none, api.Errorf(api.Invalid, "%v", idErr).Try("copy the whole id again (weft id on the other machine)")
	}
	var found []identity.PublicKey
	if len(spec) >= minPrefix {
		for _, p := range known {
			if slices.ContainsFunc(spellings(p), func(id string) bool { return strings.HasPrefix(id, spec) }) {
				found = append(found, p)
			}
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		e := api.Errorf(api.NotFound, "no peer is called %q", spec)
		if len(spec) < minPrefix {
			return none, e.Try("weft peer list; the beginning of an id needs %d characters or more", minPrefix)
		}
		return none, e.Try("weft peer list; a peer that isn't a contact needs its whole id")
	}
	return none, api.Errorf(api.Invalid, "%q is the beginning of %d ids, such as %s and %s", spec, len(found), found[0], found[1]).
		WithCode("ambiguous").Try("give more characters")
}

// spellings are the three ways to write a key.
func spellings(p identity.PublicKey) []string {
	return []string{string(p.PeerID()), string(p.AgentID()), p.DID()}
}

// parseTarget reads what `peer add` takes: a multiaddr that ends in /p2p/ID,
// or an id alone. The address comes back without /p2p/ID, "" for an id alone; a
// relayed one keeps the relay's: /.../p2p/RELAY/p2p-circuit.
func parseTarget(s string) (p identity.PublicKey, addr string, err error) {
	const shape = "give a multiaddr such as /ip4/192.0.2.7/udp/4001/quic-v1/p2p/12D3Koo..., or a peer's id"
	id, bare := strings.CutPrefix(s, "/p2p/")
	if bare || !strings.HasPrefix(s, "/") {
		p, err = identity.ParseID(id)
	} else {
		p, addr, err = host.ParseAddr(s)
	}
	if err != nil {
		return p, "", api.Errorf(api.Invalid, "%v", err).Try(shape)
	}
	return p, addr, nil
}
