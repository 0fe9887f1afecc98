//go:build unix

package world

import (
	"testing"
	"time"
)

// poll is how often Until looks.
const poll = 20 * time.Millisecond

// Patience is the deadline for what takes a moment on an idle machine: it is
// long, since it is only waited out by a test that fails.
const Patience = 60 * time.Second

// Until looks at the condition until it holds, and fails the test when it does
// not within d. The condition returns "" when it holds, else what is still
// missing, which the failure shows.
func Until(t testing.TB, d time.Duration, what string, missing func() string) {
	t.Helper()
	if last := settle(d, missing); last != "" {
		t.Fatalf("%s: not within %v: %s", what, d, last)
	}
}

// settle is Until without a test: it returns what is missing in the end.
func settle(d time.Duration, missing func() string) string {
	deadline := time.NewTimer(d)
	defer deadline.Stop()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		last := missing()
		if last == "" {
			return ""
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			return last
		}
	}
}
