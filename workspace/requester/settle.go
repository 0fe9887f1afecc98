package requester

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/weftmesh/weft/protocols/session"
	"github.com/weftmesh/weft/workspace/gate"
	"github.com/weftmesh/weft/workspace/receipt"
	"github.com/weftmesh/weft/workspace/sessionlog"
)

// join takes what the provider holds: from there on it gets the records. The
// first join opens the session.
func (s *Session) join(j session.Joined) error {
	cert, err := sessionlog.ParseCert(j.Cert)
	if err == nil {
		err = cert.Verify(s.id, sessionlog.RoleProvider, s.grant.Provider)
	}
	if err != nil {
		return err
	}
	if err := s.acknowledge(j.Size, j.Root); err != nil {
		s.goes(func() { s.End(s.ctx, gate.Aborted, "the provider holds another log than ours") })
		return fmt.Errorf("joined with another log: %w", err)
	}
	s.sendMu.Lock()
	s.joined, s.cursor = true, j.Size // before calls that waited run, so that their answers leave
	s.sendMu.Unlock()
	s.mu.Lock()
	opened := s.st.State == gate.Offered
	if opened {
		s.st.State = gate.Open
		close(s.resumed)
	}
	s.st.PeerCert = j.Cert
	over := s.st.State.Over()
	s.mu.Unlock()
	if err := s.persist(s.ctx); err != nil {
		return err
	}
	if opened {
		s.hub.publish(Event{State: string(gate.Open), Note: "the provider joined", Time: s.cfg.Now().UnixMilli()})
	}
	s.goes(func() {
		s.pushRecords()
		if over {
			s.queue(session.EncodeState(session.State{State: string(s.state()), Reason: oneLine(s.reason())}))
			s.goCheckpoint()
		}
	})
	return nil
}

// parties is who may sign checkpoints, as far as they have joined.
func (s *Session) parties() (sessionlog.Parties, error) {
	p := sessionlog.Parties{Session: s.id, Requester: s.grant.Requester, Provider: s.grant.Provider, Certs: []sessionlog.KeyCert{s.cert}}
	s.mu.Lock()
	raw := s.st.PeerCert
	s.mu.Unlock()
	if len(raw) == 0 {
		return p, nil
	}
	cert, err := sessionlog.ParseCert(raw)
	if err != nil {
		return p, err
	}
	p.Certs = append(p.Certs, cert)
	return p, nil
}

// goCheckpoint runs checkpoint beside the caller, one at a time: sending may
// wait for a provider that is away.
func (s *Session) goCheckpoint() {
	if !s.notes.CompareAndSwap(false, true) {
		return
	}
	if !s.goes(func() { defer s.notes.Store(false); s.checkpoint() }) {
		s.notes.Store(false)
	}
}

// checkpoint asks the provider to sign the present head. The records it
// covers go ahead of it.
func (s *Session) checkpoint() {
	s.pushRecords()
	s.sendMu.Lock()
	ready := s.joined
	s.sendMu.Unlock()
	if !ready {
		return
	}
	head := s.log.Head()
	note, err := sessionlog.SignCheckpoint(s.sub, s.id, s.cfg.Key.Public(), head)
	if err != nil {
		s.cfg.Log.Error("sign a checkpoint", "session", s.id, "err", err)
		return
	}
	s.mu.Lock()
	s.lastNote, s.noteAt = head.Size, s.cfg.Now()
	if s.unsigned.since.IsZero() && head.Size > s.st.Acked {
		s.unsigned = unsigned{size: head.Size, since: s.noteAt}
	}
	s.mu.Unlock()
	s.queue(session.EncodeCheckpoint(session.Checkpoint{Note: string(note)}))
}

// cosigned takes the provider's line for a checkpoint of ours.
func (s *Session) cosigned(c session.Cosign) error {
	p, err := s.parties()
	if err != nil {
		return err
	}
	head, err := s.log.HeadAt(c.Size)
	if err != nil {
		return err
	}
	note, err := sessionlog.SignCheckpoint(s.sub, s.id, s.cfg.Key.Public(), head)
	if err != nil {
		return err
	}
	whole, err := sessionlog.AddCosignature(note, c.Line, p)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.st.Checkpoint = string(whole)
	s.ackedLocked(c.Size)
	over := s.st.State.Over() && !s.st.Settled
	s.mu.Unlock()
	if err := s.persist(s.ctx); err != nil {
		return err
	}
	if over && c.Size == s.log.Head().Size {
		s.goes(func() {
			if err := s.writeReceipt(s.ctx); err != nil {
				s.cfg.Log.Error("write a receipt", "session", s.id, "err", err)
				return
			}
			s.queue(session.EncodeClosing(session.Closing{Receipt: s.Receipt()}))
		})
	}
	return nil
}

// writeReceipt builds and signs the receipt from the log: with the provider's
// cosignature when it covers the whole log, else with the count of records
// that it did not acknowledge.
func (s *Session) writeReceipt(ctx context.Context) error {
	s.receiptMu.Lock()
	defer s.receiptMu.Unlock()
	if s.Settled() {
		return nil
	}
	p, err := s.parties()
	if err != nil {
		return err
	}
	s.mu.Lock()
	checkpoint, acked := []byte(s.st.Checkpoint), s.st.Acked
	s.mu.Unlock()
	head := s.log.Head()
	if c, err := sessionlog.VerifyCheckpoint(checkpoint, p); err != nil || c.Head != head {
		if checkpoint, err = sessionlog.SignCheckpoint(s.sub, s.id, s.cfg.Key.Public(), head); err != nil {
			return err
		}
	}
	r, err := receipt.Build(s.log, p, checkpoint, acked)
	if err != nil {
		return fmt.Errorf("receipt of session %s: %w", s.id, err)
	}
	doc, err := r.Sign(s.cfg.Key)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.st.Receipt, s.st.Checkpoint = doc.Raw(), string(checkpoint)
	s.mu.Unlock()
	return s.persist(ctx)
}

// settle adds the provider's signature to the receipt.
func (s *Session) settle(c session.Closed) error {
	s.receiptMu.Lock()
	defer s.receiptMu.Unlock()
	raw := s.Receipt()
	if raw == nil {
		return errors.New("no receipt to sign yet")
	}
	both, err := receipt.AddCountersignature(raw, c.Sig)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.st.Receipt, s.st.Settled = both.Raw(), true
	s.mu.Unlock()
	if err := s.persist(s.ctx); err != nil {
		return err
	}
	s.hub.publish(Event{State: string(s.state()), Note: "both signed the receipt", Time: s.cfg.Now().UnixMilli()})
	return nil
}

// Receipt is the receipt's document, as far as it is signed; nil before the
// session has ended.
func (s *Session) Receipt() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.st.Receipt) == 0 { // as the store gives none back
		return nil
	}
	return s.st.Receipt
}

// Settled reports that nothing is left to exchange with the provider.
func (s *Session) Settled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.st.Settled
}

func (s *Session) reason() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.st.Reason
}

// recover finishes what a crash left: calls with an intent and no result have
// an unknown outcome, which both sides are told; an end whose receipt is
// missing gets it.
func (s *Session) recover(ctx context.Context) error {
	if err := s.readCalls(); err != nil {
		return err
	}
	for id, toolName := range s.log.OpenCalls() {
		st, found, err := s.known(id)
		if err != nil {
			return err
		}
		if !found {
			return fmt.Errorf("session %s: the log has call %s and the store has not; the store is damaged, restore it from a backup", s.id, id)
		}
		if err := s.concludeUnknown(ctx, id, toolName, st); err != nil {
			return err
		}
	}
	s.mu.Lock()
	state, reason, receipt := s.st.State, s.st.Reason, s.st.Receipt
	s.mu.Unlock()
	end := s.log.Totals().End
	switch {
	case end != "" && !state.Over(): // killed between the record and the state
		s.mu.Lock()
		s.st.State, s.st.Ended = stateOf(end), s.log.Totals().ClosedAt
		s.mu.Unlock()
		return s.writeReceipt(ctx)
	case end == "" && state.Over():
		rec := s.record(endRecords[state], sessionlog.Words(reason))
		if _, err := s.log.Append(ctx, []sessionlog.Record{rec}, nil); err != nil {
			return err
		}
		return s.writeReceipt(ctx)
	case end != "" && len(receipt) == 0:
		return s.writeReceipt(ctx)
	}
	return nil
}

func stateOf(t sessionlog.Type) gate.State {
	for state, typ := range endRecords {
		if typ == t {
			return state
		}
	}
	return gate.Aborted
}

// oneLine keeps a reason within what a message may carry.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < 0x20 || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, s)
	if len(s) > 200 {
		s = strings.ToValidUTF8(s[:200], "")
	}
	return s
}
