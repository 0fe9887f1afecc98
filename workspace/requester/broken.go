package requester

import (
	"errors"
	"time"

	"github.com/weftmesh/weft/protocols/session"
	"github.com/weftmesh/weft/workspace"
	"github.com/weftmesh/weft/workspace/gate"
	"github.com/weftmesh/weft/workspace/sessionlog"
)

// persistAgain is how often the end of a broken session is tried to be stored.
const persistAgain = 5 * time.Second

// storeFailed takes an error of the session log. One that says nothing about
// the log, since the request was cancelled or the session has ended, changes
// nothing: what was not recorded was not run.
func (s *Session) storeFailed(err error) {
	switch {
	case s.ctx.Err() != nil: // we are closing
	case errors.Is(err, sessionlog.ErrFull):
		s.goes(func() { s.End(s.ctx, gate.Closed, "the session log is full") })
	case errors.Is(err, sessionlog.ErrUnavailable):
		s.logBroken(err)
	default:
		s.cfg.Log.Debug("not recorded", "session", s.id, "err", err)
	}
}

// logBroken ends a session whose log can't be written: no call may run
// unrecorded. The end is stored as soon as the store takes it; the log gets
// its last record at the next start. The provider is told the code only, since
// an error of the store names a path of this machine.
func (s *Session) logBroken(err error) {
	s.mu.Lock()
	was := s.st.State
	if !was.Over() {
		s.st.State, s.st.Reason, s.st.Ended = gate.Aborted, string(workspace.LogUnavailable), s.cfg.Now().UnixMilli()
		close(s.over)
	}
	s.sealed = true
	stops := s.stopsLocked()
	s.mu.Unlock()
	if was.Over() {
		return
	}
	for _, stop := range stops {
		stop()
	}
	s.killCommands()
	s.cfg.Log.Error("session stopped: its log can't be written; free space on the disk, then restart weft", "session", s.id, "err", err)
	s.hub.publish(Event{State: string(gate.Aborted), Note: "the session log can't be written", Time: s.cfg.Now().UnixMilli()})
	s.goes(func() {
		s.queue(session.EncodeState(session.State{State: string(gate.Aborted), Reason: string(workspace.LogUnavailable)}))
	})
	s.goes(func() {
		tick := time.NewTicker(persistAgain)
		defer tick.Stop()
		for s.persist(s.ctx) != nil {
			select {
			case <-s.ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
}
