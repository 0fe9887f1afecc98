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
		return answers.Each(tx, s.id+"/", func(key string, _ answer) error { // in order of intent
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
	return s.conclude(ctx, j, tool.Output{})
}

// PathOf is what a call named: the value behind the log's commitment, for the
// requester's own eyes.
func (s *Session) PathOf(call string) (string, error) {
	st, _, err := s.known(call)
	return st.Path, err
}
