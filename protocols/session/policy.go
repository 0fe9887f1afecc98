package session

import (
	"fmt"
	"slices"
	"time"
)

// Deadlines and limits of a channel. doc.go says them again in words.
const (
	// handshakeTimeout bounds a whole handshake: two round trips over a slow
	// relay, and time to wake a busy machine.
	handshakeTimeout = 10 * time.Second
	// pingEvery is how long a path may be silent before it is asked.
	pingEvery = 5 * time.Second
	// pingLag makes the answering side ask later. With the same clock on both
	// sides each would ask just as the other's question arrives, for ever.
	pingLag = time.Second
	// deadAfter is three pings: one may be lost in a dying path, one be late.
	deadAfter = 3 * pingEvery
	// ackDelay lets an acknowledgement ride on the answer, which usually
	// follows within it; the sender only keeps its copy a little longer.
	ackDelay = 20 * time.Millisecond
	// ackSoonBytes and ackSoonCount send acknowledgements before ackDelay, so
	// that a window never closes for want of one.
	ackSoonBytes = Window / 8
	ackSoonCount = maxSpan / 8
	// closeGrace is how long Close waits for the last acknowledgements to
	// leave.
	closeGrace = 250 * time.Millisecond
	// maxAttachments is how many streams one channel serves at once: the old
	// path and the new one, each dialled by both sides.
	maxAttachments = 4
	// maxHandshakes bounds unfinished handshakes besides.
	maxHandshakes = 8
	// maxRetired is how many former boots of the peer are remembered.
	maxRetired = 256
)

// Window is the most bytes of messages that may be unacknowledged in one
// direction, and so the most that a receiver holds for a peer.
const Window = 8 << 20

// reserve is the part of the window that only messages of at most smallMessage
// may use, so that bulk waiting for its acknowledgement never stops a State, a
// Cancel or a small call.
const (
	reserve      = 1 << 20
	smallMessage = 64 << 10
)

// maxSpan is how far a lane may run ahead of its oldest unacknowledged message.
const maxSpan = 2048

// hasRoom decides if a message of size bytes may join queued bytes.
func hasRoom(queued, size, limit int) bool {
	if size > smallMessage {
		limit -= reserve
	}
	return queued+size <= limit
}

// verdict is what to do with received data.
type verdict uint8

const (
	accept verdict = iota
	duplicate
	gap
)

// place decides about n bytes at position at, when next is the first byte that
// is still missing. With accept, skip is how many of the n are already here:
// two attachments may cut one message in different places.
func place(next, at position, n int) (v verdict, skip int) {
	switch {
	case at.seq < next.seq, at.seq == next.seq && at.off+n <= next.off:
		return duplicate, 0
	case at.seq > next.seq || at.off > next.off:
		return gap, 0
	}
	return accept, next.off - at.off
}

// resumeFrom decides where sending goes on after the peer said that claimed is
// the first byte it lacks. known is what this side already knew it has, and
// end lies behind the last byte ever sent in this pairing. A claim before known
// is an old one that was overtaken.
func resumeFrom(known, claimed, end position) (position, error) {
	if end.before(claimed) {
		return known, fmt.Errorf("%w: resume behind what was sent", ErrMalformed)
	}
	if claimed.before(known) {
		return known, nil
	}
	return claimed, nil
}

// pairing is the decision about a handshake with one life of the peer.
type pairing uint8

const (
	pairSame  pairing = iota // go on where the two lives were
	pairNew                  // the peer restarted: send again what wasn't acknowledged
	pairStale                // a life that was replaced
)

// pairWith decides by the peer's boot. started orders handshakes by when this
// side began them; since is the one that brought the current boot. A handshake
// begun before that one can only belong to an older life, whenever it ends.
func pairWith(boot, current Boot, retired []Boot, started, since uint64) pairing {
	switch {
	case boot == current:
		return pairSame
	case slices.Contains(retired, boot) || started < since:
		return pairStale
	}
	return pairNew
}

// pulse decides about liveness: whether to ping now, whether the peer counts
// as dead, and when to look again. heard is when the last frame came, pinged
// when the last unanswered ping left (zero when none is), and every is how long
// the path may be silent.
func pulse(now, heard, pinged time.Time, every time.Duration) (ping, dead bool, wait time.Duration) {
	quiet := now.Sub(heard)
	unanswered := time.Duration(0)
	if !pinged.IsZero() {
		unanswered = now.Sub(pinged)
	}
	switch {
	case quiet >= deadAfter || unanswered >= deadAfter:
		return false, true, 0
	case !pinged.IsZero():
		return false, false, min(deadAfter-quiet, deadAfter-unanswered, every)
	case quiet >= every:
		return true, false, min(deadAfter-quiet, every) // the answer may come at once
	}
	return false, false, every - quiet
}
