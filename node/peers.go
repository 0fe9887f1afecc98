package node

import (
	"net/http"
	"time"

	"github.com/weftmesh/weft/node/api"
	"github.com/weftmesh/weft/protocols/identity"
)

// PeerAdd is the body of POST /v1/peers.
type PeerAdd struct {
	// Target is a multiaddr with /p2p/ID, or an id.
	Target string `json:"target"`
	// Name is the contact's name, may be empty.
	Name string `json:"name"`
}

// PeerName is the body of PATCH /v1/peers/{peer}.
type PeerName struct {
	Name string `json:"name"`
}

// PeerIDs are the spellings of one peer, and its name if it is a contact.
type PeerIDs struct {
	PeerID  string `json:"peerId"`
	AgentID string `json:"agentId"`
	DID     string `json:"did"`
	Name    string `json:"name"`
}

// Peer is a contact as listed.
type Peer struct {
	PeerID  string    `json:"peerId"`
	AgentID string    `json:"agentId"`
	Name    string    `json:"name"`
	Addrs   []string  `json:"addrs"`
	Added   time.Time `json:"added"`
	// Path is how it is connected now, "" if it isn't.
	Path string `json:"path"`
}

// Peers is the list of contacts.
type Peers struct {
	Peers []Peer `json:"peers"`
}

// Resolve finds the peer that a person means, however it is spelled. Names and
// beginnings of ids are looked up among contacts, connected peers and this node
// itself, so that what all ids begin with is never unambiguous.
func (n *Node) Resolve(spec string) (identity.PublicKey, error) {
	others := []identity.PublicKey{n.key.Public()}
	for _, p := range n.host.Peers() {
		others = append(others, p.Peer)
	}
	return resolve(spec, n.book.All(), others)
}

func (n *Node) getPeers(w http.ResponseWriter, _ *http.Request) error {
	out := Peers{Peers: []Peer{}}
	for _, c := range n.book.All() {
		out.Peers = append(out.Peers, n.peer(c))
	}
	return api.Reply(w, out)
}

func (n *Node) postPeer(w http.ResponseWriter, r *http.Request) error {
	in, err := api.Decode[PeerAdd](r)
	if err != nil {
		return err
	}
	id, addr, err := parseTarget(in.Target)
	if err != nil {
		return err
	}
	var addrs []string
	if addr != "" {
		addrs = []string{addr}
	}
	c, err := n.book.Add(r.Context(), id, in.Name, addrs)
	if err != nil {
		return err
	}
	if err := n.host.Add(id, c.Addrs); err != nil {
		return err
	}
	n.host.Keep(id)
	return api.Reply(w, n.peer(c))
}

func (n *Node) patchPeer(w http.ResponseWriter, r *http.Request) error {
	in, err := api.Decode[PeerName](r)
	if err != nil {
		return err
	}
	id, err := n.Resolve(r.PathValue("peer"))
	if err != nil {
		return err
	}
	c, err := n.book.Rename(r.Context(), id, in.Name)
	if err != nil {
		return err
	}
	return api.Reply(w, n.peer(c))
}

func (n *Node) deletePeer(w http.ResponseWriter, r *http.Request) error {
	id, err := n.Resolve(r.PathValue("peer"))
	if err != nil {
		return err
	}
	c, err := n.book.Remove(r.Context(), id)
	if err != nil {
		return err
	}
	n.host.Drop(id)
	return api.Reply(w, n.peer(c))
}

func (n *Node) getResolve(w http.ResponseWriter, r *http.Request) error {
	id, err := n.Resolve(r.URL.Query().Get("peer"))
	if err != nil {
		return err
	}
	return api.Reply(w, PeerIDs{PeerID: string(id.PeerID()), AgentID: string(id.AgentID()), DID: id.DID(), Name: n.book.Name(id)})
}

func (n *Node) peer(c Contact) Peer {
	p := Peer{PeerID: string(c.ID.PeerID()), AgentID: string(c.ID.AgentID()), Name: c.Name, Addrs: list(c.Addrs), Added: c.Added}
	if path, ok := n.host.PathOf(c.ID); ok {
		p.Path = string(path)
	}
	return p
}
