package provider

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/weftmesh/weft/protocols/session"
	"github.com/weftmesh/weft/store"
	"github.com/weftmesh/weft/workspace"
	"github.com/weftmesh/weft/workspace/gate"
	"github.com/weftmesh/weft/workspace/grant"
	"github.com/weftmesh/weft/workspace/receipt"
	"github.com/weftmesh/weft/workspace/sessionlog"
)

// dispatch takes one message of the requester. After a fork nothing it says
// counts any more.
func (s *Session) dispatch(d *session.Delivery) error {
	if s.Forked() {
		return ErrFork
	}
	switch d.Kind {
	case session.KindResult:
		return s.result(d.Message)
	case session.KindRecords:
		return s.records(d.Message)
	case session.KindProgress:
		return s.progress(d.Message)
	case session.KindWelcome:
		return s.welcomed(d.Message)
	case session.KindCheckpoint:
		return s.cosign(d.Message)
	case session.KindState:
		return s.told(d.Message)
	case session.KindClosing:
		return s.closing(d.Message)
	}
	return errors.New("not a message for a provider")
}

// progress hands output of a running call to whoever waits for it. A waiter
// that falls behind loses some: the result repeats what matters.
func (s *Session) progress(m session.Message) error {
	n, err := session.DecodeProgress(m)
	if err != nil {
		return err
	}
	s.mu.Lock()
	p := s.pending[n.Call]
	s.mu.Unlock()
	if p != nil {
		select {
		case p.notes <- n:
		default:
		}
	}
	return nil
}

// welcomed stores what is needed to hold the replica, and answers. The log's
// key and the key that signs its checkpoints stay the same for the session's
// whole life.
func (s *Session) welcomed(m session.Message) error {
	w, err := session.DecodeWelcome(m)
	if err != nil {
		return err
	}
	cert, err := sessionlog.ParseCert(w.Cert)
	if err == nil {
		err = cert.Verify(s.id, sessionlog.RoleRequester, s.grant.Requester)
	}
	switch {
	case err != nil:
		return err
	case w.LogKey != hex.EncodeToString(cert.Key[:]):
		return errors.New("welcome with another log key than its certificate's")
	case w.Grant != grant.Digest(s.doc):
		return errors.New("welcome for another grant")
	}
	s.mu.Lock()
	st := s.st
	s.mu.Unlock()
	if st.LogKey != "" {
		before, err := sessionlog.ParseCert(st.PeerCert)
		if err != nil {
			return fmt.Errorf("stored certificate: %w", err)
		}
		if st.LogKey != w.Salt || before.Key != cert.Key {
			return s.fork(errors.New("another log key than before"))
		}
	}
	if st.LogKey == "" || st.State != w.State && !gate.State(st.State).Over() {
		err := s.change(func(st *stored) {
			st.LogKey, st.PeerCert = w.Salt, w.Cert
			if !gate.State(st.State).Over() {
				st.State = w.State
			}
		})
		if err != nil {
			return err
		}
	}
	s.joined()
	s.wg.Go(s.askAgain)
	return nil
}

// result checks an answer and its records, hands the answer to whoever waits,
// and keeps the records. The answer is handed over when everything about it is
// verified, while the records are on their way to disk: what a crash takes
// from this side's copy of the log, the requester sends again.
func (s *Session) result(m session.Message) error {
	sum := sha256.Sum256(m.Body)
	if err := session.VerifySum(s.grant.Requester, s.id, m, sum); err != nil {
		return err
	}
	r, err := session.DecodeResult(m)
	if err != nil {
		return err
	}
	s.mu.Lock()
	p := s.pending[r.Call]
	open, known := s.left[r.Call]
	if p != nil {
		open, known = p.open, true
	}
	s.mu.Unlock()
	open.Result = hex.EncodeToString(sum[:])
	var once sync.Once
	var lie error
	keep := func(tx *store.Tx) error { // runs when the records fit the replica and the head
		once.Do(func() { lie = s.hand(p, r, open.Result, m.Body) })
		if !known {
			return nil
		}
		return openings.Put(tx, s.id+"/"+r.Call, open)
	}
	err = s.extend(r.Records, r.First, r.Size, r.Root, keep)
	if lie != nil {
		return s.fork(lie)
	}
	s.mu.Lock()
	delete(s.left, r.Call)
	s.mu.Unlock()
	return err
}

// hand checks an answer against the records that came with it and before, and
// gives it to the call that waits, if it still does. It must not wait: it runs
// inside the store's transaction.
func (s *Session) hand(p *pending, r session.Result, result string, body []byte) error {
	if p == nil {
		return nil
	}
	leaves := make([][]byte, len(r.Records))
	for i, rec := range r.Records {
		leaves[i] = rec
	}
	if err := s.compareAll(leaves); err != nil {
		return err
	}
	s.mu.Lock()
	waits := s.pending[r.Call] == p
	s.mu.Unlock()
	if !waits {
		return nil
	}
	if err := s.agrees(p, r, result); err != nil {
		return err
	}
	s.mu.Lock()
	waits = s.pending[r.Call] == p
	delete(s.pending, r.Call)
	s.mu.Unlock()
	if waits {
		p.result = Result{CallID: r.Call, Verdict: r.Verdict, Code: r.Code, Kind: r.Kind, MIME: r.MIME, Body: body, Seq: r.Size}
		close(p.done)
	}
	return nil
}

func (s *Session) records(m session.Message) error {
	if err := session.Verify(s.grant.Requester, s.id, m); err != nil {
		return err
	}
	r, err := session.DecodeRecords(m)
	if err != nil {
		return err
	}
	return s.extend(r.Records, r.First, r.Size, r.Root, nil)
}

// extend takes the next records into the replica. Records that contradict
// what was signed before end the session here.
func (s *Session) extend(records []jsontext.Value, first, size uint64, root string, also func(*store.Tx) error) error {
	raw, err := hex.DecodeString(root)
	if err != nil || len(raw) != 32 {
		return errors.New("root is not 64 hex digits")
	}
	want := sessionlog.Head{Size: size, Root: [32]byte(raw)}
	leaves := make([][]byte, len(records))
	for i, r := range records {
		leaves[i] = r
	}
	if len(leaves) > 0 {
		err = s.log.AppendLeaves(s.ctx, leaves, want, also)
	} else if err = s.log.CheckHead(want); err == nil && also != nil { // the records came with another message
		err = s.cfg.DB.Update(s.ctx, also)
	}
	switch {
	case errors.Is(err, sessionlog.ErrFork), errors.Is(err, sessionlog.ErrRecord):
		return s.fork(err)
	case errors.Is(err, sessionlog.ErrGap):
		s.joined() // say what is here; the requester sends on from there
		return err
	case err != nil && s.ctx.Err() == nil:
		s.cfg.Log.Error("keep the session log; free space on the disk, then restart weft", "session", s.id, "err", err)
		s.failAll(ErrStore)
		return err
	case err != nil:
		return err
	}
	return s.compare(leaves)
}

// fork ends the session on this side: the requester signed two histories, or
// one that contradicts its answers. This side signs nothing more.
func (s *Session) fork(why error) error {
	err := s.change(func(st *stored) {
		st.Forked = true
		if !gate.State(st.State).Over() {
			st.State, st.Reason, st.Ended = string(gate.Aborted), "the requester's log contradicts what it signed before", s.cfg.Now().UnixMilli()
		}
	})
	s.refuseAll(workspace.Refuse(workspace.LogUnavailable, "the requester's log is not consistent; nothing more runs"))
	m, encErr := session.EncodeLeave(session.Leave{Reason: "the log contradicts what was signed before"})
	s.queue(m, encErr)
	return errors.Join(fmt.Errorf("%w: %w", ErrFork, why), err)
}

// told takes a change of state from the requester.
func (s *Session) told(m session.Message) error {
	h, err := session.DecodeState(m)
	if err != nil {
		return err
	}
	state := gate.State(h.State)
	s.mu.Lock()
	same := s.st.State == h.State && s.st.Reason == h.Reason || gate.State(s.st.State).Over()
	s.mu.Unlock()
	if !same {
		err = s.change(func(st *stored) {
			st.State, st.Reason = h.State, h.Reason
			if state.Over() {
				st.Ended = s.cfg.Now().UnixMilli()
			}
		})
	}
	if state.Over() {
		r := refusalFor(state)
		if h.Reason == string(workspace.LogUnavailable) {
			r = workspace.Refuse(workspace.LogUnavailable, "the requester's session log can't be written, so nothing runs")
		}
		s.refuseAll(r)
	}
	return err
}

// cosign compares a checkpoint with the replica and signs it.
func (s *Session) cosign(m session.Message) error {
	h, err := session.DecodeCheckpoint(m)
	if err != nil {
		return err
	}
	parties, err := s.parties()
	if err != nil {
		return err
	}
	cp, err := sessionlog.VerifyCheckpoint([]byte(h.Note), parties)
	if err != nil {
		return err
	}
	if err := s.log.CheckHead(cp.Head); errors.Is(err, sessionlog.ErrFork) {
		return s.fork(err)
	} else if err != nil {
		return err
	}
	line, err := sessionlog.Cosign(s.sub, parties, []byte(h.Note), s.cfg.Now())
	if err != nil {
		return err
	}
	whole, err := sessionlog.AddCosignature([]byte(h.Note), line, parties)
	if err != nil {
		return err
	}
	if err := s.change(func(st *stored) { st.Checkpoint = string(whole) }); err != nil {
		return err
	}
	out, err := session.EncodeCosign(session.Cosign{Line: line, Size: cp.Head.Size})
	s.queue(out, err)
	return err
}

// closing checks the requester's receipt against the replica and signs it.
// A receipt that claims something else is kept out and not signed. One that
// matches says how the session ended, whatever was told before.
func (s *Session) closing(m session.Message) error {
	h, err := session.DecodeClosing(m)
	if err != nil {
		return err
	}
	sig, err := receipt.Countersign(h.Receipt, s.log, grant.Digest(s.doc), s.cfg.Key)
	if err != nil {
		return errors.Join(err, s.change(func(st *stored) {
			st.Reason = "the requester's receipt was not signed: it doesn't match this side's log"
		}))
	}
	both, err := receipt.AddCountersignature(h.Receipt, sig)
	if err != nil {
		return err
	}
	state := endings[s.log.Totals().End]
	err = s.change(func(st *stored) {
		st.Receipt = both.Raw()
		if !gate.State(st.State).Over() {
			st.State, st.Ended = string(state), s.cfg.Now().UnixMilli()
		}
	})
	if err != nil {
		return err
	}
	s.refuseAll(refusalFor(state))
	out, err := session.EncodeClosed(session.Closed{Sig: sig})
	s.queue(out, err)
	return err
}
