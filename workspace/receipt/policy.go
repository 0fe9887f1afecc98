package receipt

import (
	"encoding/hex"
	"fmt"
	"maps"
	"strings"

	"github.com/weftmesh/weft/workspace/sessionlog"
)

// Bounds of the numbers and names in a receipt.
const (
	maxInteger = 1<<53 - 1
	maxTools   = 128
)

// endings says which records can end a session.
var endings = map[sessionlog.Type]bool{
	sessionlog.Closed: true, sessionlog.Killed: true, sessionlog.Expired: true, sessionlog.Aborted: true,
}

// outcomes are the verdicts that a receipt counts.
var outcomes = map[sessionlog.Verdict]bool{
	sessionlog.OK: true, sessionlog.Failed: true, sessionlog.Denied: true, sessionlog.Unknown: true,
}

// check verifies all that the fields say about each other, the certificates
// and the checkpoint. It is pure.
func (r Receipt) check() (sessionlog.Checkpoint, error) {
	bad := func(format string, args ...any) (sessionlog.Checkpoint, error) {
		return sessionlog.Checkpoint{}, fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
	}
	if r.V != Version {
		return bad("version %d, this weft reads %d; update weft", r.V, Version)
	}
	c, err := sessionlog.VerifyCheckpoint([]byte(r.Checkpoint), r.Parties())
	if err != nil {
		return sessionlog.Checkpoint{}, err
	}
	switch {
	case r.Records != c.Head.Size:
		return bad("it says %d records, its checkpoint %d", r.Records, c.Head.Size)
	case r.Root != hex.EncodeToString(c.Head.Root[:]):
		return bad("its root is not its checkpoint's")
	case len(r.Grant) != 64 || strings.Trim(r.Grant, "0123456789abcdef") != "":
		return bad("grant digest")
	case !endings[r.State]:
		return bad("state %.40q", r.State)
	case r.OpenedAt <= 0 || r.OpenedAt > maxInteger || r.ClosedAt <= 0 || r.ClosedAt > maxInteger:
		return bad("times")
	case r.BytesRead < 0 || r.BytesRead > maxInteger || r.BytesWritten < 0 || r.BytesWritten > maxInteger || r.Redacted < 0 || r.Redacted > maxInteger:
		return bad("a counter is negative or beyond 2^53")
	case r.Sandbox != sessionlog.Words(r.Sandbox):
		return bad("sandbox name")
	case c.Cosigned && r.Unacked != 0:
		return bad("%d records unacknowledged, but the provider cosigned all", r.Unacked)
	case !c.Cosigned && (r.Unacked == 0 || r.Unacked > r.Records):
		return bad("%d of %d records unacknowledged without a cosignature", r.Unacked, r.Records)
	case len(r.Counts) > maxTools:
		return bad("%d tools", len(r.Counts))
	}
	var calls, unknown uint64
	for tool, byVerdict := range r.Counts {
		if tool == "" || len(tool) > 64 || strings.Trim(tool, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" || len(byVerdict) == 0 {
			return bad("counts of tool %.70q", tool)
		}
		for v, n := range byVerdict {
			if !outcomes[v] || n == 0 || n > sessionlog.MaxRecords {
				return bad("%d calls of %s with verdict %.20q", n, tool, v)
			}
			calls += n
		}
		unknown += byVerdict[sessionlog.Unknown]
	}
	switch {
	case calls != r.Calls:
		return bad("it says %d calls, its counts %d", r.Calls, calls)
	case unknown != r.Unknown:
		return bad("it says %d unknown outcomes, its counts %d", r.Unknown, unknown)
	case r.Calls > r.Records-min(r.Records, 2):
		return bad("%d calls in %d records", r.Calls, r.Records)
	}
	return c, nil
}

// matches compares the receipt with a log that was counted again. It is pure.
func (r Receipt) matches(t sessionlog.Totals, head sessionlog.Head) error {
	differ := func(what string, says, is any) error {
		return fmt.Errorf("%w: %s is %v in the receipt, %v in the log", ErrMismatch, what, says, is)
	}
	root := hex.EncodeToString(head.Root[:])
	switch {
	case r.Session != t.Session:
		return differ("session", r.Session, t.Session)
	case r.Records != head.Size:
		return differ("records", r.Records, head.Size)
	case r.Root != root:
		return differ("root", r.Root, root)
	case r.Grant != t.Grant:
		return differ("grant", r.Grant, t.Grant)
	case r.State != t.End:
		return differ("state", r.State, t.End)
	case r.OpenedAt != t.OpenedAt:
		return differ("opening", r.OpenedAt, t.OpenedAt)
	case r.ClosedAt != t.ClosedAt:
		return differ("end", r.ClosedAt, t.ClosedAt)
	case r.Sandbox != t.Sandbox:
		return differ("sandbox", r.Sandbox, t.Sandbox)
	case r.Calls != t.Calls:
		return differ("calls", r.Calls, t.Calls)
	case r.Unknown != t.Unknown:
		return differ("unknown", r.Unknown, t.Unknown)
	case r.BytesRead != t.BytesRead:
		return differ("bytes read", r.BytesRead, t.BytesRead)
	case r.BytesWritten != t.BytesWritten:
		return differ("bytes written", r.BytesWritten, t.BytesWritten)
	case r.Redacted != t.Redacted:
		return differ("redacted", r.Redacted, t.Redacted)
	case !maps.EqualFunc(r.Counts, t.Counts, maps.Equal[map[sessionlog.Verdict]uint64, map[sessionlog.Verdict]uint64]):
		return differ("counts", r.Counts, t.Counts)
	}
	return nil
}
