package api

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"syscall"

	"github.com/weftmesh/weft/node/host"
	"github.com/weftmesh/weft/protocols/identity"
	"github.com/weftmesh/weft/protocols/signed"
	"github.com/weftmesh/weft/protocols/strict"
	"github.com/weftmesh/weft/store"
	"github.com/weftmesh/weft/workspace"
)

// Kind is the class of an error that reaches a person or a script. It picks
// the HTTP status and the process exit code, in one table.
type Kind uint8

// The kinds. Each has its row in the table below.
const (
	// Internal is a fault of ours or of the machine.
	Internal Kind = iota
	// Usage is a command line or a request that can't be read.
	Usage
	// NotRunning means that no daemon runs on this home.
	NotRunning
	// Unreachable means that the other peer can't be reached.
	Unreachable
	// Unauthorized means that the API token is missing or wrong.
	Unauthorized
	// Denied means that policy said no.
	Denied
	// Limited means that a budget or rate is used up.
	Limited
	// NotFound means that the named thing doesn't exist.
	NotFound
	// Conflict means that the state doesn't allow it, or it is already done.
	Conflict
	// Busy means that someone else holds it now; trying later can help.
	Busy
	// Skew means that the two sides speak different versions.
	Skew
	// Invalid is bad input or a bad signature.
	Invalid
	// Timeout means that it took longer than allowed.
	Timeout
)

// kinds is the one table. A status stands in it once, so that a client can
// read the kind back from the response; exit codes are those of the command
// contract: 1 internal, 2 usage, 3 unreachable, 4 denied, 5 not found,
// 6 conflict, 7 bad input, 8 timeout.
var kinds = [...]struct {
	code   string
	status int
	exit   int
}{
	Internal:     {"internal", http.StatusInternalServerError, 1},
	Usage:        {"usage", http.StatusBadRequest, 2},
	NotRunning:   {"not_running", http.StatusServiceUnavailable, 3},
	Unreachable:  {"unreachable", http.StatusBadGateway, 3},
	Unauthorized: {"unauthorized", http.StatusUnauthorized, 4},
	Denied:       {"denied", http.StatusForbidden, 4},
	Limited:      {"limited", http.StatusTooManyRequests, 4},
	NotFound:     {"not_found", http.StatusNotFound, 5},
	Conflict:     {"conflict", http.StatusConflict, 6},
	Busy:         {"busy", http.StatusLocked, 6},
	Skew:         {"skew", http.StatusNotImplemented, 6},
	Invalid:      {"bad_input", http.StatusUnprocessableEntity, 7},
	Timeout:      {"timeout", http.StatusGatewayTimeout, 8},
}

// String is the code that errors of the kind carry unless they have their own.
func (k Kind) String() string { return kinds[k].code }

// Status is the HTTP status of the kind.
func (k Kind) Status() int { return kinds[k].status }

// ExitCode is what a command that ends with the kind exits with.
func (k Kind) ExitCode() int { return kinds[k].exit }

// kindOf reads the kind back from an HTTP status; unknown ones are Internal.
func kindOf(status int) Kind {
	for k := range kinds {
		if kinds[k].status == status {
			return Kind(k)
		}
	}
	return Internal
}

// known maps the errors of other packages to kinds. The first match wins, so
// what an error is about stands before why: an unreachable peer is Unreachable
// even if the reason is a deadline.
var known = []struct {
	err  error
	kind Kind
	hint string
}{
	{signed.ErrSignature, Invalid, "the document was changed or signed by someone else; ask for it again"},
	{host.ErrNeedsDirect, Unreachable, ""},
	{host.ErrUnreachable, Unreachable, "weft netcheck, or weft peer add MULTIADDR"},
	{host.ErrUnsupported, Skew, "check that weft runs there, in a version with this feature"},
	{host.ErrProtocol, Internal, ""},
	{host.ErrSelf, Invalid, "give another peer"},
	{host.ErrAddress, Invalid, ""},
	{host.ErrClosed, NotRunning, "weft up"},
	{store.ErrFull, Internal, "nothing acknowledged was lost"},
	{store.ErrInUse, Conflict, ""},
	{store.ErrNewerSchema, Skew, "run the newer weft, or give another home with --home"},
	{store.ErrForeign, Conflict, "give another home with --home"},
	{store.ErrCorrupt, Internal, ""},
	{store.ErrKey, Invalid, ""},
	{store.ErrReplay, Conflict, ""},
	{store.ErrTooLarge, Invalid, ""},
	{store.ErrNotFound, NotFound, "weft session log ID, weft sessions and weft peer list show what is there"},
	{store.ErrClosed, NotRunning, "weft up"},
	{store.ErrBroken, Internal, ""},
	{store.ErrDisk, Internal, "look at the disk"},
	{identity.ErrKeyFile, Invalid, ""},
	{identity.ErrKey, Invalid, "give a peer id (12D3Koo...), an agent id or a did:key"},
	{strict.ErrInput, Invalid, ""},
	{context.DeadlineExceeded, Timeout, "try again, or allow more time with --timeout"},
	{os.ErrDeadlineExceeded, Timeout, "try again, or allow more time with --timeout"},
	{syscall.ENOSPC, Internal, "free some disk space; nothing acknowledged was lost"},
	{fs.ErrNotExist, NotFound, ""},
	{fs.ErrPermission, Denied, "check who owns the file"},
	{fs.ErrExist, Conflict, ""},
}

// From gives any error its kind: an *Error anywhere in the chain keeps its
// kind, code and hint, the errors of our own packages have theirs, and what is
// not known is Internal. From(nil) is nil.
func From(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := err.(*Error); ok {
		return e
	}
	var (
		e       *Error
		refusal *workspace.Refusal
		failure *workspace.Failure
		large   *http.MaxBytesError
	)
	switch {
	case errors.As(err, &e):
		return &Error{Kind: e.Kind, Code: e.Code, Message: err.Error(), Hint: e.Hint}
	case errors.As(err, &refusal):
		kind := Denied
		if refusal.Code == workspace.RateLimited {
			kind = Limited
		}
		return &Error{Kind: kind, Code: string(refusal.Code), Message: err.Error()}
	case errors.As(err, &failure):
		return &Error{Kind: failureKind(failure.Reason), Code: failure.Reason, Message: err.Error()}
	case errors.As(err, &large):
		return Errorf(Invalid, "request body is over %d bytes", large.Limit)
	}
	for _, k := range known {
		if errors.Is(err, k.err) {
			return &Error{Kind: k.kind, Message: err.Error(), Hint: k.hint}
		}
	}
	return &Error{Kind: Internal, Message: err.Error()}
}

// failureKind is the kind of a workspace failure's reason.
func failureKind(reason string) Kind {
	switch reason {
	case "not_found", "unknown_job":
		return NotFound
	case "exists", "changed":
		return Conflict
	case "timeout":
		return Timeout
	case "internal", "no_space", "unknown":
		return Internal
	default:
		return Invalid
	}
}
