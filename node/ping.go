package node

import (
	"context"
	"net/http"
	"time"

	"github.com/weftmesh/weft/node/api"
	"github.com/weftmesh/weft/node/host"
	"github.com/weftmesh/weft/protocols/identity"
)

// Ping is the body of POST /v1/ping.
type Ping struct {
	// Peer is spelled in any way.
	Peer string `json:"peer"`
	// Count is how many pings to send; 0 goes on until the client leaves.
	Count int `json:"count"`
	// Interval is the time between pings in milliseconds; at least 10.
	Interval int64 `json:"interval"`
}

// PingEvent is one event of a ping.
type PingEvent struct {
	// Event is reply, lost or path.
	Event string `json:"event"`
	// Seq counts the pings from 1; it is 0 with path.
	Seq int `json:"seq"`
	// Path is how the peer is connected now, "" if it isn't.
	Path string `json:"path"`
	// From is the path before, with path.
	From string `json:"from"`
	// RTT is in milliseconds, with reply.
	RTT float64 `json:"rtt"`
	// Error says why, with lost.
	Error string `json:"error"`
}

// pingWait is how long one ping may take, the dial included.
const pingWait = 10 * time.Second

// minInterval keeps a mistyped interval from flooding the peer.
const minInterval = 10 * time.Millisecond

func (n *Node) postPing(w http.ResponseWriter, r *http.Request) error {
	in, err := api.Decode[Ping](r)
	if err != nil {
		return err
	}
	id, err := n.Resolve(in.Peer)
	if err != nil {
		return err
	}
	if id == n.key.Public() {
		return api.Errorf(api.Invalid, "that is this node itself").Try("ping another peer")
	}
	interval := time.Duration(in.Interval) * time.Millisecond
	if in.Count < 0 || interval < minInterval || interval > time.Hour {
		return api.Errorf(api.Invalid, "want a count of 0 or more and an interval of %v to 1h", minInterval).Try("weft ping --help")
	}
	return api.Stream(w, r, func(ctx context.Context, send func(any) error) error {
		return n.ping(ctx, id, in.Count, interval, send)
	})
}

// ping sends pings, and says each change of path as it happens.
func (n *Node) ping(ctx context.Context, id identity.PublicKey, count int, interval time.Duration, send func(any) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events := n.host.Subscribe(ctx)
	var path host.Path
	moved := func(to host.Path) error {
		from := path
		path = to
		if from == to || from == "" {
			return nil // the first reply says the first path
		}
		return send(PingEvent{Event: "path", Path: string(to), From: string(from)})
	}
	replies := 0
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for seq := 1; ; seq++ {
		rtt, on, err := n.pingOnce(ctx, id)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			err = send(PingEvent{Event: "lost", Seq: seq, Path: string(path), Error: err.Error()})
		} else {
			replies++
			if err = moved(on); err == nil {
				err = send(PingEvent{Event: "reply", Seq: seq, Path: string(on), RTT: millis(rtt)})
			}
		}
		if err != nil {
			return err
		}
		if seq == count {
			break
		}
		for waiting := true; waiting; {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
				waiting = false
			case e, ok := <-events:
				if !ok {
					events = nil
				} else if e.Peer == id && e.Connected {
					if err := moved(e.Path); err != nil {
						return err
					}
				}
			}
		}
	}
	if replies == 0 {
		return api.Errorf(api.Unreachable, "no reply from %s", id).
			Try("check that it is running, give an address of it (weft peer add MULTIADDR), or look at weft netcheck")
	}
	return nil
}

func (n *Node) pingOnce(ctx context.Context, id identity.PublicKey) (time.Duration, host.Path, error) {
	ctx, cancel := context.WithTimeout(ctx, pingWait)
	defer cancel()
	return n.host.Ping(ctx, id)
}
