package requester

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/weftmesh/weft/protocols/session"
	"github.com/weftmesh/weft/store"
	"github.com/weftmesh/weft/workspace"
	"github.com/weftmesh/weft/workspace/gate"
	"github.com/weftmesh/weft/workspace/sessionlog"
	"github.com/weftmesh/weft/workspace/tool"
)

// verdictOf turns a tool's error into what the log and the provider see.
func verdictOf(err error) (verdict, code, text string) {
	var refusal *workspace.Refusal
	var failure *workspace.Failure
	switch {
	case err == nil:
		return "ok", "", ""
	case errors.As(err, &refusal):
		return "denied", string(refusal.Code), refusal.Error()
	case errors.As(err, &failure):
		return "failed", failure.Reason, failure.Error()
	default: // a tool's own fault; its text may name a host path, so it stays here
		return "failed", "internal", "FAILED internal: the requester's machine could not do this; its log says why"
	}
}

// answerOf is what the provider gets for a tool's outcome.
func answerOf(out tool.Output, err error) answer {
	verdict, code, text := verdictOf(err)
	if err != nil {
		return answer{Verdict: verdict, Code: code, Kind: "text", Body: []byte(text)}
	}
	return answer{Verdict: verdict, Kind: out.Kind, MIME: out.MIME, Body: out.Body}
}

// finish makes the result durable and sends it.
func (s *Session) finish(j *job, out tool.Output, err error) {
	j.answer = answerOf(out, err)
	if j.answer.Code == "internal" {
		s.cfg.Log.Warn("tool failed", "session", s.id, "tool", j.call.Tool, "err", err)
	}
	err = s.conclude(s.ctx, j, out)
	if errors.Is(err, sessionlog.ErrRecord) { // the end was recorded first
		j.answer = answer{Verdict: string(sessionlog.Unknown), Code: string(workspace.Killed), Kind: "text",
			Body: []byte("FAILED unknown: the session ended while this call ran; it may or may not have been done")}
		out = tool.Output{Written: out.Written}
		err = s.concludeLate(s.ctx, j)
	}
	if err != nil {
		s.meter.Done(false, 0, out.Written, j.reserved)
		s.storeFailed(err)
		return
	}
	s.answered(j, j.answer, out)
}

// answered counts, shows and sends an answer that is durable.
func (s *Session) answered(j *job, a answer, out tool.Output) {
	denied := a.Verdict == string(sessionlog.Denied)
	read := int64(len(a.Body))
	if denied {
		read = 0
	}
	s.meter.Done(denied, read, out.Written, j.reserved)
	if denied && a.Code != string(workspace.RateLimited) { // too fast is not hostile
		s.countRefusal()
	}
	now := s.cfg.Now()
	s.hub.publish(Event{Seq: j.seq, Tool: j.tool(), Verdict: a.Verdict, Code: a.Code, Path: j.path,
		MS: now.Sub(j.began).Milliseconds(), Bytes: int64(len(a.Body)), Warning: out.Warning, Time: now.UnixMilli()})
	s.deliver(j.call.ID, a)
}

// result makes the result record of a call.
func (s *Session) result(j *job, out tool.Output) sessionlog.Record {
	a := &j.answer
	rec := s.record(sessionlog.Result, "")
	rec.Call, rec.Tool, rec.Verdict, rec.Code = j.call.ID, j.tool(), sessionlog.Verdict(a.Verdict), a.Code
	if rec.Verdict != sessionlog.Denied {
		rec.Bytes, rec.Written = int64(len(a.Body)), out.Written
	}
	rec.Redacted = out.Redacted
	a.sum = sha256.Sum256(a.Body)
	rec.Fill = s.logKey.Fill(sessionlog.Values{Result: []byte(hex.EncodeToString(a.sum[:]))})
	return rec
}

// conclude stores the result record, the answer and the call's end together.
func (s *Session) conclude(ctx context.Context, j *job, out tool.Output) error {
	_, err := s.log.Append(ctx, []sessionlog.Record{s.result(j, out)}, func(tx *store.Tx, first uint64) error {
		j.seq = first
		key := callKey(s.id, j.call.ID)
		st, err := calls.Get(tx, key)
		if err != nil {
			return err
		}
		st.Result, st.Done = first, true
		if err := s.keepAnswer(tx, st.Intent, j); err != nil {
			return err
		}
		return calls.Put(tx, key, st)
	})
	return err
}

// observe takes a call that changes nothing from the gate to its answer. Its
// only effect is that bytes leave, so both of its records become durable
// together, before the answer leaves and in one sync (docs/decisions/008). A
// large answer is kept in memory only: after a crash the agent reads again.
func (s *Session) observe(d *session.Delivery, j *job) {
	out, err := s.perform(j)
	j.answer = answerOf(out, err)
	if j.answer.Code == "internal" {
		s.cfg.Log.Warn("tool failed", "session", s.id, "tool", j.call.Tool, "err", err)
	}
	call := s.callRecord(j, nil)
	result := s.result(j, out)
	_, err = s.log.Append(s.ctx, []sessionlog.Record{call, result}, func(tx *store.Tx, first uint64) error {
		j.seq = first + 1
		st := j.state(first)
		st.Result, st.Done = first+1, true
		if len(j.answer.Body) <= maxKeptRead {
			if err := s.keepAnswer(tx, first, j); err != nil {
				return err
			}
		}
		return calls.Put(tx, callKey(s.id, j.call.ID), st)
	})
	switch {
	case errors.Is(err, sessionlog.ErrRecord) && s.state().Over(): // the end was recorded meanwhile
		s.meter.Done(true, 0, 0, j.reserved)
		d.Done()
		s.tooLate(j.call.ID)
		return
	case err != nil:
		s.meter.Done(true, 0, 0, j.reserved)
		s.storeFailed(err)
		return
	}
	d.Done()
	if len(j.answer.Body) > maxKeptRead {
		s.memory.put(j.call.ID, j.answer)
	}
	s.answered(j, j.answer, out)
}

// deliver signs an answer with every log record the provider doesn't have
// yet, and queues it. Order and cursor move under one lock, so the records of
// one message always continue those of the last.
func (s *Session) deliver(call string, a answer) {
	s.mu.Lock()
	if h := s.hands[call]; h != nil {
		h.sent = true
	}
	s.mu.Unlock()
	s.push(func(records []jsontext.Value, first uint64, head sessionlog.Head) (session.Message, error) {
		return session.EncodeResult(session.Result{
			Call: call, Verdict: a.Verdict, Code: a.Code, Kind: a.Kind, MIME: a.MIME,
			Records: records, First: first, Size: head.Size, Root: hex.EncodeToString(head.Root[:]),
		}, a.Body)
	}, a.sum)
}

// pushRecords sends the records that no answer carries.
func (s *Session) pushRecords() {
	s.push(func(records []jsontext.Value, first uint64, head sessionlog.Head) (session.Message, error) {
		return session.EncodeRecords(session.Records{
			Records: records, First: first, Size: head.Size, Root: hex.EncodeToString(head.Root[:]),
		})
	}, [sha256.Size]byte{})
}

// recordsPerMessage keeps a header within its limit: a record is at most 2 KiB.
const recordsPerMessage = 256

type encodeWith func(records []jsontext.Value, first uint64, head sessionlog.Head) (session.Message, error)

// push sends what encode makes of the records from the cursor on. Before the
// provider has said what it holds, nothing leaves: join sends it then.
func (s *Session) push(encode encodeWith, sum [sha256.Size]byte) {
	s.sendMu.Lock()
	defer s.sendMu.Unlock()
	if !s.joined {
		return
	}
	if err := s.pushLocked(encode, sum); err != nil {
		s.cfg.Log.Debug("not sent", "session", s.id, "err", err)
	}
}

func (s *Session) pushLocked(encode encodeWith, sum [sha256.Size]byte) error {
	for {
		leaves, err := s.log.Leaves(s.cursor, recordsPerMessage)
		if err != nil {
			return err
		}
		head, err := s.log.HeadAt(s.cursor + uint64(len(leaves)))
		if err != nil {
			return err
		}
		enc := encode
		more := head.Size < s.log.Head().Size && len(leaves) == recordsPerMessage
		if more { // the backlog goes ahead of the answer, in messages of its own
			enc = func(records []jsontext.Value, first uint64, head sessionlog.Head) (session.Message, error) {
				return session.EncodeRecords(session.Records{
					Records: records, First: first, Size: head.Size, Root: hex.EncodeToString(head.Root[:]),
				})
			}
		}
		records := make([]jsontext.Value, len(leaves))
		for i, l := range leaves {
			records[i] = l
		}
		m, err := enc(records, s.cursor, head)
		if err != nil {
			return err
		}
		if more || sum == ([sha256.Size]byte{}) {
			m = session.Sign(s.cfg.Key, s.id, m)
		} else { // the body was hashed for its record
			m = session.SignSum(s.cfg.Key, s.id, m, sum)
		}
		if err := s.ch.Send(s.ctx, m); err != nil {
			return err
		}
		s.cursor = head.Size
		if !more {
			return nil
		}
	}
}

// repeat answers a call that was received before.
func (s *Session) repeat(id string, old callState) {
	if !old.Done {
		return // still running; its answer will come
	}
	a, ok := s.memory.get(id)
	var err error
	if !ok {
		a, err = s.storedAnswer(old)
	}
	if err != nil {
		s.cfg.Log.Error("read a stored answer", "session", s.id, "err", err)
		return
	}
	s.deliver(id, a)
}

// sayAgain answers a call that came again while it was in hand.
func (s *Session) sayAgain(id string) {
	old, found, err := s.known(id)
	switch {
	case err != nil:
		s.cfg.Log.Error("look up a call", "session", s.id, "err", err)
	case found:
		s.repeat(id, old)
	case s.state().Over():
		s.tooLate(id)
	}
}

// storedAnswer reads an answer back. One that was let go, since the provider
// has had it long ago, says so.
func (s *Session) storedAnswer(st callState) (a answer, err error) {
	err = s.cfg.DB.View(func(tx *store.Tx) error {
		raw, err := answers.Get(tx, answerKey(s.id, st.Intent))
		if err == nil {
			a, err = decodeAnswer(raw)
		}
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return answer{Verdict: "unknown", Code: "answered", Kind: "text",
			Body: []byte("FAILED answered: this call ran and was answered; the answer is no longer kept. If it was a read, make it again")}, nil
	}
	return a, err
}

// countRefusal pauses the session after too many refusals.
func (s *Session) countRefusal() {
	s.mu.Lock()
	s.refused++
	pause := s.refused >= gate.PauseAfter && s.st.State == gate.Open
	s.mu.Unlock()
	if pause {
		s.wg.Go(func() {
			s.Pause(s.ctx, fmt.Sprintf("%d calls were refused; look at the log, then resume or stop", gate.PauseAfter))
		})
	}
}
