package requester

import (
	"time"

	"github.com/google/uuid"

	"github.com/weftmesh/weft/workspace"
)

const (
	// longestWait is how long a call without a deadline may be under way: the
	// longest that any tool runs.
	longestWait = 10 * time.Minute
	// clockSkew is how far the two machines' clocks may differ.
	clockSkew = 2 * time.Minute
)

// checkAge refuses a call that arrives after the provider gave up on it: it
// may have waited in the channel while no path was up, and must not run long
// after anybody expects it. A call id is a UUIDv7 (RFC 9562 section 5.7),
// whose first 48 bits are the provider's clock in unix milliseconds; the
// call's signature covers it.
func checkAge(id string, deadline time.Duration, now time.Time) *workspace.Refusal {
	u, err := uuid.Parse(id)
	if err != nil || u.Version() != 7 {
		return workspace.Refuse(workspace.BadArguments, "the call id is not a UUIDv7")
	}
	var ms int64
	for _, b := range u[:6] {
		ms = ms<<8 | int64(b)
	}
	if deadline <= 0 || deadline > longestWait {
		deadline = longestWait
	}
	switch age := now.Sub(time.UnixMilli(ms)); {
	case age > deadline+clockSkew:
		return workspace.Refuse(workspace.Expired, "the call is %v old and was given up %v ago; make it again", age.Round(time.Second), (age - deadline).Round(time.Second))
	case age < -clockSkew:
		return workspace.Refuse(workspace.BadArguments, "the call is from the future; compare the two clocks (weft doctor)")
	}
	return nil
}
