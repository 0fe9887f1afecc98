package requester

import (
	"context"

	"github.com/weftmesh/weft/protocols/session"
	"github.com/weftmesh/weft/store"
	"github.com/weftmesh/weft/workspace/sessionlog"
	"github.com/weftmesh/weft/workspace/tool"
)

// readCalls finds which call numbers were used.
func (s *Session) readCalls() error {
	return s.cfg.DB.View(func(tx *store.Tx) error {
		return calls.Each(tx, s.id+"/", func(_ string, st callState) error {
			s.numbers.take(st.Seq)
			return nil
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
