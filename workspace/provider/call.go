package provider

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/weftmesh/weft/protocols/session"
	"github.com/weftmesh/weft/workspace"
	"github.com/weftmesh/weft/workspace/gate"
	"github.com/weftmesh/weft/workspace/tool"
)

// maxPending bounds the calls that one session has in flight.
const maxPending = 256

// Result is the requester's answer to a call, checked.
type Result struct {
	CallID  string
	Verdict string
	Code    string
	Kind    string
	MIME    string
	Body    []byte
	Seq     uint64 // of the last log record that came with it
}

// pending is one call in flight.
type pending struct {
	done     chan struct{}
	result   Result // set before done closes
	err      error
	progress func(n uint64, text string)
	open     opening
	msg      session.Message // as sent; to ask again after the requester restarted
}

// callRoundTrip is how much longer than a call's own deadline this side
// waits for the answer before it says that it doesn't know.
const callRoundTrip = 30 * time.Second

// Call sends one call and waits for its answer. Ending ctx cancels the call
// on the requester's side too. progress may be nil.
func (s *Session) Call(ctx context.Context, name string, args, content []byte, progress func(n uint64, text string)) (Result, error) {
	if s.over() {
		return Result{}, fmt.Errorf("%w: %s", ErrOver, s.State())
	}
	unique, err := uuid.NewV7() // its time tells the requester how old the call is
	if err != nil {
		return Result{}, fmt.Errorf("make a call id: %w", err)
	}
	id := unique.String()
	p := &pending{done: make(chan struct{}), progress: progress}
	s.mu.Lock()
	if len(s.pending) >= maxPending {
		s.mu.Unlock()
		r := workspace.Refuse(workspace.RateLimited, "%d calls of this session are in flight; wait for some to end", maxPending)
		return refusedHere(id, r), nil
	}
	s.pending[id] = p
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.pending, id)
		s.mu.Unlock()
	}()
	if err := s.sendCall(ctx, id, name, args, content, p); err != nil {
		return Result{}, err
	}
	var late <-chan time.Time
	if deadline, ok := ctx.Deadline(); ok {
		t := time.NewTimer(time.Until(deadline) + callRoundTrip)
		defer t.Stop()
		late = t.C
	}
	select {
	case <-p.done:
		return p.result, p.err
	case <-late:
		return Result{}, ErrDisconnected
	case <-ctx.Done():
		m, err := session.EncodeCancel(session.Cancel{ID: id})
		if err == nil && s.ctx.Err() == nil {
			stop, done := context.WithTimeout(s.ctx, time.Second)
			s.ch.Send(stop, m)
			done()
		}
		return Result{}, ctx.Err()
	case <-s.ctx.Done():
		return Result{}, ErrDisconnected
	}
}

// CallJSON is Call with the arguments as an agent gives them: an argument that
// travels as raw bytes is taken out. A tool that doesn't exist goes out too:
// the requester refuses and logs it.
func (s *Session) CallJSON(ctx context.Context, name string, args []byte) (Result, error) {
	var content []byte
	if spec, ok := tool.Lookup(name); ok {
		args, content = splitBody(spec, args)
	}
	return s.Call(ctx, name, args, content, nil)
}

// sendCall numbers, signs and queues a call. Numbers rise in the order of
// sending, and the signature covers the log head that this side has checked.
func (s *Session) sendCall(ctx context.Context, id, name string, args, content []byte, p *pending) error {
	s.sendMu.Lock()
	defer s.sendMu.Unlock()
	seq, err := s.nextSeq()
	if err != nil {
		return err
	}
	head := s.log.Head()
	call := session.Call{ID: id, Seq: seq, Tool: name, ArgsLen: len(args), Size: head.Size, Root: hex.EncodeToString(head.Root[:])}
	if deadline, ok := ctx.Deadline(); ok {
		call.DeadlineMS = max(1, time.Until(deadline).Milliseconds())
	}
	m, err := session.EncodeCall(call, append(append(make([]byte, 0, len(args)+len(content)), args...), content...))
	if err != nil {
		return fmt.Errorf("this call can't be sent: %w", err)
	}
	m = session.Sign(s.cfg.Key, s.id, m)
	s.mu.Lock()
	p.msg = m
	s.mu.Unlock()
	p.open = opening{Path: pathOf(name, args, content), Args: sumHex(args), Request: workspace.CallDigest(m.Header, m.Body, m.Sig)}
	if err := s.ch.Send(ctx, m); err != nil {
		return fmt.Errorf("send a call: %w", err)
	}
	return nil
}

// nextSeq takes the next call number. Numbers are reserved in the store in
// steps, so that none is used twice over a restart.
func (s *Session) nextSeq() (uint64, error) {
	s.mu.Lock()
	s.seq++
	seq, reserve := s.seq, s.seq > s.st.NextSeq
	s.mu.Unlock()
	if reserve {
		if err := s.change(func(st *stored) { st.NextSeq = seq + seqStep }); err != nil {
			return 0, fmt.Errorf("reserve call numbers: %w", err)
		}
	}
	return seq, nil
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
