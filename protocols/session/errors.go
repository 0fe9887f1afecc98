package session

import (
	"errors"
	"fmt"
)

// Errors of a channel. Everything that a peer did wrong wraps ErrProtocol:
// such an attachment should not be tried again at once.
var (
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("session channel is closed")
	// ErrReplaced ends the oldest attachment when there are too many.
	ErrReplaced = errors.New("replaced by a newer attachment")
	// ErrStale means that a newer process of the same side has taken over, so
	// the older one can't attach any more.
	ErrStale = errors.New("a newer process has taken this session over")
	// ErrSilent means that nothing came for deadAfter.
	ErrSilent = errors.New("peer is silent")
	// ErrBusy means too many handshakes at once.
	ErrBusy = errors.New("too many attachments at once")
	// ErrConfig means that the Config can't work.
	ErrConfig = errors.New("bad session configuration")

	// ErrProtocol is wrapped by all errors below.
	ErrProtocol = errors.New("peer broke the session protocol")
	// ErrMismatch means another session, grant, peer or direction.
	ErrMismatch = fmt.Errorf("%w: not this session", ErrProtocol)
	// ErrSignature means a signature that doesn't verify.
	ErrSignature = fmt.Errorf("%w: bad signature", ErrProtocol)
	// ErrSealed means a frame that doesn't open: forged, changed, replayed,
	// reordered or of another attachment.
	ErrSealed = fmt.Errorf("%w: frame does not open", ErrProtocol)
	// ErrMalformed means bytes outside the grammar.
	ErrMalformed = fmt.Errorf("%w: malformed", ErrProtocol)
	// ErrTooLarge means a size beyond its limit.
	ErrTooLarge = fmt.Errorf("%w: too large", ErrProtocol)
	// ErrUnknownKind means a message outside the closed set.
	ErrUnknownKind = fmt.Errorf("%w: unknown message kind", ErrProtocol)
	// ErrGap means that part of the sequence is missing.
	ErrGap = fmt.Errorf("%w: gap in the sequence", ErrProtocol)
	// ErrWindow means more unacknowledged data than the window allows.
	ErrWindow = fmt.Errorf("%w: window exceeded", ErrProtocol)
)

// Refusal says why the answering side declined a hello. Its number is part of
// the wire format.
type Refusal uint8

// The refusals.
const (
	RefuseUnknown Refusal = 1 // no such session here
	RefuseOver    Refusal = 2 // the session has ended
	RefuseGrant   Refusal = 3 // another grant, or other parties
	RefuseBusy    Refusal = 4 // too many attachments at once
	RefuseStale   Refusal = 5 // a newer process of the dialling side took over
)

// String is the refusal in words.
func (r Refusal) String() string {
	switch r {
	case RefuseUnknown:
		return "no such session"
	case RefuseOver:
		return "the session has ended"
	case RefuseGrant:
		return "another grant"
	case RefuseBusy:
		return "busy"
	case RefuseStale:
		return "a newer process has taken over"
	}
	return fmt.Sprintf("refusal %d", uint8(r))
}

// RefusedError is returned by Dial when the peer declined, with its signature.
type RefusedError struct{ Reason Refusal }

// Is makes errors.Is(err, ErrStale) hold for a refusal that says so, since both
// mean the same to the owner of the channel.
func (e *RefusedError) Is(target error) bool {
	return e.Reason == RefuseStale && target == ErrStale
}

func (e *RefusedError) Error() string { return "peer refused the session: " + e.Reason.String() }
