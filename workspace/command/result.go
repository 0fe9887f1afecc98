package command

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// States of a job.
const (
	Running = "running"
	Exited  = "exited" // by itself, with Exit or by a signal of its own
	Killed  = "killed" // by us, with Reason
)

// Reasons why a job was killed by us.
const (
	reasonTimeout   = "timeout"
	reasonOutput    = "output_limit"
	reasonMemory    = "memory"
	reasonDisk      = "disk"
	reasonKilled    = "killed"
	reasonRevoked   = "revoked"
	reasonCancelled = "cancelled"
)

// Result is what a caller may see of a job: after Run, Output or Kill.
type Result struct {
	// Job is the handle for Output and Kill.
	Job string
	// State is Running, Exited or Killed.
	State string
	// Exit is the exit code when State is Exited. 128+n usually means signal n.
	Exit int
	// Signal names the signal that ended the command, "" if none.
	Signal string
	// Reason says why we killed it: timeout, output_limit, memory, disk,
	// killed, revoked, cancelled.
	Reason string
	// Duration is the wall clock from start to end or to now.
	Duration time.Duration
	// Output is redacted output: head and tail for Run and Kill, the bytes
	// from the cursor for Output. It is cut at UTF-8 boundaries.
	Output []byte
	// Next is the cursor behind what there is (Run, Kill) or behind what is in
	// Output (Output).
	Next int64
	// Bytes is the stored, redacted output so far; Dropped the part of it that
	// is not in Output (Run and Kill only).
	Bytes, Dropped int64
	// Redacted counts the stretches that were replaced.
	Redacted int
	// Changed lists paths under writable roots that were created, changed or
	// removed while it ran, as virtual paths, sorted. Set when it has ended.
	Changed []string
	// ChangedTruncated says that a bound was hit and Changed is not complete.
	ChangedTruncated bool
	// CreatedDenied lists new files that tools refuse to touch: names on the
	// denylist, git directories, bare repositories.
	CreatedDenied []string
	// Sandbox is the kind of sandbox, "none" for an unsandboxed run.
	Sandbox string
	// Executable is the SHA-256 of the program, for the owner's log.
	Executable string
}

// Header is the first line of a tool's result.
func (r Result) Header() string {
	var b strings.Builder
	fmt.Fprintf(&b, "job=%s state=%s", r.Job, r.State)
	switch r.State {
	case Exited:
		fmt.Fprintf(&b, " exit=%d", r.Exit)
	case Killed:
		fmt.Fprintf(&b, " reason=%s", r.Reason)
	}
	if r.Signal != "" {
		fmt.Fprintf(&b, " signal=%s", r.Signal)
	}
	fmt.Fprintf(&b, " duration=%s bytes=%d next=%d dropped=%d redacted=%d sandbox=%s",
		r.Duration.Round(time.Millisecond), r.Bytes, r.Next, r.Dropped, r.Redacted, sandboxWord(r.Sandbox))
	return b.String()
}

func sandboxWord(kind string) string {
	name, _, _ := strings.Cut(kind, " ")
	return name
}

// runeStart returns the largest boundary of a UTF-8 sequence in p that is not
// behind i. Bytes that are no UTF-8 are boundaries everywhere.
func runeStart(p []byte, i int) int {
	if i >= len(p) {
		return len(p)
	}
	for back := range min(utf8.UTFMax, i+1) {
		if at := i - back; utf8.RuneStart(p[at]) {
			if _, n := utf8.DecodeRune(p[at:]); at+n > i && n > 1 {
				return at
			}
			return i
		}
	}
	return i
}
