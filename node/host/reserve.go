package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	pbv2 "github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/pb"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/proto"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/util"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

const (
	// reserveWait bounds one reservation request. libp2p's own client waits a
	// minute, whatever its context says, which would stop our heartbeat.
	reserveWait = 5 * time.Second
	// maxHop is the largest message of circuit relay v2 (its specification).
	maxHop = 4096
	// renewUnknown is when to renew if the relay's clock and ours differ so
	// much that its expiry time says nothing.
	renewUnknown = 10 * time.Minute
	// sanityTTL is longer than any relay's reservation.
	sanityTTL = 24 * time.Hour
	// refusedMin and refusedMax bound the wait after a relay said no.
	refusedMin, refusedMax = 5 * time.Second, time.Minute
	// maxCircuits bounds our addresses through one relay.
	maxCircuits = 8
)

// reservation is our slot on one relay. Guarded by Host.mu.
type reservation struct {
	held    bool
	conn    network.Conn // on which it was made; the relay drops it with the last connection
	renewAt time.Time
	until   time.Time // by our clock
	limited bool
	addrs   []ma.Multiaddr // our circuit addresses
	retryAt time.Time      // after a refusal
	refused int            // refusals in a row
	problem string         // why not held, for the person
	skew    bool           // the relay's clock and ours differ by an hour or more
}

// renew makes or renews the reservation on a connected relay. It runs on w's
// goroutine.
func (h *Host) renew(ctx context.Context, w *wanted, ls []*link) {
	if h.cfg.Relay {
		return // who serves as a relay is reachable
	}
	i := slices.IndexFunc(ls, func(l *link) bool { return l.path.Direct() })
	if i < 0 {
		return // a relay behind a relay takes no reservations
	}
	l, now := ls[i], time.Now()
	h.mu.Lock()
	r := *w.res
	h.mu.Unlock()
	alive := slices.ContainsFunc(ls, func(l *link) bool { return l.conn == r.conn })
	if r.held && alive && now.Before(r.renewAt) || now.Before(r.retryAt) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, reserveWait)
	defer cancel()
	if !h.identified(ctx, l.conn) {
		return
	}
	if hop, err := h.p2p.Peerstore().SupportsProtocols(w.id, proto.ProtoIDv2Hop); err != nil || len(hop) == 0 {
		return // a bootstrap peer that is no relay
	}
	granted, err := h.reserve(ctx, w.id)
	switch {
	case err == nil:
		granted.conn = l.conn
		granted.addrs = h.circuits(w.id, l, granted.addrs)
		r = granted
		h.log.Debug("relay reserved", "relay", w.id, "until", r.until, "limited", r.limited)
	case ctx.Err() != nil || errors.Is(err, network.ErrNoConn):
		r = reservation{problem: "relay did not answer", refused: r.refused}
	default:
		r = reservation{problem: err.Error(), refused: r.refused + 1}
		r.retryAt = now.Add(jitter(min(refusedMin<<min(r.refused-1, 8), refusedMax)))
		h.log.Debug("relay refused", "relay", w.id, "err", err)
	}
	h.mu.Lock()
	w.res = &r
	h.mu.Unlock()
	h.publish()
}

// lostReservation forgets the slot when the relay is gone.
func (h *Host) lostReservation(w *wanted) {
	if !w.isRelay {
		return
	}
	h.mu.Lock()
	held := w.res.held
	if held {
		w.res = &reservation{problem: "relay is away, renewing"}
	}
	h.mu.Unlock()
	if held {
		h.publish()
	}
}

// reserve asks a relay for a slot (circuit relay v2, "Reservation"). The
// voucher in the answer is not checked, since nobody we talk to asks for one.
func (h *Host) reserve(ctx context.Context, relay peer.ID) (reservation, error) {
	s, err := h.p2p.NewStream(network.WithNoDial(ctx, "reserve"), relay, proto.ProtoIDv2Hop)
	if err != nil {
		return reservation{}, err
	}
	defer s.Reset()
	s.SetDeadline(time.Now().Add(reserveWait))
	stop := context.AfterFunc(ctx, func() { s.Reset() })
	defer stop()
	if err := util.NewDelimitedWriter(s).WriteMsg(&pbv2.HopMessage{Type: pbv2.HopMessage_RESERVE.Enum()}); err != nil {
		return reservation{}, fmt.Errorf("ask for a reservation: %w", err)
	}
	rd := util.NewDelimitedReader(s, maxHop)
	defer rd.Close()
	var msg pbv2.HopMessage
	if err := rd.ReadMsg(&msg); err != nil {
		return reservation{}, fmt.Errorf("read the relay's answer: %w", err)
	}
	return readReservation(&msg, time.Now())
}

// readReservation judges a relay's answer at time now.
func readReservation(msg *pbv2.HopMessage, now time.Time) (reservation, error) {
	if msg.GetType() != pbv2.HopMessage_STATUS {
		return reservation{}, errors.New("relay answered with another message")
	}
	switch st := msg.GetStatus(); st {
	case pbv2.Status_OK:
	case pbv2.Status_RESERVATION_REFUSED, pbv2.Status_RESOURCE_LIMIT_EXCEEDED:
		return reservation{}, errors.New("relay is full; try again later, use another, or have its owner add you")
	case pbv2.Status_PERMISSION_DENIED:
		return reservation{}, errors.New("relay does not serve us; have its owner add you")
	default:
		return reservation{}, fmt.Errorf("relay said %s", st)
	}
	rsvp := msg.GetReservation()
	if rsvp == nil {
		return reservation{}, errors.New("relay granted nothing")
	}
	r := reservation{held: true, limited: msg.GetLimit() != nil}
	// The expiry is absolute by the relay's clock. With ours an hour ahead
	// libp2p's client calls every answer an error and never holds a slot.
	ttl := time.Unix(int64(min(rsvp.GetExpire(), 1<<40)), 0).Sub(now)
	if ttl <= 0 || ttl > sanityTTL {
		r.skew = true
		ttl = 2 * renewUnknown
	}
	r.until, r.renewAt = now.Add(ttl), now.Add(ttl/2)
	for _, raw := range rsvp.GetAddrs()[:min(len(rsvp.GetAddrs()), 2*maxCircuits)] {
		if a, err := ma.NewMultiaddrBytes(raw); err == nil {
			if a, _ := peer.SplitAddr(a); a != nil {
				r.addrs = append(r.addrs, a)
			}
		}
	}
	return r, nil
}

// circuits are our addresses through the relay: by the addresses the owner
// gave for it, the one we are connected by, and those it vouches for.
func (h *Host) circuits(relay peer.ID, l *link, vouched []ma.Multiaddr) []ma.Multiaddr {
	h.mu.Lock()
	bases := slices.Clone(h.given[relay])
	h.mu.Unlock()
	if !l.inbound {
		bases = append(bases, l.conn.RemoteMultiaddr())
	}
	local := manet.IsIPLoopback(l.conn.RemoteMultiaddr())
	for _, a := range vouched {
		if pathOf(a) != Relay && (local || !manet.IsIPLoopback(a)) {
			bases = append(bases, a)
		}
	}
	suffix, err := ma.NewMultiaddr("/p2p/" + relay.String() + "/p2p-circuit")
	if err != nil {
		return nil
	}
	var out []ma.Multiaddr
	for _, a := range unique(bases)[:min(len(unique(bases)), maxCircuits)] {
		out = append(out, a.Encapsulate(suffix))
	}
	return out
}

// publish tells libp2p, and so every connected peer, our circuit addresses.
func (h *Host) publish() {
	h.mu.Lock()
	var all []ma.Multiaddr
	for _, w := range h.wanted {
		if w.isRelay && w.res.held {
			all = append(all, w.res.addrs...)
		}
	}
	h.mu.Unlock()
	slices.SortFunc(all, ma.Multiaddr.Compare)
	if old := h.circuit.Swap(&all); old != nil && slices.EqualFunc(*old, all, ma.Multiaddr.Equal) {
		return
	}
	// The event makes libp2p build its address list, signed record and
	// identify push now instead of at its next 5 s tick.
	if err := h.emitter.Emit(event.EvtAutoRelayAddrsUpdated{RelayAddrs: all}); err != nil {
		h.log.Debug("address update not told", "err", err)
	}
}
