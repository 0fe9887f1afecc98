package requester

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"github.com/weftmesh/weft/protocols/session"
	"github.com/weftmesh/weft/store"
	"github.com/weftmesh/weft/workspace"
	"github.com/weftmesh/weft/workspace/command"
	"github.com/weftmesh/weft/workspace/gate"
	"github.com/weftmesh/weft/workspace/sessionlog"
	"github.com/weftmesh/weft/workspace/tool"
)

// job is one call on its way through the gate.
type job struct {
	call  session.Call
	msg   session.Message
	hand  *hand
	began time.Time

	spec  *tool.Spec // nil for an unknown tool
	plan  tool.Plan
	match command.Plan
	path  string // the virtual paths the call names, joined by spaces
	args  string // SHA-256 of the arguments

	seq      uint64 // of the newest record about the call
	reserved int64  // bytes of the write budget that are held for it
	answer   answer
}

// handle takes one admitted call from dedupe to answer. taken says that
// another call of the same id is being handled right now.
func (s *Session) handle(d *session.Delivery, c session.Call, h *hand, fresh, taken bool) {
	var old callState
	var found bool
	var err error
	if !fresh || s.log.Knows(c.ID) { // a call that was seen before has a used number, or a known id
		old, found, err = s.known(c.ID)
	}
	found = found || taken
	switch {
	case err != nil:
		s.cfg.Log.Error("look up a call", "session", s.id, "err", err)
		return // not acknowledged: the provider sends it again
	case found && old.Digest == h.digest:
		d.Done()
		s.repeat(c.ID, old)
		return
	}
	j := &job{call: c, msg: d.Message, hand: h, began: s.cfg.Now()}
	if !s.enter() {
		d.Done()
		s.tooLate(c.ID)
		return
	}
	defer s.leave()
	refusal := s.waitWhilePaused(j)
	switch {
	case refusal != nil:
	case found:
		refusal = workspace.Refuse(workspace.BadArguments, "call id %s was used for another call", c.ID)
	case !fresh:
		refusal = workspace.Refuse(workspace.BadArguments, "call number %d was used before", c.Seq)
	default:
		refusal = s.checkHead(c)
		if refusal == nil {
			refusal = checkAge(c.ID, time.Duration(c.DeadlineMS)*time.Millisecond, s.cfg.Now())
		}
	}
	if refusal == nil {
		refusal = s.decide(j)
	} else {
		s.meter.Take(gate.Reads, s.cfg.Now())
	}
	if refusal == nil && j.spec.ReadOnly {
		s.observe(d, j)
		return
	}
	err = s.intent(j, refusal, found)
	if errors.Is(err, sessionlog.ErrRecord) && s.state().Over() { // the end was recorded meanwhile
		s.meter.Done(true, 0, 0, j.reserved)
		d.Done()
		s.tooLate(c.ID)
		return
	}
	if err != nil {
		s.meter.Done(true, 0, 0, j.reserved)
		s.storeFailed(err)
		return
	}
	d.Done()
	switch {
	case found: // a forged repeat gets a record and no answer: the id is taken
		s.meter.Done(true, 0, 0, j.reserved)
		s.countRefusal()
	case refusal != nil:
		s.answered(j, j.answer, tool.Output{})
	default:
		s.run(j)
	}
}

// tooLate answers a call that came after the end. The log is complete, so the
// answer alone says that it did not run.
func (s *Session) tooLate(id string) {
	s.deliver(id, answerOf(tool.Output{}, gate.Decide(gate.Facts{State: s.state()}, nil)))
}

// known looks a call id up.
func (s *Session) known(id string) (st callState, found bool, err error) {
	err = s.cfg.DB.View(func(tx *store.Tx) error {
		st, err = calls.Get(tx, callKey(s.id, id))
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return st, false, nil
	}
	return st, err == nil, err
}

// decide gathers the facts and asks the gate. While the session is paused the
// call waits here.
func (s *Session) decide(j *job) *workspace.Refusal {
	f := gate.Facts{Granted: s.grant.Rights()}
	j.spec, f.Known = tool.Lookup(j.call.Tool)
	if f.Known {
		args, content := j.msg.Body[:j.call.ArgsLen], j.msg.Body[j.call.ArgsLen:]
		sum := sha256.Sum256(args)
		j.args = hex.EncodeToString(sum[:])
		f.Want = j.spec.Right
		j.plan, f.Arguments = j.spec.Decode(args, content)
		f.Uses, f.Size = j.plan.Uses, j.plan.Size
		j.path = j.plan.Names()
		if len(j.plan.Argv) > 0 {
			j.match, f.Command = command.Match(s.folders().allow, j.plan.Argv)
		}
	}
	class := gate.Reads
	if j.spec != nil {
		class = j.spec.Class
	}
	f.Limited = s.meter.Take(class, s.cfg.Now())
	if f.Limited == nil && j.plan.Writes > 0 {
		if f.Limited = s.meter.Reserve(j.plan.Writes); f.Limited == nil {
			j.reserved = j.plan.Writes
		}
	}
	f.State, f.Expired = s.state(), s.expired()
	return gate.Decide(f, s.folders().tree)
}

// waitWhilePaused holds a call until the provider has joined and nobody has
// paused the session; or until the session ends, the call is cancelled or
// patience runs out.
func (s *Session) waitWhilePaused(j *job) *workspace.Refusal {
	timeout := time.NewTimer(pausedPatience)
	defer timeout.Stop()
	for {
		s.mu.Lock()
		state, resumed := s.st.State, s.resumed
		s.mu.Unlock()
		if state != gate.Paused && state != gate.Offered {
			return nil
		}
		select {
		case <-resumed:
		case <-s.over:
			return nil
		case <-j.hand.ctx.Done():
			return workspace.Refuse(workspace.RateLimited, "the session is %s, and the call was given up while it waited", state)
		case <-timeout.C:
			r := workspace.Refuse(workspace.RateLimited, "the session is %s", state)
			r.RetryAfter = pausedPatience
			return r
		}
	}
}

// intent makes the call durable before anything runs. A refusal is complete
// with it: its answer is stored in the same transaction. A call that reuses a
// taken id is recorded without touching the first one's state.
func (s *Session) intent(j *job, refusal *workspace.Refusal, taken bool) error {
	rec := s.callRecord(j, refusal)
	if refusal != nil {
		j.answer = answerOf(tool.Output{}, refusal)
	}
	_, err := s.log.Append(s.ctx, []sessionlog.Record{rec}, func(tx *store.Tx, first uint64) error {
		j.seq = first
		if taken {
			return nil
		}
		st := j.state(first)
		if refusal != nil {
			st.Done = true
			if err := s.keepAnswer(tx, first, j); err != nil {
				return err
			}
		}
		return calls.Put(tx, callKey(s.id, j.call.ID), st)
	})
	return err
}

// callRecord makes the call record of a call, with the gate's verdict.
func (s *Session) callRecord(j *job, refusal *workspace.Refusal) sessionlog.Record {
	rec := s.record(sessionlog.Call, "")
	rec.Call, rec.Tool, rec.Verdict = j.call.ID, j.tool(), sessionlog.Allowed
	if refusal != nil {
		rec.Verdict, rec.Code = sessionlog.Denied, string(refusal.Code)
	}
	rec.Fill = s.logKey.Fill(sessionlog.Values{Path: []byte(j.path), Args: []byte(j.args), Request: []byte(j.hand.digest)})
	return rec
}

// state is what is kept of the call, when its record has the given number.
func (j *job) state(intent uint64) callState {
	return callState{Seq: j.call.Seq, Digest: j.hand.digest, Tool: j.tool(), Path: j.path, Args: j.args,
		Header: j.msg.Header, Sig: j.msg.Sig, Intent: intent}
}

// tool is the name that the log uses.
func (j *job) tool() string {
	if j.spec == nil {
		return sessionlog.UnknownTool
	}
	return j.spec.Name
}

// run executes a call whose intent is durable.
func (s *Session) run(j *job) {
	out, err := s.perform(j)
	s.finish(j, out, err)
}

// perform does the work of an allowed call in one of the session's slots.
func (s *Session) perform(j *job) (tool.Output, error) {
	ctx := j.hand.ctx
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-s.over:
	case <-ctx.Done():
	}
	if s.state().Over() { // stopped while it waited for a slot
		return tool.Output{}, workspace.Refuse(workspace.Killed, "the session was stopped before this call ran")
	}
	if ctx.Err() != nil {
		return tool.Output{}, workspace.Fail("cancelled", "the call was cancelled, or its time was up, before it ran")
	}
	if err := s.freshSecrets(ctx); err != nil {
		return tool.Output{}, err
	}
	out, err := j.plan.Run(ctx, s.env(j))
	if state := s.state(); state.Over() && state != gate.Lapsed { // revoked while it ran: the answer stays here
		out, err = withheld(out, err)
	}
	return out, err
}

// withheld keeps the content of an answer back after the session was stopped.
// What was done is done and is recorded so; what was only read did not leave.
func withheld(out tool.Output, err error) (tool.Output, error) {
	if err == nil && out.Written == 0 && len(out.Changed) == 0 {
		err = workspace.Fail(string(workspace.Killed), "the session was stopped while this call ran")
	}
	out.Kind, out.MIME, out.Body = "text", "", []byte("done before the session was stopped; the result stays on the requester's machine")
	return out, err
}

func (s *Session) env(j *job) *tool.Env {
	n, last := uint64(0), time.Time{}
	open := s.folders()
	return &tool.Env{
		Tree: open.tree, Runner: open.runner, FirstRoot: s.grant.Roots[0].Name, Command: j.match, Rescan: s.rescan, Info: s.info,
		Progress: func(text string) {
			if now := s.cfg.Now(); now.Sub(last) < progressEvery {
				return
			} else {
				last = now
			}
			n++
			s.queue(session.EncodeProgress(session.Progress{Call: j.call.ID, N: n, Text: tail(text, 4096)}))
		},
	}
}

// progressEvery keeps a chatty command from filling the channel.
const progressEvery = 250 * time.Millisecond

// tail keeps the last n bytes of s, at a character's start.
func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	s = s[len(s)-n:]
	for len(s) > 0 && s[0]&0xc0 == 0x80 {
		s = s[1:]
	}
	return s
}

// checkHead refuses a call that claims a log head we never had. Such a call
// is proof of a fork, so the session stops.
func (s *Session) checkHead(c session.Call) *workspace.Refusal {
	if err := s.acknowledge(c.Size, c.Root); err != nil {
		s.goes(func() { s.End(s.ctx, gate.Aborted, "the provider signed a log head that was never ours") })
		return workspace.Refuse(workspace.BadArguments, "the call carries a log head that doesn't match: %v", err)
	}
	return nil
}

// acknowledge takes the provider's signature over a head of the log.
func (s *Session) acknowledge(size uint64, root string) error {
	raw, err := hex.DecodeString(root)
	if err != nil || len(raw) != sha256.Size {
		return errors.New("no root")
	}
	if err := s.log.CheckHead(sessionlog.Head{Size: size, Root: [32]byte(raw)}); err != nil {
		return err
	}
	s.mu.Lock()
	s.ackedLocked(size)
	s.mu.Unlock()
	return nil
}

// ackedLocked notes that the provider signed a head of this size.
func (s *Session) ackedLocked(size uint64) {
	s.st.Acked = max(s.st.Acked, size)
	if s.st.Acked >= s.unsigned.size {
		s.unsigned = unsigned{}
	}
}
