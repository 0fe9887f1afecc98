package node

import (
	"os"
	"runtime/debug"
)

// An idle node should stay under 45 MB, of which the program's own pages are
// the larger half. With a live heap of a few MB, GOGC=50 costs next to no CPU
// and halves what the heap grows by between collections; the soft limit makes
// the collector work harder before a busy node grows past it.
const (
	gcPercent = 50
	softLimit = 256 << 20
)

// Tune sets the garbage collector for a daemon. It is called once by the
// process that runs a node, since it concerns the whole process. GOGC and
// GOMEMLIMIT, if set, are left as the operator wants them.
func Tune() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(softLimit)
	}
}

// Settle gives back what only the start needed. It is called once, after the
// node is ready, and takes some milliseconds.
func Settle() { debug.FreeOSMemory() }
