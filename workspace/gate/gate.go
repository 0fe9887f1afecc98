// Package gate decides about one call. It is pure: facts in, a refusal or nil
// out; clocks, files and logs stay with the requester.
//
// The checks have one order, and the first that fails is the answer:
//
//	killed, expired, unknown_tool, rate_limited, bad_arguments, no_right,
//	bad_path, outside_grant, secret_path, special_file, command_not_granted,
//	too_large, log_unavailable
//
// special_file, and secret_path for a name that hides behind a link, need the
// opened file, so files checks those again by handle when it runs the call.
package gate

import (
	"time"

	"github.com/weftmesh/weft/workspace"
)

// State is where a session stands.
type State string

// The states of a session, as the CLI shows them.
const (
	Offered State = "offered"
	Open    State = "open"
	Paused  State = "paused"
	Closed  State = "closed"
	Killed  State = "killed"
	Lapsed  State = "expired"
	Aborted State = "aborted"
)

// Over reports whether no call can ever run again.
func (s State) Over() bool {
	return s == Closed || s == Killed || s == Lapsed || s == Aborted
}

// Names answers for the granted folders by name only: the same answer whether
// or not the file exists.
type Names interface {
	// Right is what the grant allows at p; OutsideGrant for an unknown root.
	Right(p workspace.Path) (workspace.Right, *workspace.Refusal)
	// CheckName refuses secret-shaped and excluded names.
	CheckName(p workspace.Path) *workspace.Refusal
	// CheckWrite is CheckName for writing, which more names are closed to.
	CheckWrite(p workspace.Path) *workspace.Refusal
}

// Use is one path a call names and what it wants to do there.
type Use struct {
	Text string
	Want workspace.Right
}

// Facts are all that a decision depends on.
type Facts struct {
	State State
	// Expired is by the requester's monotonic clock.
	Expired bool
	// Known says that the tool exists.
	Known bool
	// Limited is the budget's answer, nil when there is room.
	Limited *workspace.Refusal
	// Arguments is the decoder's refusal, nil when the arguments are sound.
	Arguments *workspace.Refusal
	// Want is the right the tool needs anywhere at all.
	Want workspace.Right
	// Granted is the union of the rights of all roots.
	Granted workspace.Right
	Uses    []Use
	// Command is the profile match's refusal, nil when granted or no command.
	Command *workspace.Refusal
	// Size is a refusal for declared sizes beyond a limit.
	Size *workspace.Refusal
	// LogBroken says that the session log can't be written.
	LogBroken bool
}

// Decide returns the first refusal in gate order, or nil to let the call run.
func Decide(f Facts, names Names) *workspace.Refusal {
	switch {
	case f.State.Over() && f.State != Lapsed:
		return workspace.Refuse(workspace.Killed, "the session is over; ask the requester for a new one")
	case f.Expired || f.State == Lapsed:
		return workspace.Refuse(workspace.Expired, "the session's time is up; ask the requester for a new one")
	case !f.Known:
		return workspace.Refuse(workspace.UnknownTool, "tools/list names the tools of this session")
	case f.Limited != nil:
		return f.Limited
	case f.Arguments != nil:
		return f.Arguments
	case !f.Granted.Has(f.Want):
		return workspace.Refuse(workspace.NoRight, "this session has %s and the tool needs %s; workspace_info lists what is granted", f.Granted, f.Want)
	}
	if r := first(check(f.Uses, names), f.Command, f.Size); r != nil {
		return r
	}
	if f.LogBroken {
		return workspace.Refuse(workspace.LogUnavailable, "the session log can't be written, so nothing runs")
	}
	return nil
}

// check looks at every path of a call.
func check(uses []Use, names Names) *workspace.Refusal {
	var worst *workspace.Refusal
	for _, u := range uses {
		worst = first(worst, checkOne(u, names))
	}
	return worst
}

func checkOne(u Use, names Names) *workspace.Refusal {
	p, bad := workspace.ParsePath(u.Text)
	if bad != nil {
		return bad
	}
	have, bad := names.Right(p)
	if bad != nil {
		return bad
	}
	if !have.Has(u.Want) {
		return workspace.Refuse(workspace.NoRight, "%s has %s and this needs %s", p.Root(), have, u.Want)
	}
	if u.Want&(workspace.Write|workspace.Delete) != 0 {
		return names.CheckWrite(p)
	}
	return names.CheckName(p)
}

// first picks the refusal that comes first in gate order.
func first(refusals ...*workspace.Refusal) *workspace.Refusal {
	var best *workspace.Refusal
	rank := func(c workspace.Code) int {
		for i, k := range workspace.Codes() {
			if k == c {
				return i
			}
		}
		return len(workspace.Codes())
	}
	for _, r := range refusals {
		if r != nil && (best == nil || rank(r.Code) < rank(best.Code)) {
			best = r
		}
	}
	return best
}

// Class is the budget a tool draws from.
type Class int

// The classes of tools.
const (
	Reads Class = iota
	Writes
	Execs
)

// rates are the built-in budgets: a minute's calls and the burst. An agent
// that works stays below them; a loop does not (reference: 600/120/60).
var rates = [...]struct {
	perMinute float64
	burst     int
}{Reads: {600, 100}, Writes: {120, 40}, Execs: {60, 20}}

// PauseAfter is how many refusals in one session pause it for the person.
const PauseAfter = 50

// retry is how long to wait for one token at a rate.
func retry(perMinute float64) time.Duration {
	return time.Duration(float64(time.Minute) / perMinute)
}
