package provider

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/weftmesh/weft/protocols/session"
	"github.com/weftmesh/weft/workspace"
	"github.com/weftmesh/weft/workspace/gate"
	"github.com/weftmesh/weft/workspace/sessionlog"
)

// maxPending bounds the calls that one session has in flight, and the given-up
// ones whose openings are kept until their result is in the log.
const maxPending = 256

// maxNotes is how much progress waits for a slow reader; more is dropped, the
// result repeats what matters.
const maxNotes = 32

// pending is one call in flight.
type pending struct {
	done   chan struct{}
	result Result // set before done closes
	err    error
	notes  chan session.Progress

	// guarded by Session.mu
	open opening
	msg  session.Message    // as sent; to ask again after the requester restarted
	said *sessionlog.Record // what the log says of the call: how it ended
}

// begin puts a new call among those in flight.
func (s *Session) begin(id string) (*pending, *workspace.Refusal, error) {
	p := &pending{done: make(chan struct{}), notes: make(chan session.Progress, maxNotes)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if state := gate.State(s.st.State); state.Over() {
		return nil, nil, over(state)
	}
	if len(s.pending) >= maxPending {
		return nil, workspace.Refuse(workspace.RateLimited, "%d calls of this session are in flight; wait for some to end", maxPending), nil
	}
	s.pending[id] = p
	return p, nil, nil
}

func (s *Session) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pending, id)
}

// abandon takes a call out of flight and keeps what opens its log records.
func (s *Session) abandon(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.pending[id]; p != nil && len(s.left) < maxPending {
		s.left[id] = p.open
	}
	delete(s.pending, id)
}

// askAgain sends every call in flight once more, after the requester
// restarted: an answer that was durable and not yet delivered is sent again,
// a call that never arrived runs now, and none runs twice.
func (s *Session) askAgain() {
	s.mu.Lock()
	var again []session.Message
	for _, p := range s.pending {
		if p.msg.Kind != 0 {
			again = append(again, p.msg)
		}
	}
	s.mu.Unlock()
	for _, m := range again {
		s.queue(m, nil)
	}
}

// failAll ends every call in flight.
func (s *Session) failAll(err error) {
	s.mu.Lock()
	all := s.pending
	s.pending = map[string]*pending{}
	s.mu.Unlock()
	for _, p := range all {
		p.err = err
		close(p.done)
	}
}

// refuseAll answers every call in flight with one refusal.
func (s *Session) refuseAll(r *workspace.Refusal) {
	s.mu.Lock()
	all := s.pending
	s.pending = map[string]*pending{}
	s.mu.Unlock()
	for id, p := range all {
		p.result = refusedHere(id, r)
		close(p.done)
	}
}

// refusedHere is a refusal that needs no round trip.
func refusedHere(id string, r *workspace.Refusal) Result {
	return Result{CallID: id, Verdict: "denied", Code: string(r.Code), Kind: "text", Body: []byte(r.Error())}
}

// refusalFor is what an ended session says.
func refusalFor(state gate.State) *workspace.Refusal {
	if state == gate.Lapsed {
		return workspace.Refuse(workspace.Expired, "the session's time is up; ask the requester for a new one")
	}
	return workspace.Refuse(workspace.Killed, "the session is over; ask the requester for a new one")
}

func sumHex(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
