package provider

import (
	"context"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/weftmesh/weft/protocols/session"
	"github.com/weftmesh/weft/workspace"
	"github.com/weftmesh/weft/workspace/tool"
)

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

// longestWait is how long a call without a deadline of its own waits for its
// answer: as long as the requester would still run it when it arrives (its
// longest tool, and the skew of two clocks).
const longestWait = 12 * time.Minute

// Call sends one call and waits for its answer. Ending ctx cancels the call
// on the requester's side too. progress may be nil; it is called from here, so
// a slow one holds up nobody else.
func (s *Session) Call(ctx context.Context, name string, args, content []byte, progress func(n uint64, text string)) (Result, error) {
	unique, err := uuid.NewV7() // its time tells the requester how old the call is
	if err != nil {
		return Result{}, fmt.Errorf("make a call id: %w", err)
	}
	id := unique.String()
	if s.log.Err() != nil {
		return refusedHere(id, workspace.Refuse(workspace.LogUnavailable, "%v", ErrStore)), nil
	}
	p, refusal, err := s.begin(id)
	if err != nil {
		return Result{}, err
	}
	if refusal != nil {
		return refusedHere(id, refusal), nil
	}
	defer s.forget(id)
	if err := s.sendCall(ctx, id, name, args, content, p); err != nil {
		return Result{}, err
	}
	late := time.NewTimer(s.longest)
	defer late.Stop()
	for shown := uint64(0); ; {
		select {
		case n := <-p.notes:
			if progress != nil && n.N > shown {
				shown = n.N
				progress(n.N, n.Text)
			}
			continue
		case <-p.done:
			return p.result, p.err
		case <-late.C:
			s.giveUp(id)
			return Result{}, ErrDisconnected
		case <-ctx.Done():
			s.giveUp(id)
			return Result{}, ctx.Err()
		case <-s.ctx.Done():
			return Result{}, ErrDisconnected
		}
	}
}

// giveUp tells the requester that nobody waits for a call any more.
func (s *Session) giveUp(id string) {
	s.abandon(id)
	m, err := session.EncodeCancel(session.Cancel{ID: id})
	if err != nil {
		return
	}
	ctx, done := context.WithTimeout(s.ctx, time.Second)
	defer done()
	if err := s.ch.Send(ctx, m); err != nil {
		s.cfg.Log.Debug("not sent", "session", s.id, "kind", m.Kind.String(), "err", err)
	}
}

// CallJSON is Call with the arguments as an agent gives them: an argument that
// travels as raw bytes is taken out. A tool that doesn't exist goes out too:
// the requester refuses and logs it.
func (s *Session) CallJSON(ctx context.Context, name string, args []byte) (Result, error) {
	var content []byte
	if spec, ok := tool.Lookup(name); ok {
		var missing bool
		if args, content, missing = splitBody(spec, args); missing {
			return refusedHere("", missingBody(spec)), nil
		}
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
	open := opening{Path: pathOf(name, args, content), Args: sumHex(args), Request: workspace.CallDigest(m.Header, m.Body, m.Sig)}
	s.mu.Lock()
	p.msg, p.open = m, open
	s.mu.Unlock()
	if err := s.ch.Send(ctx, m); err != nil {
		return fmt.Errorf("send a call: %w", err)
	}
	return nil
}

// nextSeq takes the next call number; s.sendMu is held. Numbers are reserved
// in the store in steps, durable before the first of them is used, so that
// none is used twice over a restart.
func (s *Session) nextSeq() (uint64, error) {
	seq := s.seq + 1
	if seq > s.reserved {
		if err := s.change(func(st *stored) { st.NextSeq = seq + seqStep }); err != nil {
			return 0, fmt.Errorf("reserve call numbers: %w", err)
		}
		s.reserved = seq + seqStep
	}
	s.seq = seq
	return seq, nil
}
