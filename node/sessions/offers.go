package sessions

import (
	"context"
	"errors"
	"time"

	"github.com/weftmesh/weft/node/api"
	"github.com/weftmesh/weft/node/host"
	"github.com/weftmesh/weft/protocols/identity"
	"github.com/weftmesh/weft/protocols/offer"
	"github.com/weftmesh/weft/store"
	"github.com/weftmesh/weft/workspace/gate"
	"github.com/weftmesh/weft/workspace/grant"
	"github.com/weftmesh/weft/workspace/provider"
	"github.com/weftmesh/weft/workspace/requester"
)

// Bounds of unanswered offers. Peers that the person added have room of their
// own, so strangers can't crowd them out.
const (
	maxOffersPerPeer = 8
	maxOffers        = 64
	offerRetry       = 15 * time.Second
)

// received is an offer that waits for the person.
type received struct {
	Grant []byte `json:"grant"`
	At    int64  `json:"at"`
}

var offers = store.NewCollection[received]("offers")

// deliverOffer sends a grant until the provider has it or the session moved
// on.
func (d *Desk) deliverOffer(s *requester.Session) {
	backoff := 200 * time.Millisecond
	for s.View().State == gate.Offered {
		nudged := d.nudged()
		reply, err := d.sendOffer(s)
		switch {
		case err == nil && (reply.Outcome == offer.Received || reply.Outcome == offer.Known):
			return
		case err == nil && reply.Outcome == offer.Refused:
			s.End(d.ctx, gate.Closed, "the provider's weft refused the offer: "+reply.Hint)
			return
		case err == nil:
			backoff = offerRetry
		default:
			d.cfg.Log.Debug("offer not delivered yet", "session", s.ID(), "err", err)
		}
		if !d.wait(nudged, backoff) {
			return
		}
		backoff = min(2*backoff, offerRetry)
	}
}

func (d *Desk) sendOffer(s *requester.Session) (offer.Reply, error) {
	st, _, err := d.cfg.Host.Open(d.ctx, s.Grant().Provider, offer.Protocol)
	if err != nil {
		return offer.Reply{}, err
	}
	return offer.Call(st, s.Document())
}

// serveOffer keeps a received grant for the person to decide.
func (d *Desk) serveOffer(ctx context.Context, from identity.PublicKey, st host.Stream, _ host.Path) {
	err := offer.Serve(st, func(raw []byte) offer.Reply {
		g, _, err := grant.Open(raw, d.cfg.Key.Public(), d.cfg.Now())
		if err != nil {
			return offer.Reply{Outcome: offer.Refused, Hint: err.Error()}
		}
		if g.Requester != from {
			return offer.Reply{Outcome: offer.Refused, Hint: "a grant is offered by its requester"}
		}
		return d.receive(ctx, g, raw)
	})
	if err != nil {
		d.cfg.Log.Debug("offer not received", "peer", from, "err", err)
	}
}

// errFull ends the transaction of an offer that has no room.
var errFull = errors.New("too many unanswered offers")

func (d *Desk) receive(ctx context.Context, g grant.Grant, raw []byte) offer.Reply {
	outcome := offer.Received
	err := d.cfg.DB.Update(ctx, func(tx *store.Tx) error {
		if known, err := d.knows(tx, g.Session); err != nil {
			return err
		} else if known {
			outcome = offer.Known
			return nil
		}
		var peers, strangers int
		now := d.cfg.Now()
		err := offers.Each(tx, "", func(key string, o received) error {
			og, _, err := grant.Read(o.Grant)
			if err != nil || !now.Before(og.ExpiresAt()) {
				return offers.Delete(tx, key)
			}
			if og.Requester == g.Requester {
				peers++
			}
			if !d.cfg.Known(og.Requester) {
				strangers++
			}
			return nil
		})
		if err != nil {
			return err
		}
		if peers >= maxOffersPerPeer || (strangers >= maxOffers && !d.cfg.Known(g.Requester)) {
			return errFull
		}
		return offers.Put(tx, g.Session, received{Grant: raw, At: now.UnixMilli()})
	})
	switch {
	case errors.Is(err, errFull):
		return offer.Reply{Outcome: offer.Busy, Hint: "too many unanswered offers; the other side has to answer some"}
	case err != nil:
		d.cfg.Log.Debug("offer not kept", "err", err)
		return offer.Reply{Outcome: offer.Busy, Hint: "the offer could not be kept; try again later"}
	}
	return offer.Reply{Outcome: outcome}
}

// knows reports whether a session id is taken here already.
func (d *Desk) knows(tx *store.Tx, id string) (bool, error) {
	if ok, err := offers.Has(tx, id); ok || err != nil {
		return ok, err
	}
	if ok, err := provider.Has(tx, id); ok || err != nil {
		return ok, err
	}
	return requester.Has(tx, id)
}

// accept turns an offer into a session, in one transaction: it is accepted
// once, whoever asks at the same time and wherever a crash falls.
func (d *Desk) accept(ctx context.Context, id string) (*providing, error) {
	id, err := d.fullID(id, true)
	if err != nil {
		return nil, err
	}
	var o received
	err = d.cfg.DB.View(func(tx *store.Tx) (err error) {
		o, err = offers.Get(tx, id)
		return err
	})
	if err == nil {
		err = d.stillOpen(o.Grant)
	}
	var s *provider.Session
	if err == nil {
		s, err = provider.Accept(ctx, d.providerConfig(), o.Grant, func(tx *store.Tx) error { return offers.Delete(tx, id) })
	}
	switch {
	case errors.Is(err, grant.ErrExpired):
		return nil, api.Errorf(api.Conflict, "the offer has expired").WithCode("expired").Try("ask the requester to share again")
	case errors.Is(err, store.ErrNotFound), errors.Is(err, provider.ErrTaken):
		s, err := d.find(ctx, id)
		if err != nil {
			return nil, err
		}
		s.free()
		return nil, api.Errorf(api.Conflict, "session %s is not waiting for an answer", short(id)).Try("weft session show %s", id)
	case err != nil:
		return nil, err
	}
	return d.provide(s), nil
}

// stillOpen refuses an offer whose time is up. There is no allowance for
// clocks here: nothing could be done in the session.
func (d *Desk) stillOpen(raw []byte) error {
	g, _, err := grant.Read(raw)
	if err == nil && !d.cfg.Now().Before(g.ExpiresAt()) {
		err = grant.ErrExpired
	}
	return err
}
