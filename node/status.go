package node

import (
	"net/http"
	"os"
	"time"

	"github.com/weftmesh/weft/node/api"
)

// Status is how the node is.
type Status struct {
	PeerID  string `json:"peerId"`
	AgentID string `json:"agentId"`
	// PID is the daemon's process.
	PID int `json:"pid"`
	// Uptime is in seconds.
	Uptime float64 `json:"uptime"`
	// Reachability is what AutoNAT found: public, private or unknown.
	Reachability string      `json:"reachability"`
	Addrs        []string    `json:"addrs"`
	Relays       []string    `json:"relays"`
	Peers        []PeerState `json:"peers"`
	// Sessions is how many workspace sessions are open.
	Sessions int         `json:"sessions"`
	Store    StoreStatus `json:"store"`
	Version  string      `json:"version"`
}

// PeerState is a peer that is connected now, or that should be.
type PeerState struct {
	PeerID string `json:"peerId"`
	// Name is the contact's, or "".
	Name      string `json:"name"`
	Connected bool   `json:"connected"`
	// Path is how it is connected, "" if it isn't.
	Path string `json:"path"`
	// Limited says that the path ends after a few bytes or minutes.
	Limited bool `json:"limited"`
	// Via is the address of the peer's end of the path.
	Via string `json:"via"`
	// RTT is the last round trip in milliseconds, 0 if none was measured.
	RTT float64 `json:"rtt"`
	// BytesIn and BytesOut count what weft's own protocols carried.
	BytesIn  uint64 `json:"bytesIn"`
	BytesOut uint64 `json:"bytesOut"`
}

// StoreStatus is the state of the store.
type StoreStatus struct {
	// Bytes is its size on disk.
	Bytes int64 `json:"bytes"`
}

// Status describes the node now.
func (n *Node) Status() Status {
	p := n.key.Public()
	s := Status{
		PeerID: string(p.PeerID()), AgentID: string(p.AgentID()), PID: os.Getpid(),
		Uptime:       time.Since(n.started).Seconds(),
		Reachability: n.host.Reachability(),
		Addrs:        list(n.host.Addrs()), Relays: list(n.host.Relays()),
		Peers: []PeerState{},
		Store: StoreStatus{Bytes: n.db.Size()}, Version: BuildInfo().Version,
	}
	for _, c := range n.host.Peers() {
		s.Peers = append(s.Peers, PeerState{PeerID: string(c.Peer.PeerID()), Name: n.book.Name(c.Peer),
			Connected: c.Connected, Path: string(c.Path), Limited: c.Limited, Via: c.Via,
			RTT: millis(c.RTT), BytesIn: c.BytesIn, BytesOut: c.BytesOut})
	}
	for _, c := range n.parts {
		if r, ok := c.(reporter); ok {
			r.Report(&s)
		}
	}
	return s
}

// millis is d in milliseconds, to the microsecond.
func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func (n *Node) getStatus(w http.ResponseWriter, _ *http.Request) error {
	return api.Reply(w, n.Status())
}

// routes adds the routes of the node itself.
func (n *Node) routes(m *api.Mux) {
	m.Handle("GET /v1/status", n.getStatus)
	m.Handle("GET /v1/netcheck", n.getNetcheck)
	m.Handle("GET /v1/doctor", n.getDoctor)
	m.Handle("GET /v1/peers", n.getPeers)
	m.Handle("POST /v1/peers", n.postPeer)
	m.Handle("PATCH /v1/peers/{peer}", n.patchPeer)
	m.Handle("DELETE /v1/peers/{peer}", n.deletePeer)
	m.Handle("GET /v1/resolve", n.getResolve)
	m.Handle("POST /v1/ping", n.postPing)
	m.Handle("POST /v1/relay-only", n.postRelayOnly)
	m.Handle("GET /metrics", n.getMetrics)
}
