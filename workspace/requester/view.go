package requester

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weftmesh/weft/protocols/identity"
	"github.com/weftmesh/weft/store"
	"github.com/weftmesh/weft/workspace/gate"
	"github.com/weftmesh/weft/workspace/grant"
	"github.com/weftmesh/weft/workspace/receipt"
	"github.com/weftmesh/weft/workspace/sessionlog"
)

// Brief is a kept session in short.
type Brief struct {
	ID      string
	Grant   grant.Grant
	State   gate.State
	Settled bool
}

// settleFor is how long a provider may take to sign the receipt of an ended
// session before it is given up; the receipt then says what it did not sign.
const settleFor = 24 * time.Hour

// List returns the kept sessions without opening them.
func List(db *store.DB) (all []Brief, err error) {
	err = db.View(func(tx *store.Tx) error {
		return sessions.Each(tx, "", func(key string, st stored) error {
			g, _, err := grant.Read(st.Grant)
			if err != nil {
				return fmt.Errorf("session %s: %w", key, err)
			}
			all = append(all, Brief{ID: key, Grant: g, State: st.State, Settled: st.Settled || givenUp(st, time.Now())})
			return nil
		})
	})
	return all, err
}

func givenUp(st stored, now time.Time) bool {
	return st.State.Over() && st.Ended > 0 && now.Sub(time.UnixMilli(st.Ended)) > settleFor
}

// Has reports whether a session is kept.
func Has(tx *store.Tx, id string) (bool, error) { return sessions.Has(tx, id) }

// Ended reports whether a kept session has nothing left to exchange with its
// provider.
func Ended(db *store.DB, id string) (provider identity.PublicKey, ended bool, err error) {
	err = db.View(func(tx *store.Tx) error {
		st, err := sessions.Get(tx, id)
		if err != nil {
			return err
		}
		g, _, err := grant.Read(st.Grant)
		provider, ended = g.Provider, st.State.Over() && (st.Settled || givenUp(st, time.Now()))
		return err
	})
	return provider, ended, err
}

// GivenUp reports that the provider had its time to sign and did not.
func (s *Session) GivenUp() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return givenUp(s.st, s.cfg.Now())
}

// Document is the signed grant.
func (s *Session) Document() []byte { return s.doc.Raw() }

// Log is the session log.
func (s *Session) Log() *sessionlog.Log { return s.log }

// Watch returns a queue of events and its end.
func (s *Session) Watch() (<-chan Event, func()) { return s.hub.subscribe() }

// View is what `weft session show` says on this side.
type View struct {
	State   gate.State
	Reason  string
	Used    gate.Used
	Totals  sessionlog.Totals
	Head    sessionlog.Head
	Acked   uint64
	Running int
	Sandbox string
	Dirs    map[string]string
	Opened  time.Time
}

// View returns the session's present numbers.
func (s *Session) View() View {
	s.mu.Lock()
	v := View{State: s.st.State, Reason: s.st.Reason, Acked: s.st.Acked, Running: len(s.hands),
		Sandbox: s.st.Sandbox, Dirs: s.st.Dirs, Opened: time.UnixMilli(s.st.Opened)}
	s.mu.Unlock()
	v.Used, v.Totals, v.Head = s.meter.Used(), s.log.Totals(), s.log.Head()
	return v
}

// PathChanged records how the provider is connected now.
func (s *Session) PathChanged(before, after string) {
	note := after
	if before != "" {
		note = before + " to " + after
	}
	if !s.enter() { // the log is complete
		return
	}
	defer s.leave()
	if _, err := s.log.Append(s.ctx, []sessionlog.Record{s.record(sessionlog.Path, sessionlog.Words(note))}, nil); err != nil {
		s.storeFailed(err)
		return
	}
	s.hub.publish(Event{State: string(s.state()), Note: note, Time: s.cfg.Now().UnixMilli()})
}

// Prove makes the proof of one record, disclosing what it names. Before the
// session has ended it stands under the newest checkpoint that covers it.
func (s *Session) Prove(ctx context.Context, seq uint64) ([]byte, error) {
	p, err := s.parties()
	if err != nil {
		return nil, err
	}
	leaves, err := s.log.Leaves(seq, 1)
	if err != nil || len(leaves) == 0 {
		return nil, errors.Join(fmt.Errorf("%w: record %d; the log has %d", store.ErrNotFound, seq, s.log.Head().Size), err)
	}
	rec, err := sessionlog.Decode(leaves[0])
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	checkpoint := []byte(s.st.Checkpoint)
	s.mu.Unlock()
	if c, err := sessionlog.VerifyCheckpoint(checkpoint, p); err != nil || c.Head.Size <= seq {
		if checkpoint, err = sessionlog.SignCheckpoint(s.sub, s.id, s.cfg.Key.Public(), s.log.Head()); err != nil {
			return nil, err
		}
	}
	var v sessionlog.Values
	if rec.Call != "" {
		st, found, err := s.known(rec.Call)
		if err != nil {
			return nil, err
		}
		if found && rec.Type == sessionlog.Call && st.Intent == seq {
			v = sessionlog.Values{Path: []byte(st.Path), Args: []byte(st.Args), Request: []byte(st.Digest)}
		}
	}
	return receipt.Prove(s.log, p, checkpoint, seq, s.logKey, v)
}

// GrantHash is the digest of the signed grant, in hex.
func (s *Session) GrantHash() string { return grant.Digest(s.doc) }
