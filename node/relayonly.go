package node

import (
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/weftmesh/weft/node/api"
	"github.com/weftmesh/weft/protocols/identity"
)

// relayOnly keeps peers from learning where this machine is: while it is on,
// connections go through the relays of Bootstrap alone. Turning it off lets
// the host look for direct paths at once; open sessions move to them.
type relayOnly struct {
	on     atomic.Bool
	relays []string // peer ids that may be connected directly
}

// allow is the host's rule for one connection.
func (r *relayOnly) allow(p identity.PublicKey, addr string, _ bool) bool {
	if !r.on.Load() || strings.Contains(addr, "/p2p-circuit") {
		return true
	}
	return slices.Contains(r.relays, string(p.PeerID()))
}

// bootstrapIDs are the peers that Bootstrap names.
func bootstrapIDs(addrs []string) []string {
	var ids []string
	for _, a := range addrs {
		if _, id, ok := strings.Cut(a, "/p2p/"); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

// RelayOnly is the body of POST /v1/relay-only and its answer.
type RelayOnly struct {
	On bool `json:"on"`
}

func (n *Node) postRelayOnly(w http.ResponseWriter, r *http.Request) error {
	in, err := api.Decode[RelayOnly](r)
	if err != nil {
		return err
	}
	n.relayOnly.on.Store(in.On)
	n.host.Refresh()
	return api.Reply(w, in)
}
