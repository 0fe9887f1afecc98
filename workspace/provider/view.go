package provider

import (
	"errors"
	"fmt"
	"strings"

	"github.com/weftmesh/weft/store"
	"github.com/weftmesh/weft/workspace/gate"
	"github.com/weftmesh/weft/workspace/grant"
	"github.com/weftmesh/weft/workspace/receipt"
	"github.com/weftmesh/weft/workspace/sessionlog"
	"github.com/weftmesh/weft/workspace/tool"
)

// pathOf is what a call names, in the words that the requester's log commits
// to. Arguments that don't decode name nothing.
func pathOf(name string, args, content []byte) string {
	spec, ok := tool.Lookup(name)
	if !ok {
		return ""
	}
	plan, _ := spec.Decode(args, content)
	return plan.Names()
}

// Receipt is the receipt's document, as far as it is signed; nil before the
// session has ended.
func (s *Session) Receipt() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.st.Receipt
}

// Log is this side's replica of the session log.
func (s *Session) Log() *sessionlog.Log { return s.log }

// Reason is why the session is in its state, in the requester's words.
func (s *Session) Reason() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.st.Reason
}

// Prove makes the proof of one record, disclosing what this side knows of it.
func (s *Session) Prove(seq uint64) ([]byte, error) {
	key, parties, err := s.logKey()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	checkpoint := s.st.Checkpoint
	s.mu.Unlock()
	leaves, err := s.log.Leaves(seq, 1)
	if err != nil || len(leaves) == 0 {
		return nil, errors.Join(fmt.Errorf("%w: record %d", store.ErrNotFound, seq), err)
	}
	rec, err := sessionlog.Decode(leaves[0])
	if err != nil {
		return nil, err
	}
	var open opening
	err = s.cfg.DB.View(func(tx *store.Tx) error {
		open, err = openings.Get(tx, s.id+"/"+rec.Call)
		return err
	})
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	return receipt.Prove(s.log, parties, []byte(checkpoint), seq, key, values(rec, open))
}

// values are the opened values that a record commits to.
func values(rec sessionlog.Record, o opening) (v sessionlog.Values) {
	if rec.Path != "" {
		v.Path = []byte(o.Path)
	}
	if rec.Args != "" {
		v.Args = []byte(o.Args)
	}
	if rec.Request != "" {
		v.Request = []byte(o.Request)
	}
	if rec.Result != "" {
		v.Result = []byte(o.Result)
	}
	return v
}

func (s *Session) logKey() (sessionlog.Key, sessionlog.Parties, error) {
	parties, err := s.parties()
	if err != nil {
		return sessionlog.Key{}, parties, err
	}
	s.mu.Lock()
	raw := s.st.LogKey
	s.mu.Unlock()
	key, err := sessionlog.ParseKey(raw)
	return key, parties, err
}

// View is what `weft session show` says on this side.
type View struct {
	State   gate.State
	Reason  string
	Totals  sessionlog.Totals
	Head    sessionlog.Head
	Pending int
}

// View returns the session's present numbers.
func (s *Session) View() View {
	s.mu.Lock()
	v := View{State: gate.State(s.st.State), Reason: s.st.Reason, Pending: len(s.pending)}
	s.mu.Unlock()
	v.Totals, v.Head = s.log.Totals(), s.log.Head()
	return v
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

// Gone takes the requester's signed word that it has no such session any
// more. It ends the session here: nothing can be called, and nothing is left
// to sign.
func (s *Session) Gone(why string) {
	err := s.change(func(st *stored) {
		st.LetGo = true
		if !gate.State(st.State).Over() {
			st.State, st.Reason, st.Ended = string(gate.Closed), "the requester has let the session go: "+why, s.cfg.Now().UnixMilli()
		}
	})
	if err != nil {
		s.cfg.Log.Error("keep the end of a session", "session", s.id, "err", err)
	}
	s.refuseAll(refusalFor(gate.Closed))
}

// LetGo reports that the requester has no such session any more.
func (s *Session) LetGo() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.st.LetGo
}

// Document is the signed grant.
func (s *Session) Document() []byte { return s.doc.Raw() }

// GrantHash is the digest of the signed grant, in hex.
func (s *Session) GrantHash() string { return grant.Digest(s.doc) }

// PathOf is what a call named, for this side's own eyes; "" if it isn't known
// here.
func (s *Session) PathOf(call string) (path string, err error) {
	err = s.cfg.DB.View(func(tx *store.Tx) error {
		o, err := openings.Get(tx, s.id+"/"+call)
		path = o.Path
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	return path, err
}
