package provider

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weftmesh/weft/protocols/session"
	"github.com/weftmesh/weft/workspace"
	"github.com/weftmesh/weft/workspace/gate"
	"github.com/weftmesh/weft/workspace/sessionlog"
)

// endings are the states that the last record of a log leads to.
var endings = map[sessionlog.Type]gate.State{
	sessionlog.Closed: gate.Closed, sessionlog.Killed: gate.Killed,
	sessionlog.Expired: gate.Lapsed, sessionlog.Aborted: gate.Aborted,
}

// withoutRecord are the refusals of a session whose log takes no records any
// more.
var withoutRecord = []workspace.Code{workspace.Killed, workspace.Expired, workspace.LogUnavailable}

// compare looks at new records about calls in flight: the log must commit to
// the very call that was sent, and what it says of its end must be what the
// answer says later. This side cosigns the log, so it must not say of our
// calls what never was.
func (s *Session) compare(leaves [][]byte) error {
	if err := s.compareAll(leaves); err != nil {
		return s.fork(err)
	}
	return nil
}

// compareAll is compare without the consequence.
func (s *Session) compareAll(leaves [][]byte) error {
	s.mu.Lock()
	none, raw := len(s.pending) == 0, s.st.LogKey
	s.mu.Unlock()
	if none || raw == "" {
		return nil
	}
	key, err := sessionlog.ParseKey(raw)
	if err != nil {
		return fmt.Errorf("stored log key: %w", err)
	}
	for _, leaf := range leaves {
		rec, err := sessionlog.Decode(leaf)
		if err != nil {
			return err // can't be: the replica took it
		}
		if rec.Call == "" {
			continue
		}
		if err := s.compareRecord(key, rec); err != nil {
			return err
		}
	}
	return nil
}

func (s *Session) compareRecord(key sessionlog.Key, rec sessionlog.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pending[rec.Call]
	if p == nil || p.msg.Kind == 0 {
		return nil
	}
	if rec.Type == sessionlog.Result {
		p.said = &rec
		return nil
	}
	ours := key.Commit(string(sessionlog.FieldRequest), rec.Seq, []byte(p.open.Request)) == rec.Request
	switch {
	case ours && rec.Verdict == sessionlog.Denied:
		p.said = &rec
	case !ours && rec.Verdict != sessionlog.Denied: // a refused one may be another call under our id
		return fmt.Errorf("record %d says that another call ran than the one that was sent", rec.Seq)
	}
	return nil
}

// agrees compares an answer with what the log says of its call. What ran must
// be in the log, with the same end and the same bytes. An answer that knows
// nothing claims nothing; and a session that has ended refuses without a
// record, since its log is complete.
func (s *Session) agrees(p *pending, r session.Result, result string) error {
	s.mu.Lock()
	said, raw := p.said, s.st.LogKey
	s.mu.Unlock()
	verdict := sessionlog.Verdict(r.Verdict)
	switch {
	case verdict == sessionlog.Unknown:
		return nil
	case verdict == sessionlog.Denied && slices.Contains(withoutRecord, workspace.Code(r.Code)):
		return nil
	case said == nil:
		return fmt.Errorf("the answer to call %s is not in the log", r.Call)
	case said.Verdict != verdict || said.Code != r.Code:
		return fmt.Errorf("call %s ended as %s %s by its answer, as %s %s by the log", r.Call, verdict, r.Code, said.Verdict, said.Code)
	case said.Type != sessionlog.Result:
		return nil
	}
	key, err := sessionlog.ParseKey(raw)
	if err != nil {
		return errors.New("an answer before the log's key")
	}
	if key.Commit(string(sessionlog.FieldResult), said.Seq, []byte(result)) != said.Result {
		return fmt.Errorf("the answer to call %s is not the one that the log commits to", r.Call)
	}
	return nil
}
