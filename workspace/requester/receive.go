package requester

import (
	"context"
	"encoding/hex"
	"errors"
	"time"

	"github.com/weftmesh/weft/protocols/session"
	"github.com/weftmesh/weft/workspace"
	"github.com/weftmesh/weft/workspace/gate"
	"github.com/weftmesh/weft/workspace/grant"
	"github.com/weftmesh/weft/workspace/sessionlog"
)

// receive reads the channel until it closes. Messages that a provider must
// not send, or that don't decode, are dropped: the channel is authenticated,
// so only a broken provider sends them, and it gets no answer to probe with.
func (s *Session) receive() {
	s.welcome()
	for {
		d, err := s.ch.Receive(s.ctx)
		if err != nil {
			return
		}
		if err := s.dispatch(d); err != nil {
			s.cfg.Log.Debug("message dropped", "session", s.id, "kind", d.Kind.String(), "err", err)
			d.Done()
		}
	}
}

// dispatch takes one message. It owns d.Done unless it returns an error.
func (s *Session) dispatch(d *session.Delivery) error {
	switch d.Kind {
	case session.KindCall:
		return s.admit(d)
	case session.KindCancel:
		c, err := session.DecodeCancel(d.Message)
		if err != nil {
			return err
		}
		s.mu.Lock()
		h := s.hands[c.ID]
		s.mu.Unlock()
		if h != nil {
			h.cancel()
		}
	case session.KindJoined:
		j, err := session.DecodeJoined(d.Message)
		if err != nil {
			return err
		}
		if err := s.join(j); err != nil {
			return err
		}
	case session.KindCosign:
		c, err := session.DecodeCosign(d.Message)
		if err != nil {
			return err
		}
		if err := s.cosigned(c); err != nil {
			return err
		}
	case session.KindLeave:
		l, err := session.DecodeLeave(d.Message)
		if err != nil {
			return err
		}
		s.goes(func() { s.End(s.ctx, gate.Closed, "the provider left: "+l.Reason) })
	case session.KindClosed:
		c, err := session.DecodeClosed(d.Message)
		if err != nil {
			return err
		}
		if err := s.settle(c); err != nil {
			return err
		}
	default:
		return errors.New("not a message for a requester")
	}
	d.Done()
	return nil
}

// admit checks that a call is this provider's and new, then runs it beside
// the others. The sequence of calls is checked here, in the order of arrival.
func (s *Session) admit(d *session.Delivery) error {
	c, err := session.DecodeCall(d.Message)
	if err != nil {
		return s.refuseUnreadable(d, err)
	}
	if session.Verify(s.grant.Provider, s.id, d.Message) != nil {
		return s.refuseUnreadable(d, errors.New("the signature of the call is not the provider's"))
	}
	digest := workspace.CallDigest(d.Header, d.Body, d.Sig)
	s.mu.Lock()
	h, taken := s.hands[c.ID]
	if taken && h.digest == digest { // sent twice, by the channel and by askAgain; one answer is enough
		h.again = h.sent // which may have left before the provider listened
		s.mu.Unlock()
		d.Done()
		return nil
	}
	fresh := false
	if taken {
		h = &hand{digest: digest, ctx: s.ctx, cancel: func() {}}
	} else {
		h = s.newHand(digest, c)
		s.hands[c.ID] = h
		fresh = s.numbers.take(c.Seq)
	}
	s.mu.Unlock()
	started := s.goes(func() {
		s.handle(d, c, h, fresh, taken)
		h.cancel()
		for !taken && s.letGo(c.ID, h) {
			s.sayAgain(c.ID)
		}
	})
	if !started {
		h.cancel() // not acknowledged: the provider sends it again
	}
	return nil
}

// newHand starts a call's time.
func (s *Session) newHand(digest string, c session.Call) *hand {
	h := &hand{digest: digest}
	if c.DeadlineMS > 0 {
		h.ctx, h.cancel = context.WithTimeout(s.ctx, time.Duration(c.DeadlineMS)*time.Millisecond)
	} else {
		h.ctx, h.cancel = context.WithCancel(s.ctx)
	}
	return h
}

// letGo takes a call out of hand; true instead if it came again meanwhile,
// after its answer was on its way.
func (s *Session) letGo(id string, h *hand) (again bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.again {
		h.again, h.sent = false, false
		return true
	}
	delete(s.hands, id)
	return false
}

// refuseUnreadable logs a call that has no readable name to answer to. The
// channel is authenticated, so only a broken or hostile provider sends such;
// one that goes on with it loses the session.
func (s *Session) refuseUnreadable(d *session.Delivery, why error) error {
	if !s.garbage.AllowN(s.cfg.Now(), 1) {
		s.goes(func() { s.End(s.ctx, gate.Aborted, "the provider sends what is no call") })
		return why
	}
	if !s.enter() { // the log is complete
		return why
	}
	defer s.leave()
	r := s.meter.Take(gate.Reads, s.cfg.Now())
	if r == nil {
		r = workspace.Refuse(workspace.BadArguments, "%v", why)
	}
	rec := s.record(sessionlog.Call, "not a readable call")
	rec.Call, rec.Tool, rec.Verdict, rec.Code = "unreadable", sessionlog.UnknownTool, sessionlog.Denied, string(r.Code)
	if _, err := s.log.Append(s.ctx, []sessionlog.Record{rec}, nil); err != nil {
		s.storeFailed(err)
		return why
	}
	s.meter.Done(true, 0, 0, 0)
	s.countRefusal()
	return why
}

// welcome tells the provider what it needs to hold its copy of the log. It is
// the first message of each life of this process.
func (s *Session) welcome() {
	cert, err := s.cert.Encode()
	if err != nil {
		s.cfg.Log.Error("encode a certificate", "session", s.id, "err", err)
		return
	}
	h, key, state := s.log.Head(), s.sub.Public(), s.state()
	if state == gate.Offered {
		state = gate.Open
	}
	s.queue(session.EncodeWelcome(session.Welcome{
		LogKey: hex.EncodeToString(key[:]), Cert: cert, Grant: grant.Digest(s.doc), Salt: s.logKey.Hex(),
		Size: h.Size, Root: hex.EncodeToString(h.Root[:]), State: string(state),
	}))
}

// queue sends a control message, or says at debug level why not.
func (s *Session) queue(m session.Message, err error) {
	if err == nil {
		err = s.ch.Send(s.ctx, m)
	}
	if err != nil {
		s.cfg.Log.Debug("not sent", "session", s.id, "kind", m.Kind.String(), "err", err)
	}
}
