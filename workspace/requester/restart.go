package requester

import (
	"context"
	"strconv"
	"strings"

	"github.com/weftmesh/weft/protocols/session"
	"github.com/weftmesh/weft/store"
	"github.com/weftmesh/weft/workspace/sessionlog"
	"github.com/weftmesh/weft/workspace/tool"
)

// readCalls finds which call numbers were used and which answers are kept.
func (s *Session) readCalls() error {
	return s.cfg.DB.View(func(tx *store.Tx) error {
		err := calls.Each(tx, s.id+"/", func(_ string, st callState) error {
			s.numbers.take(st.Seq)
			return nil
		})
		if err != nil {
			return err
		}
		return answers.Each(tx, s.id+"/", func(key string, _ []byte) error { // in order of intent
			intent, err := strconv.ParseUint(strings.TrimPrefix(key, s.id+"/"), 16, 64)
			s.kept = append(s.kept, intent)
			return err
		})
	})
}

// concludeUnknown records that nobody knows how a call ended. It is never run
// again by itself.
func (s *Session) concludeUnknown(ctx context.Context, id, toolName string, st callState) error {
	j := &job{call: session.Call{ID: id, Seq: st.Seq, Tool: toolName}}
	j.spec, _ = tool.Lookup(toolName)
	j.answer = answer{Verdict: string(sessionlog.Unknown), Code: "restarted", Kind: "text",
		Body: []byte("FAILED unknown: weft restarted on the requester's machine while this call ran; it may or may not have been done. Look before you repeat it.")}
	if s.log.Totals().End != "" {
		return s.concludeLate(ctx, j)
	}
	return s.conclude(ctx, j, tool.Output{})
}

// concludeLate keeps the answer of a call whose result came after the end of
// the log. The log has no result for it, so its outcome is unknown there, in
// the receipt and in the answer.
func (s *Session) concludeLate(ctx context.Context, j *job) error {
	return s.cfg.DB.Update(ctx, func(tx *store.Tx) error {
		key := callKey(s.id, j.call.ID)
		st, err := calls.Get(tx, key)
		if err != nil {
			return err
		}
		if st.Done {
			return nil
		}
		st.Done = true
		if err := s.keepAnswer(tx, st.Intent, j); err != nil {
			return err
		}
		return calls.Put(tx, key, st)
	})
}

// PathOf is what a call named: the value behind the log's commitment, for the
// requester's own eyes.
func (s *Session) PathOf(call string) (string, error) {
	st, _, err := s.known(call)
	return st.Path, err
}
